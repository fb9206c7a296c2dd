//! Processes with a deadline: a test that hangs must say what hung.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Outcome;

/// Far beyond anything a loaded machine needs, by hand with more of everything; only a hang reaches it.
fn patience() -> Duration {
    Duration::from_secs(super::size(120, 1200) as u64)
}

const PAUSE: Duration = Duration::from_millis(10);

/// Waits until the question is answered with something; fails the test when that never happens.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut question: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience();
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(PAUSE);
    }
}

/// The live processes whose command line contains this.
pub(crate) fn alive(marker: &str) -> Vec<String> {
    let numbered = super::entries("/proc".as_ref()).into_iter().filter(|path| {
        path.file_name().is_some_and(|name| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok()))
    });
    let lines = numbered.filter_map(|path| {
        let line = fs::read(path.join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some(format!("{}: {line}", path.display()))
    });
    lines.filter(|line| line.contains(marker)).collect()
}

/// Runs a command to its end.
pub(crate) fn output(mut command: Command, input: Option<Vec<u8>>) -> Outcome {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut running = Running::new(command);
    if let Some(input) = input {
        let mut pipe = running.child.stdin.take().unwrap();
        thread::spawn(move || pipe.write_all(&input));
    }
    running.wait()
}

/// A process that was started.
pub(crate) struct Running {
    child: Child,
    call: String,
    out: Receiver<Vec<u8>>,
    err: Receiver<Vec<u8>>,
    ended: Option<ExitStatus>,
}

impl Running {
    pub(crate) fn new(mut command: Command) -> Self {
        let call = format!("{command:?}");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = reader(child.stdout.take().unwrap());
        let err = reader(child.stderr.take().unwrap());
        Self { child, call, out, err, ended: None }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Has it ended?
    pub(crate) fn ended(&mut self) -> bool {
        self.ended = self.ended.or_else(|| self.child.try_wait().unwrap());
        self.ended.is_some()
    }

    /// Waits for its end and for the end of its output.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Outcome {
        let call = self.call.clone();
        eventually(&format!("the end of {call}"), || self.ended().then_some(()));
        let status = self.ended.unwrap();
        let code = status.code().unwrap_or_else(|| 1000 + status.signal().unwrap());
        Outcome { code, out: text(&self.out, &call), err: text(&self.err, &call), call }
    }
}

impl Drop for Running {
    /// A failed test leaves nothing running.
    fn drop(&mut self) {
        if !self.ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn reader(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        send.send(bytes)
    });
    receive
}

#[track_caller]
fn text(stream: &Receiver<Vec<u8>>, call: &str) -> String {
    let bytes = stream.recv_timeout(patience());
    let bytes = bytes.unwrap_or_else(|_| panic!("something still holds the output of {call}"));
    String::from_utf8_lossy(&bytes).into_owned()
}
