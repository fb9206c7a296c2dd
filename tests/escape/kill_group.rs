//! A process group reaches across pid namespaces: `kill(0, …)` inside would hit the caller's shell.

use crate::support::{Sandbox, need};

/// `attack` in a group with a process outside of the sandbox, which says whether it was hit.
fn in_one_group(sandbox: &Sandbox, run: &str, attack: &str) -> crate::support::Outcome {
    let script = format!("trap 'echo hit' USR1; trap 'echo hit' TERM; {run} sh -c '{attack}'; echo after");
    sandbox.outside(&["setsid", "--wait", "sh", "-c", &script])
}

#[test]
fn hits_nobody_outside() {
    let sandbox = Sandbox::new();
    for signal in ["USR1", "TERM"] {
        let attack = format!("trap \"\" {signal}; kill -{signal} 0; true");
        in_one_group(&sandbox, "", &attack).shows("hit");
        in_one_group(&sandbox, "$SK run --no-config --", &attack).ok().prints("after");
    }
}

#[test]
fn hits_nobody_outside_by_any_number() {
    let sandbox = Sandbox::new();
    let attack =
        "trap \"\" USR1; kill -USR1 -1; kill -USR1 -- -1; for n in 1 2 3 4 5 6 7 8 9; do kill -USR1 -- -$n; done; true";
    in_one_group(&sandbox, "$SK run --no-config --", attack).lacks("hit").shows("after");
}

#[test]
fn hits_nobody_on_a_terminal() {
    if need("python3") {
        let sandbox = Sandbox::new();
        let script =
            "trap 'echo h''it' USR1; $SK run --no-config -- sh -c 'trap \"\" USR1; kill -USR1 0; true'; echo af''ter";
        sandbox.terminal(&[("expect", "after")], &["sh", "-c", script]).ok().lacks("hit");
    }
}

#[test]
fn the_supervisor_cannot_be_killed_from_inside() {
    let sandbox = Sandbox::new();
    // A group of its own: where the attack works, it would end the tests.
    let call = |attack: &str| {
        let script = format!("$SK run --no-config -- sh -c '{attack}'; echo status $?");
        sandbox.outside(&["setsid", "--wait", "sh", "-c", &script])
    };
    call("kill -KILL 0; kill -KILL -1; exit 3").ok().prints("status 137");
    call("kill -KILL 1; echo alive; exit 3").ok().prints("alive\nstatus 3");
}
