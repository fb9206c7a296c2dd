//! No network unless asked for; loopback of one's own.

use std::io::Write;
use std::net::TcpListener;
use std::thread;

use crate::support::{Sandbox, need};

#[test]
fn none_has_a_loopback_that_works_and_nothing_else() {
    let sandbox = Sandbox::new();
    sandbox.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").ok().prints("lo");
    if need("python3") {
        let program = "import socket\ns = socket.create_server(('127.0.0.1', 0))\n\
            c = socket.create_connection(s.getsockname()); p, _ = s.accept(); p.sendall(b'hi'); print(c.recv(2).decode())";
        sandbox.run().python(program).ok().prints("hi");
        let program = "import socket\ntry: socket.create_connection(('192.0.2.1', 80), 5)\nexcept OSError as e: print(e.strerror)";
        sandbox.run().python(program).ok().prints("Network is unreachable");
    }
}

#[test]
fn a_server_of_the_host_is_reached_only_when_asked_for() {
    if !need("python3") {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    thread::spawn(move || server.incoming().flatten().for_each(|mut peer| drop(peer.write_all(b"hello"))));
    let program = format!("import socket\nprint(socket.create_connection(('127.0.0.1', {port}), 20).recv(5).decode())");
    let sandbox = Sandbox::new();
    sandbox.run().python(&program).status(1).says("refused");
    sandbox.run().options(["--network", "host"]).python(&program).ok().prints("hello");
    sandbox.run().policy("[network]\nmode = \"host\"\n").python(&program).ok().prints("hello");
    let both = sandbox.run().policy("[network]\nmode = \"host\"\n").options(["--network", "none"]);
    both.python(&program).status(1);
}

#[test]
fn host_resolves_names() {
    let sandbox = Sandbox::new();
    let run = sandbox.run().options(["--network", "host"]);
    run.sh("getent hosts localhost >/dev/null && cat /etc/resolv.conf >/dev/null").ok();
}
