//! What the processes of a run say to one another, as JSON in datagrams.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Failure, OverlayReport, Status, Step};
use crate::sys::process::Pid;
use crate::sys::{self, socket};

/// From the sandbox's side to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// A step begins (only when traced).
    Step(Step),
    /// Write the user maps of the sender.
    MapUsers,
    /// The filter is installed; the listener comes along. Ids of the mounts in which names are guarded.
    Guarded { mounts: Vec<u64> },
    /// Standard input could not be opened inside: feed its pipe.
    NeedInput,
    /// Sent by the command's own process before it becomes the command: the kernel tells its number.
    Command,
    /// The command runs.
    Started,
    /// The command was stopped by this signal.
    Stopped(i32),
    /// How the command ended, and where it left its reopened standard files.
    Exited { status: Status, offsets: [Option<u64>; 3] },
    /// What became of the overlays.
    Overlays(OverlayReport),
    /// The run cannot be.
    Failed(Failure),
}

/// From the supervisor to the sandbox's side.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The user maps are written.
    Mapped,
    /// Send a signal to the command, or to its whole process group.
    Signal { signal: i32, group: bool },
}

/// Send one message with descriptors.
pub(super) fn send<T: Serialize>(socket: impl AsFd, message: &T, fds: &[BorrowedFd<'_>]) -> sys::Result<()> {
    // Plain enums of strings and numbers: serialising them cannot fail, and an empty datagram would be read as the end.
    let bytes = serde_json::to_vec(message).unwrap_or_default();
    socket::send(socket, &bytes, fds)
}

/// A message with what came along.
pub(super) struct Received<T> {
    pub(super) message: T,
    pub(super) fds: Vec<OwnedFd>,
    pub(super) sender: Option<Pid>,
}

/// Receive one message; `None` when the other side is gone or makes no sense.
pub(super) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> sys::Result<Option<Received<T>>> {
    let Some(socket::Received { bytes, fds, sender }) = socket::receive(socket)? else { return Ok(None) };
    Ok(serde_json::from_slice(&bytes).ok().map(|message| Received { message, fds, sender }))
}
