//! What the user's configuration adds to bubblewrap's view.

use std::fs;

use crate::support::{eventually, need};
use crate::world::World;

fn configured(text: &str) -> World {
    let world = World::new();
    let dir = world.sandbox.home.join(".config/stockade");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), text).unwrap();
    world
}

const PRIVATE: &str = "[bwrap]\nprivate-tmp = true\nid-from = ['NOT_SET', 'AGENT']\n";
const CALL: &str = "$B $R --dev /dev --proc /proc --unshare-user --unshare-pid";

#[test]
fn each_session_has_its_own_tmp() {
    if !need("userns") {
        return;
    }
    let world = configured(PRIVATE);
    let script = format!(
        "AGENT=one {CALL} sh -c 'ls -A /tmp; echo 1 > /tmp/x'; AGENT=two {CALL} sh -c 'ls -A /tmp; echo 2 > /tmp/x'
         AGENT=one {CALL} cat /tmp/x; AGENT=two {CALL} --bind /tmp /tmp cat /tmp/x
         AGENT=one {CALL} --bind $W/d /tmp/made/here ls /tmp/made/here; AGENT=one {CALL} --tmpfs /tmp ls -A /tmp
         {CALL} sh -c 'ls -A /tmp; touch /tmp/y'; {CALL} ls -A /tmp
         while $SK session list | grep -q ^anon-; do sleep 0.05; done; $SK session list | cut -f1,2"
    );
    // Without a name the session ends with the sandbox, whose last process may outlive the call.
    world.ours(&script).ok().prints("1\n2\nf\nsub\none\tidle\ntwo\tidle");
}

#[test]
fn the_session_is_in_use_until_the_last_process_has_ended() {
    if !need("userns") {
        return;
    }
    // With a pid namespace and without.
    for unshare in ["--unshare-pid", ""] {
        let world = configured(PRIVATE);
        let script = format!(
            "export AGENT=one; $B $R --dev /dev --unshare-user {unshare} --bind $W $W sh -c '
                (trap \"\" HUP; exec >/dev/null 2>&1; until test -e go; do sleep 0.05; done; echo late > /tmp/late; touch done) & exit 7'
             echo $?; $SK session end one; touch go; until test -e done; do sleep 0.05; done
             until $SK session list | grep -q idle; do sleep 0.05; done; $B $R cat /tmp/late; $SK session end one; $SK session list"
        );
        world.ours(&script).ok().prints("7\nlate").says("session one is in use");
    }
}

#[test]
fn a_session_that_is_killed_takes_the_sandbox_along() {
    if !need("userns") {
        return;
    }
    let world = configured(PRIVATE);
    let script = format!(
        "export AGENT=one; {CALL} --bind $W $W sh -c 'touch ready; while :; do touch alive; sleep 0.02; done' 2>/dev/null &
         until test -e ready; do sleep 0.05; done; $SK session end --kill one >/dev/null 2>&1; wait $!; echo $?; rm alive"
    );
    world.ours(&script).ok().prints("1");
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(!world.path().join("alive").exists());
    eventually("the session is gone", || world.ours_as_it_is("$SK session list").out.is_empty().then_some(()));
}

#[test]
fn denials_are_told_where_it_says() {
    if !need("userns") {
        return;
    }
    let call = format!(
        "{CALL} --bind $W $W --ro-bind /dev/null $W/x sh -c 'echo a > x' 2>&1 | sed \"s#$W#W#g\" | grep denied"
    );
    let told = "denied create W/x (read-only, --ro-bind /dev/null W/x)";
    configured("[bwrap]\nreport = 'stderr'").ours(&call).ok().prints(&format!("bwrap: {told}"));
    let world = configured("[bwrap]\nreport = '~/denials'");
    world.ours(&call).fails();
    world.ours_as_it_is("sed \"s#$W#W#g\" ~/denials").ok().prints(told);
}

#[test]
fn what_is_wrong_there_is_told() {
    if !need("userns") {
        return;
    }
    let told = |text: &str, message: &str| {
        configured(text)
            .ours("$B --version; $B $R true")
            .status(1)
            .prints("bubblewrap 0.11.0")
            .says("bwrap: ")
            .says(message);
    };
    told("[bwrap]\nreport = 'some/where'", "config.toml:2:10: `report` is \"stderr\" or an absolute path");
    told("[bwrap]\nprivate = true", "unknown field `private`");
    told("[bwrap]\nid-from = ['A=B']", "config.toml:2:");
    told("[bwrap]\nreport = '/nonexistent/denials'", "/nonexistent/denials");
    let world = configured("[bwrap]\nid-from = ['AGENT']");
    world.ours("AGENT=../x $B $R true").status(1).says("$AGENT");
    world.ours("$B $R true").ok();
    world
        .ours("echo [bwrap] > p.toml; $SK run --policy p.toml -- true")
        .status(125)
        .says("only the user's own configuration");
}
