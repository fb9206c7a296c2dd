//! Machines on which no run can work.

use rustix::io::Errno;

use super::{checks, doctor, told};
use crate::support::{Answer, Outcome, Sandbox, need};

/// Runs `words` where no further user namespace can be made.
fn without_user_namespaces(sandbox: &Sandbox, words: &str) -> Outcome {
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces || exit 77
        exec setpriv --bounding-set=-all --inh-caps=-all sh -c '{words}'"
    );
    sandbox.outside(&["unshare", "-Ur", "sh", "-c", &script])
}

#[test]
fn names_the_setting_that_forbids_user_namespaces() {
    if need("userns") && need("setpriv") {
        let sandbox = Sandbox::new();
        let outcome = without_user_namespaces(&sandbox, "$SK doctor --json").status(1);
        let told = told(&outcome, "user namespaces", "failure");
        assert!(told.contains("user.max_user_namespaces is 0"), "{}", outcome.describe());
        assert!(told.contains("sysctl user.max_user_namespaces="), "{}", outcome.describe());
        // Not the hint of a failed run, which leads here.
        assert!(super::told(&outcome, "a run", "failure").contains("see user namespaces"), "{}", outcome.describe());
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

/// A kernel that knows no `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
const NO_LISTENER: Answer<'_> = Answer { call: "seccomp", errno: Errno::INVAL, flag: 8 };

/// `doctor` where a call is answered otherwise.
fn filtered(sandbox: &Sandbox, answer: Answer<'_>) -> Outcome {
    sandbox.filtered(answer, &["doctor", "--json"])
}

#[test]
fn names_a_call_that_is_missing_with_its_version() {
    if need("python3") {
        let outcome = filtered(&Sandbox::new(), Answer::missing("mount_setattr")).status(1);
        let told = told(&outcome, "kernel", "failure");
        assert!(told.contains("mount_setattr(2) (Linux 5.12)"), "{}", outcome.describe());
        assert_eq!(told.matches("(Linux ").count(), 1, "{}", outcome.describe());
        // What follows from it is not given another cure.
        assert!(super::told(&outcome, "a run", "failure").contains("see kernel"), "{}", outcome.describe());
    }
}

#[test]
fn names_missing_notification_with_its_version() {
    if need("python3") {
        let outcome = filtered(&Sandbox::new(), NO_LISTENER).status(1);
        assert!(told(&outcome, "notification", "failure").contains("Linux 5.19"), "{}", outcome.describe());
        let kernel = told(&outcome, "kernel", "warning");
        assert!(kernel.contains("WAIT_KILLABLE_RECV (Linux 5.19"), "{}", outcome.describe());
    }
}

/// A name that cannot be protected is no reason to run without its protection.
#[test]
fn a_run_without_notification_is_refused_and_names_a_rule() {
    if need("python3") {
        let sandbox = Sandbox::new();
        let run = |options: &[&str]| {
            let args = [&["run", "--no-config"][..], options, &["--", "touch", "ran"]].concat();
            sandbox.filtered(NO_LISTENER, &args)
        };
        run(&[]).refused().says("(built-in)").says("seccomp user notification").says("Linux 5.19");
        assert!(!sandbox.project.join("ran").exists());
        // Where nothing is writable there is nothing to protect.
        run(&["--read", "$PROJECT"]).status(1).says("Read-only file system");
        run(&["--overlay", "$PROJECT"]).ok();
        assert!(!sandbox.project.join("ran").exists());
    }
}

#[test]
fn notices_that_memory_cannot_be_read() {
    if need("python3") {
        let outcome =
            filtered(&Sandbox::new(), Answer { call: "process_vm_readv", errno: Errno::PERM, flag: 0 }).status(1);
        assert!(told(&outcome, "notification", "failure").contains("memory"), "{}", outcome.describe());
        // That is no guess: a guarded directory cannot be written there.
        assert!(!told(&outcome, "a run here", "failure").is_empty(), "{}", outcome.describe());
    }
}

#[test]
fn a_chroot_without_proc() {
    if need("root") && need("ldd") {
        let sandbox = Sandbox::new();
        let script = "set -e; mkdir -p root/bin root/tmp; cp \"$SK\" root/bin/stockade
            for library in $(ldd \"$SK\" | grep -o '/[^ ]*'); do
                mkdir -p root/${library%/*}; cp $library root/$library
            done
            exec env HOME=/ STOCKADE_STATE=/state chroot root /bin/stockade doctor --json";
        let outcome = sandbox.script(script).status(1);
        assert!(told(&outcome, "/proc", "failure").contains("mount -t proc"), "{}", outcome.describe());
        assert!(told(&outcome, "root directory", "failure").contains("chroot"), "{}", outcome.describe());
        assert!(told(&outcome, "user namespaces", "failure").contains("chroot"), "{}", outcome.describe());
        assert_eq!(told(&outcome, "kernel", "failure"), "", "{}", outcome.describe());
    }
}

#[test]
fn masked_parts_of_proc() {
    if need("userns") {
        let sandbox = Sandbox::new();
        let script = "mount --bind /dev/null /proc/uptime && exec $SK doctor --json";
        let outcome = sandbox.outside(&["unshare", "-Urm", "sh", "-c", script]).status(1);
        let told = told(&outcome, "new /proc", "failure");
        assert!(told.contains("/proc/uptime") && told.contains("--proc host"), "{}", outcome.describe());
    }
}

#[test]
fn inside_of_a_run() {
    let (sandbox, binary) = Sandbox::new().own_binary();
    let words = [binary.to_str().unwrap(), "doctor", "--json"];
    let outcome = sandbox.run().read(&binary).argv(words).status(1);
    assert!(told(&outcome, "kernel", "failure").contains("inside of a stockade run"), "{}", outcome.describe());
    let namespaces = told(&outcome, "user namespaces", "failure");
    assert!(namespaces.contains("as in every stockade run"), "{}", outcome.describe());
    assert!(told(&outcome, "notification", "failure").contains("outer sandbox"), "{}", outcome.describe());
}

#[test]
fn the_state_directory_of_somebody_else() {
    let sandbox = Sandbox::new();
    let open = sandbox.beside("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let outcome = doctor(&sandbox).env("STOCKADE_STATE", &open).plain().status(1);
    let told = told(&outcome, "state directory", "failure");
    assert!(told.contains("open to others") && told.contains("chmod 0700"), "{}", outcome.describe());
    assert_eq!(checks(&outcome, "a run here").len(), 0, "{}", outcome.describe());
}
