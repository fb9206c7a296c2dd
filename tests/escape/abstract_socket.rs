//! An abstract unix socket of the host has no path that a mount could hide.

use crate::support::{PYTHON, Sandbox, eventually, need, unique};

#[test]
fn cannot_be_reached() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let name = format!("stockade-test-{}", unique());
    let server = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX); s.bind('\\0{name}'); s.listen()\n\
        open('listening', 'w'); s.settimeout(60)\nwhile True: s.accept()[0].sendall(b'host')"
    );
    let script = format!("{PYTHON} -c \"{server}\" & server=$!; read line; kill $server");
    let client =
        format!("import socket\ns = socket.socket(socket.AF_UNIX); s.connect('\\0{name}'); print(s.recv(4).decode())");
    let mut host = std::process::Command::new("sh");
    host.args(["-c", &script]).current_dir(&sandbox.project).stdin(std::process::Stdio::piped());
    let mut host = host.spawn().unwrap();
    eventually("the server listens", || sandbox.project.join("listening").exists().then_some(()));
    sandbox.outside(&[PYTHON, "-c", &client]).ok().prints("host");
    let inside = sandbox.run().python(&client);
    drop(host.stdin.take());
    host.wait().unwrap();
    inside.fails().prints("");
}
