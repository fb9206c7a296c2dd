//! User namespaces inside: off unless asked for.

use crate::support::{Sandbox, need, nested};

#[test]
fn are_off() {
    if need("unshare") {
        let sandbox = Sandbox::new();
        for flags in ["-U", "-Ur", "-Urm"] {
            sandbox.run().argv(["unshare", flags, "true"]).fails();
        }
    }
}

#[test]
fn are_on_when_asked_for() {
    if need("userns") {
        let run = Sandbox::new();
        run.run().option("--allow-userns").argv(nested(&["echo", "made"])).ok().prints("made");
    }
}

#[test]
fn a_run_inside_a_one_uid_namespace_works() {
    if need("userns") {
        let sandbox = Sandbox::new();
        let script = "exec $SK run --no-config -- sh -c 'id -u; echo x > /tmp/x; echo x > f; ls -A /tmp'";
        sandbox.outside(&["unshare", "-Ur", "sh", "-c", script]).ok().prints("0\nx");
        assert!(sandbox.project.join("f").exists());
    }
}

#[test]
fn a_run_inside_a_run_that_allows_them_works() {
    if need("userns") {
        let (sandbox, binary) = Sandbox::new().own_binary();
        let state = sandbox.project.join("state");
        let inner = format!("STOCKADE_STATE={} {} run --no-config -- echo inner", state.display(), binary.display());
        let outcome = sandbox.run().option("--allow-userns").read(&binary).sh(&inner);
        if outcome.code == 0 {
            outcome.prints("inner");
        } else {
            outcome.refused(); // not promised; but then said, not half done
        }
    }
}
