//! A free directory's descriptor, given to another run of the session, outlives the run that watched the directory.

use std::fs;

use crate::support::{PYTHON, Sandbox, eventually, need};

const TAKES: &str = "import os, socket, time
listener = socket.socket(socket.AF_UNIX); listener.bind('/tmp/s'); listener.listen()
fd = socket.recv_fds(listener.accept()[0], 1, 1)[1][0]
while not os.path.exists('moved'): time.sleep(0.01)
try: os.close(os.open('evil', os.O_CREAT | os.O_WRONLY, dir_fd=fd)); print('written')
except OSError as error: print(error.strerror)";
const GIVES: &str = "import os, socket, time
while not os.path.exists('/tmp/s'): time.sleep(0.01)
os.mkdir('held'); os.close(os.open('held/free', os.O_CREAT | os.O_WRONLY))
sender = socket.socket(socket.AF_UNIX); sender.connect('/tmp/s')
socket.send_fds(sender, [b'.'], [os.open('held', os.O_RDONLY)])";

#[test]
fn is_worth_nothing_when_the_host_moves_the_directory() {
    if !need("userns") || !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let run = || sandbox.run().options(["--session", "s"]);
    let mut taker = run().spawn([PYTHON, "-c", TAKES]);
    run().argv([PYTHON, "-c", GIVES]).ok();
    let held = sandbox.project.join("held");
    eventually("the directory", || held.join("free").exists().then_some(()));
    fs::rename(held, sandbox.project.join(".vscode")).unwrap();
    sandbox.file("moved", "");
    taker.wait().ok().prints("Read-only file system");
    assert!(!sandbox.project.join(".vscode/evil").exists());
}
