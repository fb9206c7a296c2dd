//! What rules about paths come to.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Sandbox, real_home};

#[test]
fn only_what_a_rule_makes_writable_can_be_written() {
    let sandbox = Sandbox::below(real_home());
    let beside = sandbox.file_beside("file", "old");
    let script = format!("echo new > in; echo new > {}", beside.display());
    sandbox.sh(&script).fails().says("Read-only file system");
    assert_eq!(fs::read_to_string(&beside).unwrap(), "old");
    assert_eq!(fs::read_to_string(sandbox.project.join("in")).unwrap(), "new\n");
    let dir = beside.parent().unwrap().join("more");
    fs::create_dir(&dir).unwrap();
    sandbox.run().write(&dir).sh(&format!("echo x > {}/f", dir.display())).ok();
    assert!(dir.join("f").exists());
}

#[test]
fn a_single_file_can_be_writable() {
    let sandbox = Sandbox::below(real_home());
    let file = sandbox.file_beside("file", "old\n");
    let other = sandbox.file_beside("other", "old\n");
    let script = format!("echo new >> {}; echo new >> {}", file.display(), other.display());
    sandbox.run().write(&file).sh(&script).fails();
    assert_eq!(fs::read_to_string(file).unwrap(), "old\nnew\n");
    assert_eq!(fs::read_to_string(other).unwrap(), "old\n");
}

#[test]
fn the_project_is_the_work_tree_around_the_working_directory() {
    let sandbox = Sandbox::below(real_home());
    sandbox.script("git init -q .; mkdir -p a/b").ok();
    sandbox.run().cwd(sandbox.project.join("a/b")).sh("echo x > ../../top").ok();
    assert!(sandbox.project.join("top").exists());
}

#[test]
fn hidden_files_and_directories_cannot_be_seen() {
    let sandbox = Sandbox::below(real_home());
    let dir = sandbox.file_beside("secrets/key", "secret").parent().unwrap().to_path_buf();
    let file = sandbox.file_beside("file", "secret");
    let script =
        format!("cat {0} {1}/key; ls -A {1}; echo x > {0}; echo x > {1}/new; true", file.display(), dir.display());
    let run = sandbox.run().hide(&dir).hide(&file);
    run.sh(&script).ok().prints("");
    assert_eq!(fs::read_to_string(&file).unwrap(), "secret");
    assert!(!dir.join("new").exists());
}

#[test]
fn hiding_holds_for_where_a_link_leads() {
    let sandbox = Sandbox::below(real_home());
    let real = sandbox.file_beside("real/key", "secret");
    let link = sandbox.beside("link");
    symlink(real.parent().unwrap(), &link).unwrap();
    let script = format!("cat {}/key {}", link.display(), real.display());
    sandbox.run().hide(&link).sh(&script).fails().prints("");
}

#[test]
fn what_is_named_below_a_hidden_directory_is_seen() {
    let sandbox = Sandbox::below(real_home());
    let dir = sandbox.beside("dir");
    sandbox.file_beside("dir/secret", "secret");
    let seen = sandbox.file_beside("dir/seen", "seen");
    let script = format!("ls -A {}; cat {}", dir.display(), seen.display());
    sandbox.run().hide(&dir).read(&seen).sh(&script).ok().prints("seen\nseen");
}

#[test]
fn hiding_everything_leaves_what_is_named() {
    let sandbox = Sandbox::below(real_home());
    let beside = sandbox.file_beside("file", "x");
    let read = "read = [\"/usr\", \"/bin\", \"/lib\", { path = \"/lib64\", optional = true }]";
    let policy = format!("[files]\nhide = [\"/\"]\n{read}\n");
    let script = format!("ls -A /; test ! -e {}; test ! -e /etc/passwd; echo x > /tmp/x; echo x > f", beside.display());
    let outcome = sandbox.run().policy(&policy).sh(&script).ok().shows("usr").lacks("etc").lacks("srv").lacks("boot");
    assert!(sandbox.project.join("f").exists(), "{}", outcome.describe());
}

#[test]
fn the_users_secrets_are_hidden_without_being_named() {
    let sandbox = Sandbox::below(real_home());
    for secret in [".ssh/id_ed25519", ".aws/credentials", ".gnupg/key", ".config/gh/hosts.yml"] {
        sandbox.file_beside(&format!("h/{secret}"), "secret");
    }
    sandbox.file_beside("h/plain", "plain");
    let script = "cat $HOME/.ssh/* $HOME/.aws/* $HOME/.gnupg/* $HOME/.config/gh/* $HOME/plain";
    sandbox.sh(script).fails().prints("plain");
}

#[test]
fn absent_paths() {
    let sandbox = Sandbox::below(real_home());
    let absent = sandbox.beside("absent");
    sandbox.run().hide(&absent).read(absent.join("x")).argv(["true"]).ok();
    let policy = format!("[files]\nwrite = [{{ path = \"{}\", optional = true }}]\n", absent.display());
    sandbox.run().policy(&policy).argv(["true"]).ok();
    assert!(!absent.exists());
}

#[test]
fn a_writable_rule_for_an_absent_path_grants_its_creation() {
    let sandbox = Sandbox::below(real_home());
    let absent = sandbox.beside("absent");
    let script = format!("echo x > {0} && ! echo x > {0}2", absent.display());
    let outcome = sandbox.run().write(&absent).sh(&script);
    assert!(!sandbox.beside("absent2").exists());
    outcome.ok();
    assert_eq!(fs::read_to_string(absent).unwrap(), "x\n");
}

#[test]
fn a_stricter_rule_holds_inside_of_what_can_be_written() {
    let sandbox = Sandbox::below(real_home());
    let present = sandbox.file("present", "old");
    let absent = sandbox.project.join("absent");
    let script =
        "echo new > present; echo new > absent; mkdir absent; mv present gone; ln free absent; echo x > free; ls -A";
    sandbox.run().read(&present).read(&absent).sh(script).ok().prints("free\npresent");
    assert_eq!(fs::read_to_string(present).unwrap(), "old");
    assert!(!absent.exists() && sandbox.project.join("free").exists());
}

#[test]
fn what_tools_outside_trust_cannot_be_written() {
    let sandbox = Sandbox::below(real_home());
    let script =
        "mkdir -p .claude .vscode; for f in .mcp.json .claude/settings.json .bashrc .envrc .vscode/tasks.json; do
        echo x > $f; done; echo x > plain";
    sandbox.sh(script).ok();
    assert!(sandbox.project.join("plain").exists());
    for name in [".mcp.json", ".claude/settings.json", ".bashrc", ".envrc", ".vscode/tasks.json"] {
        assert!(!sandbox.project.join(name).exists(), "{name}");
    }
}

#[test]
fn a_writable_rule_does_not_follow_a_planted_link() {
    let sandbox = Sandbox::below(real_home());
    let target = sandbox.file_beside("target/file", "old");
    let planted = sandbox.project.join("planted");
    symlink(target.parent().unwrap(), &planted).unwrap();
    sandbox.run().write(&planted).sh("echo new > planted/file").refused().says("planted");
    assert_eq!(fs::read_to_string(target).unwrap(), "old");
}

#[test]
fn the_host_tree_is_untouched_by_a_run() {
    let sandbox = Sandbox::below(real_home());
    sandbox.file("a", "x");
    let list = "find .. -path ../s -prune -o -printf '%p %y %m %s %T@\\n' | sort";
    sandbox.run().argv(["true"]).ok(); // makes the state directory
    let before = sandbox.script(list).ok().out;
    sandbox.run().hide(sandbox.beside("nothing")).read(sandbox.beside("h/x")).argv(["true"]).ok();
    sandbox.script(list).ok().prints(before.trim_end());
}

#[test]
fn ssh_accepts_the_systems_configuration() {
    if crate::support::need("ssh") {
        let sandbox = Sandbox::new();
        sandbox.run().argv(["ssh", "-G", "host.invalid"]).ok().shows("hostname host.invalid");
    }
}

#[test]
fn a_writable_directory_can_remove_itself_and_the_run_goes_on() {
    let sandbox = Sandbox::below(real_home());
    let (dir, file) = (sandbox.beside("gone"), sandbox.file("keep/x", ""));
    std::fs::create_dir(&dir).unwrap();
    let script =
        format!("rmdir {0} && rm -r keep && sleep 0.5 && mkdir keep && touch keep/y && echo on", dir.display());
    let run = sandbox.run().options(["--write", dir.to_str().unwrap(), "--read", "other"]);
    run.sh(&script).ok().prints("on");
    assert!(!dir.exists() && !file.exists());
}
