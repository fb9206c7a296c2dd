//! `stockade`: see the library for everything.

use std::process::ExitCode;

fn main() -> ExitCode {
    stockade::cli::main()
}
