//! The state directory holds every session's private files.

use crate::support::{Sandbox, need, real_home};

#[test]
fn cannot_be_seen() {
    let sandbox = Sandbox::below(real_home());
    sandbox.run().session("victim").sh("echo secret > /tmp/secret").ok();
    let path = sandbox.stockade(&["session", "path", "victim", "/tmp/secret"]).plain().ok().out;
    let path = path.trim_end();
    sandbox.script(&format!("cat {path}")).ok().prints("secret");
    let state = sandbox.state.display().to_string();
    sandbox.run().session("thief").sh(&format!("cat {path}")).fails().prints("");
    sandbox
        .run()
        .session("thief")
        .sh(&format!("ls -A {state}; find {state} -name secret; echo x > {state}/x"))
        .prints("");
    assert!(!sandbox.state.join("x").exists());
}

#[test]
fn cannot_be_made_visible_by_a_wider_rule() {
    let sandbox = Sandbox::below(real_home());
    sandbox.run().session("victim").sh("echo secret > /tmp/secret").ok();
    let path = sandbox.stockade(&["session", "path", "victim", "/tmp/secret"]).plain().ok().out;
    let above = sandbox.state.parent().unwrap();
    let outcome = sandbox.run().session("thief").write(above).sh(&format!("cat {}", path.trim_end()));
    outcome.fails().prints("");
}

#[test]
fn ones_own_lease_cannot_be_unlocked() {
    let sandbox = Sandbox::new();
    let script = "for fd in /proc/self/fd/*; do readlink $fd; done | grep -c -e lease -e sessions";
    sandbox.run().session("s").sh(script).prints("0");
}

#[test]
fn is_not_reached_through_the_private_directory() {
    if need("userns") {
        let sandbox = Sandbox::below(real_home());
        sandbox
            .run()
            .session("s")
            .sh("echo x > /tmp/x; ls -A /tmp/.. | grep -c sessions; umount -l /tmp; ls -A /tmp")
            .prints("0\nx");
    }
}
