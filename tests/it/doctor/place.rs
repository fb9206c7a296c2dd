//! What doctor says of a home and a project.

use std::os::unix::net::UnixListener;

use super::{checks, doctor, told};
use crate::support::{Outcome, Sandbox, need, real_home};

#[test]
fn leftovers_of_other_sandboxes_are_found() {
    let sandbox = Sandbox::new();
    sandbox.file(".mcp.json", "");
    sandbox.file(".envrc", "use flake");
    std::fs::create_dir_all(sandbox.project.join(".claude")).unwrap();
    std::fs::create_dir_all(sandbox.project.join(".vscode/own")).unwrap();
    sandbox.file_beside("h/.bash_profile", "");
    let tmp = sandbox.beside("tmp");
    for name in ["claude-empty-Xy12", "srt-1234", "other"] {
        std::fs::create_dir_all(tmp.join(name)).unwrap();
    }
    let outcome = doctor(&sandbox).env("TMPDIR", &tmp).plain().ok();
    let told = told(&outcome, "leftovers", "warning");
    for found in ["p/.mcp.json", "p/.claude", "h/.bash_profile", "2 directories", "claude-empty-Xy12"] {
        assert!(told.contains(found), "no {found}: {}", outcome.describe());
    }
    for fine in [".envrc", ".vscode", "other"] {
        assert!(!told.contains(&format!("/{fine}")), "{fine}: {}", outcome.describe());
    }
    // Whose they are, the reader knows: nothing was removed.
    assert!(sandbox.project.join(".mcp.json").exists() && tmp.join("srt-1234").exists());
}

/// `doctor` with its state directory on a small file system.
fn on_small(sandbox: &Sandbox, options: &str) -> Outcome {
    let dir = sandbox.beside("small");
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.display();
    let script =
        format!("mount -t tmpfs -o {options} t {dir} && export STOCKADE_STATE={dir}/state && exec $SK doctor --json");
    sandbox.outside(&["unshare", "-Urm", "sh", "-c", &script])
}

#[test]
fn a_disk_that_is_nearly_full() {
    if need("userns") {
        let outcome = on_small(&Sandbox::new(), "size=8m").ok();
        let told = told(&outcome, "room", "warning");
        assert!(told.contains("MiB left") && told.contains("stockade gc"), "{}", outcome.describe());
    }
}

#[test]
fn a_disk_that_can_hold_few_more_files() {
    if need("userns") {
        let outcome = on_small(&Sandbox::new(), "size=2g,nr_inodes=600").ok();
        assert!(told(&outcome, "room", "warning").contains("more files"), "{}", outcome.describe());
    }
}

#[test]
fn a_socket_at_home_that_commands_reach() {
    if need("python3") {
        let sandbox = Sandbox::below(real_home());
        let path = sandbox.home.join("agent.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let deep = sandbox.home.join("a/b/c/d");
        std::fs::create_dir_all(&deep).unwrap();
        let _deep = UnixListener::bind(deep.join("deep.sock")).unwrap();
        let outcome = doctor(&sandbox).plain().ok();
        let told = told(&outcome, "sockets", "warning");
        assert!(told.contains("h/agent.sock") && told.contains("d/deep.sock"), "{}", outcome.describe());
        // It is true, and the cure works.
        let connect = format!("import socket; socket.socket(socket.AF_UNIX).connect({:?})", path.to_str().unwrap());
        sandbox.run().python(&connect).ok();
        let config = format!("[files]\nhide = [{:?}, {:?}]\n", path.to_str().unwrap(), deep.to_str().unwrap());
        sandbox.file_beside("h/.config/stockade/config.toml", &config);
        let outcome = doctor(&sandbox).plain().ok();
        assert_eq!(checks(&outcome, "sockets")[0]["severity"], "ok", "{}", outcome.describe());
        sandbox.stockade(&["run"]).python(&connect).fails();
    }
}

#[test]
fn a_configuration_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    sandbox.file_beside("h/.config/stockade/config.toml", "[files]\nwrite = [\n");
    let outcome = doctor(&sandbox).plain().status(1);
    assert!(told(&outcome, "a run here", "failure").contains("config.toml"), "{}", outcome.describe());
}
