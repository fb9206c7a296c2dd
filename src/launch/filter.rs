//! Installs the system call filter in pid 1, and with guarded directories hands its listener to the supervisor.

use super::setup::Setup;
use super::{Failure, Step};
use crate::guard::calls::Arch;
use crate::guard::filter::{FilterSpec, program};
use crate::sys::seccomp;

/// Install the filter; afterwards pid 1 makes no notified call.
pub(super) fn install(setup: &Setup<'_>) -> Result<(), Failure> {
    let failed = |error| Failure::of(Step::InstallFilter, &error);
    let spec = FilterSpec { arch: Arch::HOST, guarded: false, strict: setup.plan.strict };
    seccomp::install(&program(&spec)).map_err(failed)
}
