//! What lets a sandbox write where its mounts say no: the filter that asks, and the broker that answers.

pub mod calls;
pub mod filter;

/// Can names be guarded here: does the kernel let a supervisor answer system calls?
#[must_use]
pub fn available() -> bool {
    // The broker is not here yet; what would need it is refused.
    false
}
