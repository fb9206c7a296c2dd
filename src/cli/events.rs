//! `run --events FD`: what becomes of a run as it happens, as JSON lines for the program that started it.
//!
//! The reader is never waited for: a line that does not fit is dropped and counted. No line is longer than what a pipe takes
//! as a whole, so that several runs can share one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::error::Error;
use super::lines;
use crate::guard::{Noted, Watch};
use crate::launch::{self, Ended, Started, Status, Stream};
use crate::session::Lease;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Write what becomes of the run to this descriptor as it happens, as JSON lines; no reader is waited for
    #[arg(long, value_name = "FD", conflicts_with = "detach", value_parser = clap::value_parser!(i32).range(3..))]
    events: Option<i32>,
}

/// The longest line, with its end (`PIPE_BUF` of `pipe(7)`).
const MOST: usize = 4096;
/// What is left out of a line that would be longer: names that the command chose.
const LONG: [&str; 4] = ["path", "other", "text", "causes"];

/// Where events go; nowhere, if nobody asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Events(Option<Arc<Mutex<Writer>>>);

#[derive(Debug)]
struct Writer {
    /// `None` once nobody reads.
    stream: Option<Stream>,
    /// What a socket had no room for, of a line that it has the beginning of.
    rest: Vec<u8>,
    dropped: u64,
    /// The run's end was told.
    over: bool,
}

impl Args {
    /// The descriptor's number.
    pub(super) fn number(&self) -> Option<i32> {
        self.events
    }

    /// Take the descriptor.
    pub(super) fn open(&self) -> Result<Events, Error> {
        let Some(fd) = self.events else { return Ok(Events::default()) };
        let stream = launch::take_stream(fd).map_err(|source| Error::NoEvents { fd, source })?;
        Ok(Events(Some(Arc::new(Mutex::new(Writer { stream, rest: Vec::new(), dropped: 0, over: false })))))
    }
}

impl Events {
    /// There is a session and the record of a run, and nothing was started yet.
    pub(super) fn started(&self, lease: &Lease, run: &str) {
        let session = (!lease.is_anonymous()).then(|| lease.id().as_str());
        self.send("started", json!({ "session": session, "run": run, "supervisor": std::process::id() }));
    }

    /// For the moment at which the command runs.
    pub(super) fn on_start(&self) -> Started {
        let events = self.clone();
        Box::new(move |pid| events.send("pid", json!({ "pid": pid })))
    }

    /// For what is denied.
    pub(super) fn on_denial(&self) -> Watch {
        let events = self.clone();
        Box::new(move |noted| {
            let line = match noted {
                Noted::Denial(denial) => lines::denial(denial),
                Noted::Attempt(attempt) => lines::attempt(attempt),
            };
            events.send("denied", line);
        })
    }

    /// Every process of the run has ended.
    pub(super) fn exited(&self, ended: &Ended) {
        let signal = match ended.status {
            Status::Exited(_) => None,
            Status::Signaled(signal) => Some(signal),
        };
        let limit = ended.limit.map(|limit| limit.to_string());
        self.end("exited", json!({ "status": ended.status.code(), "signal": signal, "limit": limit }));
    }

    /// The run could not be, or nobody knows how it ended.
    pub(super) fn failed(&self, error: &Error) {
        let (text, status) = (error.to_string(), error.status());
        self.end("failed", json!({ "status": status, "text": text, "causes": error.causes(), "hint": error.hint() }));
    }

    /// Nothing of the run is left but what its session keeps.
    pub(super) fn reaped(&self) {
        self.send("reaped", json!({}));
    }

    fn writer(&self) -> Option<MutexGuard<'_, Writer>> {
        self.0.as_ref().map(|writer| writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last line that says how it ended.
    fn end(&self, event: &str, mut line: Value) {
        let Some(mut writer) = self.writer().filter(|writer| !writer.over) else { return };
        writer.over = true;
        line["dropped"] = writer.dropped.into();
        drop(writer);
        self.send(event, line);
    }

    fn send(&self, event: &str, mut line: Value) {
        let Some(mut writer) = self.writer() else { return };
        line["event"] = event.into();
        // A denial has the time at which it was seen.
        if line.get("time").is_none() {
            line["time"] = lines::seconds(SystemTime::now()).into();
        }
        writer.send(&fitting(line));
    }
}

/// A line that a pipe takes as a whole.
fn fitting(mut line: Value) -> String {
    let whole = lines::ascii(&line);
    if whole.len() < MOST {
        return whole + "\n";
    }
    for name in LONG.iter().filter(|name| line.get(name).is_some()).collect::<Vec<_>>() {
        line[*name] = Value::Null;
    }
    line["cut"] = true.into();
    let cut = lines::ascii(&line);
    // Rules have names too; an event that says nothing else is still one.
    if cut.len() < MOST { cut + "\n" } else { lines::ascii(&json!({ "event": line["event"], "cut": true })) + "\n" }
}

impl Writer {
    fn send(&mut self, line: &str) {
        if !self.send_rest() || !self.write(line.as_bytes()) {
            self.dropped += 1;
        }
    }

    fn send_rest(&mut self) -> bool {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() || self.write(&rest) {
            return self.rest.is_empty();
        }
        self.rest = rest;
        false
    }

    /// False: nothing of it was written.
    fn write(&mut self, bytes: &[u8]) -> bool {
        let Some(stream) = &self.stream else { return false };
        match stream.write(bytes) {
            Ok(written) => {
                bytes[written..].clone_into(&mut self.rest);
                true
            }
            Err(error) => {
                if launch::is_over(error) {
                    self.stream = None;
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_a_pipe_takes() {
        let long = "é".repeat(3000);
        let line = fitting(json!({ "event": "denied", "path": long, "verb": "write" }));
        assert_eq!(line, "{\"cut\":true,\"event\":\"denied\",\"path\":null,\"verb\":\"write\"}\n");
        assert!(fitting(json!({ "event": "denied", "rule": long })).len() < MOST);
        assert!(fitting(json!({ "event": "pid" })).ends_with("}\n"));
    }
}
