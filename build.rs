//! Builds the library of the fast path (`preload/lib.rs`), which the binary holds.
//!
//! It is built for the compiler's own host: it has no libc, so that it is the same whichever libc the binary gets, and a
//! static binary's target makes no shared libraries. For another processor there is none, and no fast path.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=preload");
    println!("cargo::rustc-check-cfg=cfg(preload)");
    let host = variable("HOST");
    if variable("CARGO_CFG_TARGET_ARCH") != "x86_64" || !host.starts_with("x86_64-") || !host.contains("linux") {
        return;
    }
    let library = PathBuf::from(variable("OUT_DIR")).join("preload.so");
    let status = Command::new(variable("RUSTC"))
        .args(["preload/lib.rs", "--crate-name", "preload", "--crate-type", "cdylib", "--edition", "2024"])
        .args(["--target", &host, "-C", "opt-level=2", "-C", "panic=abort", "-C", "strip=symbols"])
        .args(LINK.iter().flat_map(|arg| ["-C", arg]))
        .arg("-o")
        .arg(&library)
        // Flags for the binary, of cargo or of a wrapper, are not meant for it.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status();
    assert!(status.is_ok_and(|status| status.success()), "preload/lib.rs could not be compiled");
    println!("cargo::rustc-cfg=preload");
}

/// The least that a loader has to do: no start files, no libraries, few segments.
const LINK: &[&str] = &[
    "link-arg=-nostartfiles",
    "link-arg=-nodefaultlibs",
    "link-arg=-nostdlib",
    "link-arg=-Wl,-init,stockade_preload_init",
    "link-arg=-Wl,-z,noseparate-code",
    "link-arg=-Wl,-z,norelro",
    "link-arg=-Wl,--hash-style=both",
    "link-arg=-Wl,--build-id=none",
    "relro-level=off",
];

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
