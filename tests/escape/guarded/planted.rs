//! What one run leaves behind must not widen what the next one may do.

use std::fs;
use std::os::unix::fs::symlink;

use super::{guarded, project, snapshot, unchanged};
use crate::support::{Sandbox, need, real_home};

fn with_git() -> Option<Sandbox> {
    need("git").then(|| {
        let sandbox = project(Sandbox::below(real_home()));
        sandbox.script("git init -q . && git config user.name t && git config user.email t@t").ok();
        sandbox
    })
}

/// The built-in rules make names in `.git` writable. A link at one of them leads out.
#[test]
fn link_at_a_built_in_write_rule() {
    let Some(sandbox) = with_git() else { return };
    let target = sandbox.file_beside("target/file", "old");
    let before = snapshot(&sandbox);
    let dir = target.parent().unwrap().display().to_string();
    let plant = format!(
        "cd .git; ln -s {dir}/file gc.pid; ln -s {dir}/new MERGE_RR; ln -s {dir} rr-cache; ln -s ../.envrc gc.log; \
         ln -s ../.claude/hooks BISECT_LOG; rm -rf logs; ln -s {dir} logs; ln -s .. BISECT_NAMES; ln -s {dir} index.stash.1; \
         ln -s {dir}/head FETCH_HEAD; rm -rf refs; ln -s {dir} refs; rm -rf objects; ln -s {dir} objects; rm HEAD; ln -s {dir}/h HEAD; true"
    );
    // Whatever can be planted from inside, and then all of it, as a run under other rules could have.
    guarded(&sandbox).sh(&plant).ok();
    let seen = snapshot(&sandbox);
    assert_eq!(seen, before);
    sandbox.script(&format!("rm -rf .git/rr-cache .git/[B]*; {plant}")).ok();
    assert!(sandbox.project.join(".git/rr-cache").is_symlink(), "nothing was planted");
    let use_it = format!(
        "cd .git; for f in gc.pid MERGE_RR rr-cache/x gc.log BISECT_LOG/new logs/x BISECT_NAMES/.envrc index.stash.1/y FETCH_HEAD refs/r \
         objects/o HEAD {dir}/file {dir}/direct ../.envrc; do echo new > $f; mv ../mine $f; mkdir -p $f; ln -s x $f; done; true"
    );
    let outcome = guarded(&sandbox).sh(&use_it).ok();
    unchanged(&sandbox, &before, &outcome);
    let left: Vec<_> = crate::support::entries(target.parent().unwrap());
    assert_eq!(left, std::slice::from_ref(&target), "{}", outcome.describe());
    assert_eq!(fs::read_to_string(&target).unwrap(), "old");
}

/// A `write` rule for an absent path, for a file or for a directory makes that one name writable, in a directory that is
/// not: it must not become a link, which the next run would follow.
#[test]
fn link_at_a_write_rule_of_the_next_run() {
    let sandbox = project(Sandbox::below(real_home()));
    let secret = sandbox.file_beside("outside/secret", "old");
    let (file, dir, absent) = (sandbox.file_beside("w/file", "x"), sandbox.beside("w/dir"), sandbox.beside("w/absent"));
    fs::create_dir(&dir).unwrap();
    let policy = format!(
        "[files]\nwrite = [\"{}\", \"{}\", {{ path = \"{}\", optional = true }}]\n",
        file.display(),
        dir.display(),
        absent.display()
    );
    let w = sandbox.beside("w");
    let plant = format!(
        "cd {}; rm -f file; mv dir {1}/moved; rm -rf dir; for n in file dir absent; do ln -s {2} $n; ln -s {2} {1}/l; mv {1}/l $n; ln {1}/l $n; \
         mv --exchange {1}/l $n; touch {1}/f; mv {1}/f $n; rm -rf $n; cp -P {1}/l $n; done; true",
        w.display(),
        sandbox.project.display(),
        secret.parent().unwrap().display()
    );
    let _ = sandbox.run().policy(&policy).sh(&plant);
    for name in [&file, &dir, &absent] {
        assert!(!name.is_symlink(), "{}", name.display());
    }
    let use_it =
        format!("cd {}; echo new > file/secret; echo new > dir/secret; echo new > absent/secret; true", w.display());
    let outcome = sandbox.run().policy(&policy).sh(&use_it);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "old", "{}", outcome.describe());
}

/// A link there is then the host's own, and followed; unless the directory that it lies in can be written too.
#[test]
fn link_of_the_host_at_a_write_rule() {
    let sandbox = project(Sandbox::below(real_home()));
    let data = sandbox.file_beside("outside/data", "old").parent().unwrap().to_owned();
    let link = sandbox.beside("w/link");
    fs::create_dir(link.parent().unwrap()).unwrap();
    symlink(&data, &link).unwrap();
    let script = format!("cd {}; echo new > data; rm -f {0}; ln -sfn /etc {0}; true", link.display());
    sandbox.run().write(&link).sh(&script).ok();
    assert_eq!(fs::read_to_string(data.join("data")).unwrap(), "new\n");
    assert_eq!(fs::read_link(&link).unwrap(), data);
    sandbox.run().write(&link).write(link.parent().unwrap()).sh("true").refused().says("link");
}

/// `.git` as a file says where the repository is. What it says is not to be believed.
#[test]
fn git_file_that_names_a_foreign_common_directory() {
    if !need("git") {
        return;
    }
    let sandbox = project(Sandbox::below(real_home()));
    let foreign = sandbox.beside("foreign");
    let make = format!(
        "git init -q {0} && cd {0} && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m x && git worktree add -q ../own && rm -rf ../own",
        foreign.display()
    );
    sandbox.script(&make).ok();
    let list = format!("cd {}; find . -type f -exec cksum {{}} + ; find . | sort", foreign.display());
    let before = sandbox.script(&list).ok().out;
    let plant = format!(
        "mkdir -p sub sub2/x; printf 'gitdir: {0}/.git/worktrees/own\\n' > sub/.git; printf 'gitdir: {0}/.git\\n' > sub2/.git; \
         printf '{0}/.git\\n' > sub2/x/commondir; printf 'ref: refs/heads/x\\n' > sub2/x/HEAD; mkdir sub3; printf 'gitdir: ../sub2/x\\n' > sub3/.git; true",
        foreign.display()
    );
    guarded(&sandbox).sh(&plant).ok();
    for sub in ["sub", "sub2", "sub3"] {
        let dir = sandbox.project.join(sub);
        let attack = format!(
            "cd {0}; for d in .git .git/worktrees/own; do for f in HEAD index config commondir objects/new refs/heads/new logs/new gitdir hooks/pre-commit; \
             do echo new > $d/$f; mv $d/$f $d/away; rm -f $d/$f; done; done; cd {1}; git commit -q --allow-empty -m y; git update-ref refs/heads/z HEAD; git gc -q; true",
            foreign.display(),
            dir.display()
        );
        let outcome = sandbox.run().cwd(&dir).sh(&attack);
        assert_eq!(sandbox.script(&list).ok().out, before, "{sub}\n{}", outcome.describe());
    }
}

/// Protected names behind links that the host has: each link of the way holds, also where it leads nowhere yet.
#[test]
fn links_of_the_host_on_the_way() {
    let sandbox = Sandbox::below(real_home());
    sandbox.file("real/hooks/hook", "old");
    for (target, link) in [
        ("real", "mid"),
        ("mid", ".claude"),
        ("conf/mcp.json", ".mcp.json"),
        ("later", ".vscode"),
        ("chain", ".envrc"),
        ("end", "chain"),
    ] {
        symlink(target, sandbox.project.join(link)).unwrap();
    }
    let script = "echo new > .claude/hooks/hook; echo new > real/hooks/new; mkdir -p other/hooks; echo new > other/hooks/new
        rm mid; ln -s other mid; mv other mid; mv real away; ln -s other real; mv -T other real; rm -f .claude; ln -s other .claude
        mkdir conf; echo new > conf/mcp.json; mkdir conf2; echo new > conf2/mcp.json; mv conf2 conf; ln -s conf2 conf; rmdir conf
        mv -T conf2 conf; mkdir later; echo new > later/tasks.json; ln -s other later; echo new > end; rm chain; echo new > chain; ln -s mine end
        echo new > .envrc; echo ok > ok; true";
    sandbox.sh(script).ok();
    let look = "cat .claude/hooks/* .mcp.json .vscode/* .envrc 2>/dev/null; ls -d conf/mcp.json later end; cat ok";
    sandbox.script(look).prints("oldok");
}
