//! Sessions on disk: who owns what, and when it goes away.
//!
//! ```text
//! <state>/schema                                   version of this layout
//!        /<machine>/reaped                         when somebody last cleaned up (its time)
//!                  /sessions/<id>/record.json      who owns it
//!                                /lease            flock: shared by every run, exclusive to end or reap
//!                                /private/<name>/  what appears at /tmp, /var/tmp, … (see `escape`)
//!                                /runs/<run>.json  what a run says of itself, locked exclusively while it lives
//!                                /runs/<run>/      what it has on disk, if it has
//!                                /network         who is in the network namespace of its runs
//!                                /jobs/<job>/     a background job (see `job`)
//!                  /kept/                          overlays kept on request
//!                  /trash/<random>                 moved here under the exclusive lock, then deleted
//! ```
//!
//! The lease is the whole story of who lives: no pid files, no heartbeats. It is an `flock`, which the kernel drops when
//! the last copy of its descriptor is closed, however the holder dies. Whoever has locked a lease compares it with what
//! the *path* names now: between opening and locking the session may have been moved to the trash, and then the lock is
//! one on a dead file.
//!
//! `<machine>` is the text of `/etc/machine-id` (else of `/var/lib/dbus/machine-id`), so that machines that share a home
//! do not judge one another's sessions. Where there is neither it is `host-` and the host's name.
#![forbid(unsafe_code)]

mod copy;
mod end;
mod error;
mod escape;
mod id;
mod job;
mod lease;
mod log;
mod network;
mod reap;
mod record;
mod run;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod tree;
mod usage;

pub use end::{End, Ended};
pub use error::Error;
pub use id::{Id, IdError};
pub use job::{FoundJob, Job, JobEnd, JobRecord, JobState, new_job_id};
pub use lease::Lease;
pub use log::{LogReader, LogWriter};
pub use network::Network;
pub use reap::{Reap, Reaped, Scope, Why};
pub use record::{Owner, Record, RecordState};
pub use run::{Basis, Holder, RunRecord};
pub use state::locate;
pub use store::{Create, Found, Listing, Store, Want};
pub use tree::{Cause, Left};
pub use usage::{IN_MEMORY, Processes, Usage, bytes_in};

/// What every function here gives.
pub type Result<T> = std::result::Result<T, Error>;
