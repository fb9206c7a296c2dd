//! `cmd < dir` would be a door to the host's tree.

use crate::support::{Sandbox, real_home};

#[test]
fn is_refused_at_every_standard_descriptor() {
    let sandbox = Sandbox::below(real_home());
    let dir = sandbox.file_beside("dir/file", "old").parent().unwrap().display().to_string();
    sandbox.script(&format!("sh -c 'echo new > /proc/self/fd/0/file' < {dir}; cat < {dir}/file")).ok().prints("new");
    sandbox.file_beside("dir/file", "old");
    for fd in [0, 1, 2] {
        let attack =
            format!("$SK run --no-config -- sh -c 'echo new > /proc/self/fd/{fd}/file; touch ran' {fd}< {dir}");
        sandbox.script(&attack).status(125);
        assert!(!sandbox.project.join("ran").exists());
        assert_eq!(std::fs::read_to_string(sandbox.beside("dir/file")).unwrap(), "old");
    }
}
