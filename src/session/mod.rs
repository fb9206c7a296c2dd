//! Sessions on disk: who owns what, and when it goes away.
//!
//! ```text
//! <state>/<machine-id>/sessions/<id>/record.json   who owns it
//!                                   /lease         flock: shared by every run, exclusive to end or reap
//!                                   /private/<n>/  what appears at /tmp, /var/tmp, …
//!                     /trash/<random>              renamed here under the exclusive lock, then deleted
//! ```
#![forbid(unsafe_code)]
