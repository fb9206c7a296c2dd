//! The real `stockade`, one module a feature.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

#[path = "../support/mod.rs"]
mod support;

mod bare;
mod concurrency;
mod denials;
mod doctor;
mod documents;
mod environment;
mod events;
mod examples;
mod explain;
mod fast_path;
mod git;
mod graft;
mod guard_host;
mod guard_many;
mod import;
mod init;
mod job_dir;
mod jobs;
mod kill_random;
mod limits;
mod man;
mod missing_calls;
mod network;
mod overlay;
mod overlay_kept;
mod overlay_session;
mod paths;
mod policy_errors;
mod process;
mod programs;
mod session;
mod session_life;
mod situations;
mod skips;
mod state_dir;
mod stdio;
mod terminal;
mod tmp;
mod user;
mod userns;
mod why;
mod why_running;
