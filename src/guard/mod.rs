//! What lets a sandbox write where its mounts say no: the filter that asks, and the broker that answers.

pub mod calls;
pub mod filter;
