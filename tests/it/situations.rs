//! What people of other sandboxes had to find out for hours: here the message says cause, rule and cure, and following it
//! is enough.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::io::Errno;

use crate::support::git::repository;
use crate::support::{Answer, Outcome, Sandbox, is_root, need};

/// A script inside, run by a person's shell with these options.
fn run(sandbox: &Sandbox, options: &str, script: &str) -> Outcome {
    let script = script.replace('\'', r"'\''");
    sandbox.script(&format!("exec $SK run --no-config {options} -- sh -c '{script}'"))
}

/// What fails says the words and ends with the advice; with the options that this consists of it succeeds, and without
/// those that it wants left out.
#[track_caller]
fn advised(sandbox: &Sandbox, options: &str, script: &str, words: &[&str], advice: &str) {
    let outcome = words.iter().fold(run(sandbox, options, script).fails(), |outcome, words| outcome.says(words));
    outcome.says(&format!("; {advice}\n"));
    let cured = match (advice.strip_prefix("allow with "), advice.strip_prefix("leave out ")) {
        (Some(allow), _) => format!("{options} {allow}"),
        (_, Some(leave)) => options.replace(leave, ""),
        _ => panic!("no advice that can be followed: {advice}"),
    };
    run(sandbox, &cured, script).ok();
}

#[test]
fn a_file_of_ones_own_is_on_a_read_only_file_system() {
    let sandbox = Sandbox::below(crate::support::real_home());
    sandbox.file_beside("q/f", "");
    let dir = sandbox.beside("q").display().to_string();
    let words = ["Read-only file system", "denied by policy: create "];
    advised(&sandbox, "", "echo > ../q/new", &words, &format!("allow with --write {dir}"));
}

#[test]
fn a_build_cannot_write_where_a_rule_of_the_command_line_says_so() {
    let sandbox = Sandbox::new();
    sandbox.file("dist/f", "");
    let words = ["create ./dist/x (read-only, --read dist)"];
    advised(&sandbox, "--read dist", "echo > dist/x", &words, "leave out --read dist");
}

#[test]
fn a_tool_wants_to_write_its_settings() {
    let sandbox = Sandbox::new();
    let words = ["create ./.vscode (read-only, built-in: tools outside the sandbox execute or trust it)"];
    advised(&sandbox, "", "mkdir .vscode", &words, "allow with --write ./.vscode");
}

#[test]
fn git_wants_to_write_its_configuration() {
    let words = [".git/config", "git outside the sandbox runs programs that it names"];
    advised(&repository(), "", "git config user.name x", &words, "allow with --git open");
}

#[test]
fn a_commit_in_a_directory_that_was_made_read_only() {
    let sandbox = repository();
    let words = ["denied by policy: ", "built-in"];
    let outcome = run(&sandbox, "--git closed", "git add -A && git commit -qm x --allow-empty").fails();
    words.iter().fold(outcome, |outcome, words| outcome.says(words));
    run(&sandbox, "", "git add -A && git commit -qm x --allow-empty").ok();
}

#[test]
fn a_connection_fails_and_nothing_says_that_the_network_is_off() {
    let sandbox = Sandbox::new();
    let connect = "python3 -c 'import socket, sys; s = socket.socket(); s.settimeout(1); sys.exit(s.connect_ex((\"127.1.2.3\", 9)) == 101)'";
    if need("python3") {
        // The loopback address is there without a network, so nothing is told that is not so.
        run(&sandbox, "", connect).ok();
    }
    let outside = connect.replace("127.1.2.3", "192.0.2.1");
    let words = ["network is off (built-in): a connection to 192.0.2.1:9 was tried; allow with --network host"];
    words.iter().fold(run(&sandbox, "", &outside).fails(), |outcome, words| outcome.says(words));
}

#[test]
fn what_is_hidden_looks_like_a_wrong_mode() {
    let sandbox = Sandbox::new();
    let secret = sandbox.file("secret", "key");
    // A root without capabilities is refused as everybody is.
    run(&sandbox, "--hide secret", "cat secret").fails().says("Permission denied");
    let why = sandbox.script("$SK why --no-config --hide=secret secret; true").ok();
    why.shows("(--hide secret)").shows("cannot be seen");
    run(&sandbox, "", "cat secret").ok().prints("key");
    assert_eq!(fs::metadata(secret).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn which_line_of_which_file_forbids_it() {
    let sandbox = Sandbox::new();
    sandbox.file("dist/f", "");
    let policy = sandbox.file_beside("policy.toml", "[files]\n# ours\nread = [\"p/dist\"]\n");
    let options = format!("--policy {}", policy.display());
    run(&sandbox, &options, "echo > dist/x").fails().says("policy.toml:3");
    sandbox.script(&format!("$SK why --no-config {options} --write dist/x")).fails().shows("policy.toml:3");
}

#[test]
fn nothing_is_denied_and_nothing_is_said() {
    let sandbox = Sandbox::new();
    for script in ["echo > a; rm a", "mkdir -p b/c && rm -r b", "test ! -w /usr", "touch /tmp/x"] {
        let outcome = run(&sandbox, "", script).ok();
        assert_eq!(outcome.err, "", "{script}");
    }
    // What fails outside as well is not the policy's doing.
    run(&sandbox, "", "cat nothing").fails().lacks("denied by policy");
}

#[test]
fn a_mount_that_fails_never_runs_the_command_without_it() {
    let sandbox = Sandbox::new();
    for call in ["open_tree", "move_mount", "mount_setattr", "fsmount"] {
        let refused = Answer { call, errno: Errno::PERM, flag: 0 };
        let outcome = sandbox.filtered(refused, &["run", "--no-config", "--", "touch", "ran"]);
        outcome.status(125).says("error: ");
        assert!(!sandbox.project.join("ran").exists(), "{call}");
    }
}

#[test]
fn a_project_that_cannot_be_written_does_not_mean_no_sandbox() {
    let sandbox = Sandbox::below(crate::support::real_home());
    fs::set_permissions(&sandbox.project, fs::Permissions::from_mode(0o555)).unwrap();
    run(&sandbox, "", "echo > ../outside").fails();
    assert!(!sandbox.beside("outside").exists());
    run(&sandbox, "", "pwd").ok();
    fs::set_permissions(&sandbox.project, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_command_inside_asks_for_more() {
    let sandbox = Sandbox::new();
    let target = sandbox.beside("outside");
    let inner = format!("{} run --no-config --write / -- touch {}", sandbox.binary(), target.display());
    run(&sandbox, "", &inner).fails().says("see `stockade doctor`");
    assert!(!target.exists());
}

#[test]
fn a_project_below_a_directory_that_cannot_be_listed() {
    let sandbox = Sandbox::new();
    let above = sandbox.beside("");
    fs::set_permissions(&above, fs::Permissions::from_mode(0o711)).unwrap();
    run(&sandbox, "", "echo > f; ls").ok().prints("f");
}

#[test]
fn the_user_has_another_number_than_the_image_thought() {
    let sandbox = Sandbox::new();
    run(&sandbox, "", "test \"$(stat -c %u .)\" = \"$(id -u)\" && touch f && test -O f").ok();
}

#[test]
fn no_network_namespace_can_be_made() {
    if !need("unshare") {
        return;
    }
    let sandbox = Sandbox::new();
    let limited = |options: &str| {
        let run =
            format!("echo 0 > /proc/sys/user/max_net_namespaces; exec $SK run --no-config {options} -- echo works");
        sandbox.outside(&["unshare", "-Ur", "sh", "-c", &run])
    };
    limited("").status(125).says("max_net_namespaces").lacks("works");
    limited("--network host").ok().prints("works");
}

#[test]
fn a_mount_that_nobody_expected_is_no_reason_to_stop() {
    if !need("unshare") {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "mount -t tmpfs none /mnt && mkdir -p /mnt/a/b && mount -t tmpfs none /mnt/a/b && exec $SK run --no-config -- ls /mnt/a";
    sandbox.outside(&["unshare", "-Urm", "sh", "-c", script]).ok().prints("b");
}

#[test]
fn a_rule_names_what_is_not_there() {
    let sandbox = Sandbox::new();
    let policy = sandbox.file_beside("policy.toml", "[files]\noverlay = [\"/nonexistent/cache\"]\n");
    let options = format!("--policy {}", policy.display());
    let outcome = run(&sandbox, &options, "true").status(125);
    outcome.says("policy.toml:2").says("does not exist").says("optional = true");
    fs::write(&policy, "[files]\noverlay = [{ path = \"/nonexistent/cache\", optional = true }]\n").unwrap();
    run(&sandbox, &options, "true").ok();
}

#[test]
fn the_working_directory_was_removed() {
    let sandbox = Sandbox::new();
    let script = "mkdir gone; cd gone; rmdir ../gone; $SK run --no-config -- pwd";
    sandbox.script(script).status(125).says("gone").says("--chdir");
    sandbox
        .script(&format!(
            "mkdir gone; cd gone; rmdir ../gone; $SK run --no-config --chdir {} -- true",
            sandbox.project.display()
        ))
        .ok();
}

#[test]
fn a_disk_that_is_full_is_an_overlay_of_a_mebibyte() {
    let sandbox = Sandbox::new();
    sandbox.file_beside("cache/f", "");
    let policy = |size: &str| {
        let text = format!("[overlay]\nsize = \"{size}\"\n[files]\noverlay = [\"cache\"]\n");
        format!("--policy {}", sandbox.file_beside("policy.toml", &text).display())
    };
    let fill = "head -c 3000000 /dev/zero > ../cache/big";
    let outcome = run(&sandbox, &policy("1MiB"), fill).fails();
    outcome.says("No space left on device").says("/cache").says("under [overlay] sets the limit");
    run(&sandbox, &policy("8MiB"), fill).ok();
}

#[test]
fn a_limit_is_taken_for_a_crash() {
    let sandbox = Sandbox::new();
    let outcome = run(&sandbox, "--limit wall-time=1s", "sleep 100");
    outcome.fails().says("wall-time").says("(--limit wall-time=1s); raise it with --limit wall-time=");
    run(&sandbox, "--limit wall-time=100s", "sleep 0.1").ok();
}

#[test]
fn a_user_asks_for_what_only_root_can_have() {
    let sandbox = Sandbox::new();
    let outcome = run(&sandbox, "--user nobody", "id -un");
    if is_root() {
        outcome.lacks("needs root");
    } else {
        outcome.status(125).says("--user needs root");
    }
}
