//! `doctor` tries for real what a run needs.

use crate::support::{Sandbox, need};

#[test]
fn says_that_a_run_can_work() {
    Sandbox::new().stockade(&["doctor"]).plain().ok().shows("user namespace");
}

/// Runs `words` where no further user namespace can be made.
fn without_user_namespaces(sandbox: &Sandbox, words: &str) -> crate::support::Outcome {
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces || exit 77
        exec setpriv --bounding-set=-all --inh-caps=-all sh -c '{words}'"
    );
    sandbox.outside(&["unshare", "-Ur", "sh", "-c", &script])
}

#[test]
fn names_what_is_missing() {
    if need("userns") && need("setpriv") {
        let sandbox = Sandbox::new();
        let outcome = without_user_namespaces(&sandbox, "$SK doctor").status(1);
        let all = format!("{}{}", outcome.out, outcome.err);
        assert!(all.contains("max_user_namespaces"), "{}", outcome.describe());
    }
}

#[test]
fn a_run_fails_closed_there_and_says_why() {
    if need("userns") && need("setpriv") {
        let sandbox = Sandbox::new();
        let outcome = without_user_namespaces(&sandbox, "$SK run --no-config -- touch ran");
        outcome.refused().says("namespace");
        assert!(!sandbox.project.join("ran").exists());
    }
}

#[test]
fn leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.stockade(&["doctor"]).plain().ok();
    assert_eq!(sandbox.left_behind(), Vec::<std::path::PathBuf>::new());
}
