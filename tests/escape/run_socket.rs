//! `connect()` is not a write: a read-only mount does not stop it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::support::{PYTHON, Sandbox, need, unique};

const CONNECT: &str =
    "import socket, sys\ns = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(4).decode())";

/// A socket of the host that says `host`; it goes away with the value.
struct Server(std::path::PathBuf);

impl Server {
    fn new(path: std::path::PathBuf) -> Self {
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(|mut peer| drop(peer.write_all(b"host"))));
        Self(path)
    }

    fn argv(&self) -> [&str; 4] {
        [PYTHON, "-c", CONNECT, self.0.to_str().unwrap()]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_socket_in_run_is_out_of_reach() {
    if need("root") && need("python3") {
        let server = Server::new(Path::new("/run").join(format!("stockade-test-{}", unique())));
        let sandbox = Sandbox::new();
        sandbox.outside(&server.argv()).ok().prints("host");
        sandbox.run().argv(server.argv()).fails().prints("");
        sandbox.run().options(["--network", "host"]).argv(server.argv()).fails().prints("");
        sandbox.run().read(&server.0).argv(server.argv()).ok().prints("host");
    }
}

#[test]
fn a_socket_in_tmp_is_out_of_reach() {
    if need("python3") {
        let host = Sandbox::below("/tmp");
        let server = Server::new(host.beside("socket"));
        let sandbox = Sandbox::new();
        sandbox.outside(&server.argv()).ok().prints("host");
        sandbox.run().argv(server.argv()).fails().prints("");
        sandbox.run().read(&server.0).argv(server.argv()).ok().prints("host");
    }
}

#[test]
fn run_holds_no_sockets() {
    let allowed = "-not -path '/run/nscd/*' -not -path '/run/systemd/resolve/*'";
    for dir in ["/run", "/var/run"] {
        Sandbox::new().sh(&format!("find {dir}/ -type s {allowed}; true")).ok().prints("");
    }
}
