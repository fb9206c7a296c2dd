//! What lets a sandbox write where its mounts say no: the filter that asks, and the broker that answers.
//!
//! The launcher makes a [`filter::program`], installs it in the sandbox with [`crate::sys::seccomp`], and runs a
//! [`Broker`] on a thread of the supervisor with the listener that comes back.

mod act;
mod attempt;
mod broker;
pub mod calls;
pub mod decide;
mod denial;
pub mod filter;
mod refused;
mod regions;
mod reply;
mod resolve;
mod task;

pub use attempt::Attempt;
pub use broker::{Broker, Error, Happened, Noted, Setup, Tell, Watch};
pub use denial::{Denial, Denials, Escaped};
pub use regions::Regions;
