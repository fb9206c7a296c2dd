//! The command lines that clients send, and everyday commands inside of them.

use std::fs;
use std::process::Command;

use crate::support::{is_root, need};
use crate::world::World;

/// An empty repository, as a client finds it.
fn repository(world: &World) {
    let dir = world.path();
    for entry in crate::support::entries(dir) {
        fs::remove_dir_all(entry).unwrap();
    }
    assert!(Command::new("git").args(["init", "-q"]).arg(dir).status().unwrap().success());
    for name in ["user.name", "user.email"] {
        assert!(Command::new("git").arg("-C").arg(dir).args(["config", name, "a@b"]).status().unwrap().success());
    }
}

/// srt 0.0.83 with `allowWrite: ["."]` and no domains.
fn srt() -> String {
    let denied = [
        ".gitconfig",
        ".gitmodules",
        ".bashrc",
        ".bash_profile",
        ".zshrc",
        ".zprofile",
        ".profile",
        ".ripgreprc",
        ".mcp.json",
        ".vscode",
        ".idea",
    ];
    let denied = denied.map(|name| format!("--ro-bind /dev/null $W/{name}")).join(" ");
    let setfcap = if is_root() { "--cap-add CAP_SETFCAP" } else { "" };
    format!(
        "mkdir -p $HOME/claude-empty $HOME/logs; touch $HOME/sock
        srt() {{ $B --new-session --die-with-parent --unshare-net --bind $HOME/sock $HOME/sock --setenv SANDBOX_RUNTIME 1 \
        --setenv TMPDIR /tmp $R --ro-bind $W/.git $W/.git --bind $HOME/logs $HOME/logs --bind $W $W {denied} \
        --ro-bind $HOME/claude-empty $W/.claude --ro-bind $W/.git/hooks $W/.git/hooks \
        --ro-bind $W/.git/config $W/.git/config --ro-bind $HOME/claude-empty $HOME/claude-empty --dev /dev --unshare-pid \
        --unshare-user --cap-drop ALL {setfcap} --proc /proc --unsetenv SRT_ALLOW_NESTED_USERNS -- bash -c \"$1\"; }}\n"
    )
}

/// Codex 0.171.0 with `-P :workspace`.
const CODEX: &str = "codex() { $B --as-pid-1 --new-session --die-with-parent $R --dev /dev \
    --perms 000 --tmpfs $HOME/daemon --remount-ro $HOME/daemon --bind $HOME $HOME \
    --perms 000 --tmpfs $HOME/daemon --remount-ro $HOME/daemon \
    --perms 555 --tmpfs $HOME/.git --remount-ro $HOME/.git --perms 555 --tmpfs $HOME/.agents --remount-ro $HOME/.agents \
    --bind $W $W --ro-bind $W/.git $W/.git --perms 555 --tmpfs $W/.agents --remount-ro $W/.agents \
    --perms 555 --tmpfs $W/.codex --remount-ro $W/.codex --perms 555 --tmpfs $W/.aws --remount-ro $W/.aws \
    --unshare-user --unshare-pid --unshare-ipc --unshare-net --proc /proc --cap-drop ALL --argv0 codex-linux-sandbox \
    -- bash -c \"$1\"; }\n";

#[test]
fn srt_gives_a_working_sandbox_with_nothing_on_the_host() {
    if !need("userns") || !need("git") || !need("bash") {
        return;
    }
    let world = World::new();
    repository(&world);
    let script = srt()
        + "srt 'echo a > a && git add -A && git commit -qm one && echo b > b && git stash -qu && git stash pop -q && cat b &&
            git status --short && git clean -qfdx && ls -A &&
            echo c > .mcp.json; mkdir .claude; echo d > .git/hooks/h; git config a.b c; ls -A; test -w . && echo writable'
        ls -A; git log --oneline | wc -l";
    let outcome = world.ours_as_it_is(&script).ok();
    let outcome = outcome.prints("Already up to date.\nb\n?? b\n.git\na\n.git\na\nwritable\n.git\na\n1");
    outcome
        .says(".mcp.json: Read-only file system")
        .says("cannot create directory")
        .says("could not write config file");
}

#[test]
fn srt_nests_another_namespace() {
    if !need("userns") || !need("git") || !need("bash") {
        return;
    }
    let world = World::new();
    repository(&world);
    let unshare = if is_root() { "unshare -Urmp --fork" } else { "unshare -Urmp --fork --mount-proc" };
    let script =
        srt() + &format!("srt '{unshare} bash -c \"echo a > a && cat a && git add -A; echo b > .mcp.json\"'; ls -A");
    world.ours_as_it_is(&script).ok().prints("a\n.git\na").says(".mcp.json: Read-only file system");
}

#[test]
fn codex_gives_a_working_sandbox_with_nothing_on_the_host() {
    if !need("userns") || !need("git") || !need("bash") {
        return;
    }
    let world = World::new();
    repository(&world);
    fs::create_dir(world.sandbox.home.join("daemon")).unwrap();
    let script = CODEX.to_owned()
        + "codex 'echo $0 $$; echo a > a && cat a; mkdir .codex; echo b > .git/x; echo c > $HOME/c; mkdir $HOME/.git
            ls -A $HOME/daemon; ls -A'; ls -A; ls -A $HOME";
    let outcome = world.ours_as_it_is(&script).ok();
    let outcome = outcome.prints("codex-linux-sandbox 1\na\n.git\na\n.git\na\nc\ndaemon");
    outcome.says(".codex").says(".git/x: Read-only file system");
}

#[test]
fn everyday_commands_behave_as_outside() {
    if !need("userns") || !need("git") || !need("bash") {
        return;
    }
    let everyday = "
        mkdir -p w && cd w && git init -q . && git config user.name a && git config user.email b
        mkdir s && echo one > s/f && ln -s f s/l && echo two > g
        git add -A && git commit -qm one && echo three > u && git stash -qu; echo $?
        git stash pop -q; git status --short; git clean -fdx; echo $?
        cp -a . ../copy; echo $?; (cd ../copy && find . -path ./.git -prune -o -print | sort)
        tar cf ../t.tar . && mkdir ../x && tar xf ../t.tar -C ../x; echo $?; ls -A ../x
        grep -r one s ; echo $?; find . -type f -path './s/*'; mkdir -p .vscode; echo $?; rm -rf ../copy ../x ../t.tar .vscode
        mktemp -p . | wc -l; git branch -q b; git checkout -q b; git log --format=%s; rm -rf tmp.*; ls -A";
    let world = World::new();
    let outside = world.ours(everyday).ok();
    let script = format!(
        "$B $R --bind $W $W --ro-bind /dev/null $W/.mcp.json --ro-bind /dev/null $W/w/.gitmodules --dev /dev --proc /proc \
         --unshare-pid -- bash -c \"$(cat <<'END'\n{everyday}\nEND\n)\""
    );
    let inside = world.ours(&script).ok();
    assert_eq!((&outside.out, &outside.err), (&inside.out, &inside.err), "{}", inside.describe());
}
