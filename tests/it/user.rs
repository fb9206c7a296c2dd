//! `--user`, for root only.

use std::os::unix::fs::chown;

use crate::support::{Sandbox, need};

#[test]
fn changes_to_another_user() {
    if need("root") {
        let sandbox = Sandbox::new();
        chown(&sandbox.project, Some(65534), Some(65534)).unwrap();
        open_up(&sandbox);
        sandbox.sh("touch as-root").fails();
        let state = sandbox.beside("theirs");
        std::fs::create_dir(&state).unwrap();
        chown(&state, Some(65534), Some(65534)).unwrap();
        std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let run = sandbox.run().options(["--user", "nobody"]).env("STOCKADE_STATE", &state);
        run.sh("id -u; id -un; id -G; touch own; stat -c %u own; echo x > /tmp/x")
            .ok()
            .prints("65534\nnobody\n65534\n65534");
    }
}

/// Lets another user pass through the directory above the project.
fn open_up(sandbox: &Sandbox) {
    use std::os::unix::fs::PermissionsExt;
    let above = sandbox.project.parent().unwrap();
    std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_unknown_user_is_refused() {
    if need("root") {
        let sandbox = Sandbox::new();
        sandbox.run().options(["--user", "no-such-user"]).sh("touch ran").refused().says("no-such-user");
        assert!(!sandbox.project.join("ran").exists());
    }
}

#[test]
fn is_refused_for_others() {
    if need("user") {
        Sandbox::new().run().options(["--user", "root"]).argv(["true"]).refused().says("--user");
    }
}

#[test]
fn root_has_no_capabilities_inside() {
    if need("root") {
        let sandbox = Sandbox::new();
        let file = sandbox.file("locked", "secret");
        chown(&file, Some(65534), Some(65534)).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        sandbox.sh("cat locked").fails().prints("");
        sandbox.sh("chown 1:1 . || mount -t tmpfs t /mnt || date -s 2020-01-01").fails();
    }
}
