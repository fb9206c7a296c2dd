//! A directory descriptor of the host, left open by the caller, leads past every mount.

use crate::support::{Sandbox, real_home};

#[test]
fn is_not_there() {
    let sandbox = Sandbox::below(real_home());
    let dir = sandbox.file_beside("dir/file", "old").parent().unwrap().display().to_string();
    let attack = "echo new > /proc/self/fd/7/file";
    sandbox.script(&format!("exec 7<{dir}; sh -c '{attack}'")).ok();
    std::fs::write(sandbox.beside("dir/file"), "old").unwrap();
    sandbox.script(&format!("exec 7<{dir}; $SK run --no-config -- sh -c '{attack}'")).fails();
    assert_eq!(std::fs::read_to_string(sandbox.beside("dir/file")).unwrap(), "old");
}

#[test]
fn is_refused_where_descriptors_are_passed_on_purpose() {
    let sandbox = Sandbox::below(real_home());
    let dir = sandbox.file_beside("dir/file", "old").parent().unwrap().display().to_string();
    let script =
        format!("exec 3<{dir}; $SK run --no-config --preserve-fds 1 -- sh -c 'echo new > /proc/self/fd/3/file'");
    sandbox.script(&script).fails();
    assert_eq!(std::fs::read_to_string(sandbox.beside("dir/file")).unwrap(), "old");
}
