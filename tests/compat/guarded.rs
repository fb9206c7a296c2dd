//! What bubblewrap makes on the host to deny a name: here nothing is made, and the name is denied all the same.

use std::fs;

use crate::support::{need, nested};
use crate::world::World;

/// Options that deny `$W/x` where the host has no such name.
const DENIALS: [&str; 5] = [
    "--ro-bind /dev/null $W/x",
    "--ro-bind $W/e $W/x",
    "--perms 555 --tmpfs $W/x --remount-ro $W/x",
    "--ro-bind-data 9 $W/x",
    "--ro-bind /dev/null $W/x/deep/er",
];

#[test]
fn nothing_is_made_and_the_name_is_absent_and_denied() {
    if !need("userns") {
        return;
    }
    for denial in DENIALS {
        let world = World::new();
        let path = denial.rsplit("$W/").next().unwrap();
        let path = if path.starts_with("x/") { "x/deep/er" } else { "x" };
        let script = format!(
            "$B $R --dev /dev --bind $W $W {denial} sh -c '
                test ! -e {path} && ls -a >/dev/null || exit 1
                case {path} in */*) mkdir -p $(dirname {path}) || exit 2;; esac
                echo a > {path}; mkdir {path}; ln -s g {path}; mv g {path}; ln g {path}; mknod {path} p
                test ! -e {path} && echo b > other && mkdir -p new/dir && mv new new2 && echo fine' 9</dev/null 2>err"
        );
        let outcome = world.ours(&script).ok().prints("fine");
        assert!(!world.path().join(path).exists(), "{}", outcome.describe());
        let err = fs::read_to_string(world.path().join("err")).unwrap();
        assert_eq!(err.matches("Read-only file system").count(), 6, "{denial}: {err}");
    }
}

#[test]
fn existing_names_stay_whatever_is_done_to_what_lies_above() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "$B $R --bind $W $W --ro-bind $W/d/f $W/d/f sh -c '
        echo evil > d/f; rm -f d/f; mv d z; mkdir -p z; mv g d/f; echo y > d/new; cat d/f d/new'";
    world.ours(script).ok().prints("one\ny");
    assert_eq!(fs::read_to_string(world.path().join("d/f")).unwrap(), "one\n");
}

#[test]
fn what_the_host_replaces_is_denied_still() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "$B $R --bind $W $W --ro-bind $W/d/f $W/d/f sh -c '
        touch ready; while ! test -e go; do sleep 0.05; done; echo evil > d/f; cat d/f' &
        while ! test -e ready; do sleep 0.05; done; echo host > t; mv t d/f; touch go; wait";
    world.ours(script).ok().prints("host").says("Read-only file system");
}

#[test]
fn a_denied_name_is_denied_at_every_place_it_is_shown() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "$B $R --bind $W /mnt --bind $W $W --ro-bind /dev/null $W/x sh -c '
        echo a > /mnt/x; echo b > /mnt/y && cat y; test ! -e x'";
    world.ours(script).ok().prints("b").says("/mnt/x: Read-only file system");
}

/// Clients follow links themselves, and say only where they lead.
#[test]
fn a_link_to_what_is_denied_is_denied_too() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "rm l; ln -s d/f rc; ln -s d conf; ln -s d/absent mcp; ln -s g other
        $B $R --bind $W $W --ro-bind $W/d/f $W/d/f --ro-bind /dev/null $W/d/absent sh -c '
            for l in rc conf mcp; do
                rm -f $l; mv $l moved; mv -T e $l; ln -sfn e $l; mkdir $l; echo evil > $l; mkdir -p $l && echo evil > $l/f
            done 2>/dev/null
            echo fine > conf/new; ln -sfn e other; readlink rc conf mcp other; ls'; cat d/f; ls d";
    world.ours(script).ok().prints("d/f\nd\nd/absent\ne\nconf\nd\ne\ng\nmcp\nother\nrc\none\nf\nnew\nsub");
}

#[test]
fn links_that_cannot_be_looked_for_are_said() {
    if !need("userns") || !need("user") {
        return;
    }
    let world = World::new();
    let bind = "$B $R --bind $W $W --ro-bind /dev/null $W/x true";
    let outcome = world.ours(&format!("chmod 300 .; {bind}; s=$?; chmod 700 .; exit $s")).status(1);
    outcome.says("bwrap: Can't look for links in ").says(": Permission denied");
    world.ours("$B $R --bind / / --bind $W $W --ro-bind /dev/null $W/x true").ok();
}

#[test]
fn the_path_inside_may_be_another_one() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "$B $R --tmpfs /mnt --bind $W /mnt/w --ro-bind /dev/null /mnt/w/x --chdir /mnt/w sh -c '
        echo a > x; echo b > y; mkdir q; mv y q/; cat q/y; chmod 700 q; touch .; test -w . && test -w g && echo w'; ls -d q; cat q/y";
    world.ours(script).ok().prints("b\nw\nq\nb");
}

#[test]
fn an_inner_user_namespace_is_served_and_cannot_undo_it() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let inner = nested(&["sh", "-c"]).join(" ");
    let script = format!(
        "$B $R --unshare-pid --proc /proc --bind $W $W --ro-bind /dev/null $W/x --ro-bind $W/d $W/d {inner} '
        echo a > x; echo b > y; cat y; mount -o remount,bind,rw $PWD; umount $PWD; echo c > x; echo d > d/f; cat d/f'"
    );
    world.ours(&script).ok().prints("b\none").says("x: Read-only file system");
    assert!(!world.path().join("x").exists());
}

#[test]
fn root_keeps_its_capabilities_and_cannot_undo_it() {
    if !need("userns") || !need("root") {
        return;
    }
    let world = World::new();
    let script = "$B $R --bind $W $W --ro-bind /dev/null $W/x --ro-bind $W/d $W/d sh -c '
        grep -q CapEff:.000001ffffffffff /proc/self/status || grep CapEff /proc/self/status
        mount -o remount,bind,rw $PWD; umount $PWD; umount -l /; echo a > x; echo b > d/f; chown 5:5 g 2>/dev/null; cat d/f'";
    world.ours(script).ok().shows("one").says("x: Read-only file system");
    assert!(!world.path().join("x").exists());
}

#[test]
fn what_is_mounted_in_between_is_what_it_is() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "$B $R --bind $W $W --ro-bind /dev/null $W/x --tmpfs $W/e --bind $W/d/sub $W/d/sub sh -c '
        echo a > e/t; cat e/t; echo b > d/sub/t; mv e f; rmdir d/sub; mv d/sub d/s2; ls e d/sub'; ls e d/sub";
    world.ours(script).ok().prints("a\nd/sub:\nt\n\ne:\nt\nd/sub:\nt\n\ne:");
}

#[test]
fn both_run_at_once_and_neither_takes_the_others_names() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "
        $B $R --bind $W $W --ro-bind /dev/null $W/x sh -c 'touch one; while ! test -e two; do sleep 0.05; done' &
        while ! test -e one; do sleep 0.05; done
        $B $R --bind $W $W --ro-bind /dev/null $W/x sh -c 'touch two'; wait
        $B $R --bind $W $W --ro-bind /dev/null $W/x sh -c 'echo a > x'; test ! -e x && echo absent";
    world.ours(script).ok().prints("absent").says("x: Read-only file system");
}

#[test]
fn what_goes_on_after_the_command_is_served() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "$B $R --dev /dev --unshare-pid --bind $W $W --ro-bind /dev/null $W/x sh -c '
        (exec >/dev/null 2>&1; while ! test -e go; do sleep 0.05; done; echo a > x; echo late > y) & exit 7'
        echo $?; touch go; while ! test -s y; do sleep 0.05; done; cat y; test ! -e x && echo absent";
    world.ours(script).ok().prints("7\nlate\nabsent");
}

#[test]
fn the_log_tells_what_was_guarded_and_what_was_denied() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "BWRAP_STOCKADE_LOG=$W/log $B $R --dev /dev --bind $W $W --ro-bind /dev/null $W/x sh -c 'echo a > x' 2>/dev/null
        sed \"s#$W#W#g\" log";
    let told = "guards W/x (--ro-bind /dev/null W/x)\nserves W (--bind W W)\ndenied create W/x (read-only, --ro-bind /dev/null W/x)";
    world.ours(script).ok().prints(told);
}

#[test]
fn the_reaper_is_no_door_to_the_host() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "$B $R --unshare-user --unshare-pid --proc /proc sh -c '
        readlink /proc/1/exe; for fd in /proc/1/fd/*; do readlink $fd; done; ls /proc/1/root/ 2>&1 | grep -o Permission
        ls -di / /.. | cut -d\" \" -f1 | uniq | wc -l'";
    world.ours(script).ok().prints("Permission\n1");
}

#[test]
fn the_same_as_a_command_of_stockade() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script =
        "$SK bwrap --version; $SK bwrap --help | head -1; $SK bwrap $R --bind d /mnt -- sh -c 'ls /mnt; exit 5'";
    let told = "bubblewrap 0.11.0\nusage: stockade bwrap [OPTIONS...] [--] COMMAND [ARGS...]\nf\nsub";
    world.ours(script).status(5).prints(told);
    world.ours("$SK bwrap --bind").status(1).says("bwrap: --bind takes two arguments");
}

#[test]
fn owners_have_the_numbers_of_inside() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let script = "$B $R --unshare-user --uid 7 --gid 8 --bind $W $W --ro-bind /dev/null $W/x sh -c '
        touch o; chown 7:8 o && chown 7 g && stat -c %u:%g o; chown 3:3 o'";
    world.ours(script).status(1).prints("7:8").says("Invalid argument");
}

#[test]
fn a_sandbox_inside_is_possible_where_it_guards_nothing() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let outer =
        "$B $R --dev /dev --unshare-pid --proc /proc --bind $W $W --ro-bind /dev/null $W/x $B --bind / / --dev /dev";
    world.ours(&format!("{outer} sh -c 'echo a > y; cat y; echo b > x'")).shows("a").says("x: Read-only file system");
    let denial = "--ro-bind /dev/null $W/z true";
    world.ours(&format!("{outer} {denial}")).status(1).says("names cannot be guarded here");
}

/// How many mounts there are below the project.
const MOUNTS: &str = "grep -c \" $PWD/\" /proc/self/mountinfo";

#[test]
fn where_nothing_is_guarded_the_kernel_serves_alone() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let inner = nested(&["sh", "-c"]).join(" ");
    let options =
        "$R --dev /dev --proc /proc --unshare-user --bind $W $W --ro-bind /dev/null $W/x --ro-bind /dev/null $W/d/y";
    let script = format!("echo a > e/f; cat e/f; {MOUNTS}; mkdir n; echo b > n/f; cat n/f; {MOUNTS}");
    // d/sub and e; a new one is a mount too, but not in a further namespace, where nothing would lock that.
    for (capabilities, mounts) in
        [("--cap-drop ALL", 3), ("--cap-drop ALL --cap-add CAP_SETFCAP", 2), ("--cap-drop ALL --disable-userns", 2)]
    {
        let call = format!("$B {options} --unshare-pid {capabilities} sh -c '{script}'");
        world.ours(&call).ok().prints(&format!("a\n2\nb\n{mounts}"));
    }
    world.ours(&format!("$B {options} --unshare-pid --cap-drop ALL {inner} '{script}'")).ok().prints("a\n2\nb\n2");
    // Nobody could end all of it.
    world.ours(&format!("$B {options} --cap-drop ALL sh -c '{script}; true'")).ok().prints("a\n0\nb\n0");
}

#[test]
fn what_is_served_alone_is_moved_and_removed_as_anything() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    let inner = nested(&["sh", "-c"]).join(" ");
    let script = "set -e; mkdir n n/m; touch n/m/f; mv n e/n; mv e/n/m .; rm -r e/n; mv d/sub e/; mv e/sub e/s2; rmdir e/s2
        mkdir a b; touch a/f; mv a b/; mv b/a/f b/; rmdir b/a; mkdir c; mv -T c b/c; rmdir b/c; rm -r b m e; ls -A | tr \"\\n\" \" \"";
    let options =
        "$R --dev /dev --proc /proc --unshare-user --unshare-pid --cap-drop ALL --bind $W $W --ro-bind /dev/null $W/x";
    for shell in ["sh -c", &inner] {
        world.ours(&format!("$B {options} {shell} '{script}'")).ok().prints("d g l ");
    }
}
