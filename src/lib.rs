//! Stockade runs commands for coding agents on Linux so that sessions cannot see, break or weaken one another.
//!
//! The whole product is one line of values: a [`policy`] says what was asked, [`probe`] says what is there, a [`plan`]
//! says what will be done, [`launch`] does it. Nothing here is a stable interface yet.

pub mod bwrap;
pub mod cli;
pub mod guard;
pub mod import;
pub mod launch;
pub mod overlay;
pub mod plan;
pub mod policy;
pub mod probe;
pub mod session;
pub mod sys;
