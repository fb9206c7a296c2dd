//! `stockade`: see the library for everything.

use std::process::ExitCode;

/// musl's own allocator takes a page for each size of allocation, and a launch is mostly page faults.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    if called.as_encoded_bytes().ends_with(b"bwrap") { stockade::cli::bwrap() } else { stockade::cli::main() }
}
