//! Trials: what a run needs is done for real, in a process of its own, and nothing of it outlasts that process.
#![forbid(unsafe_code)]

mod namespaces;
mod notification;
mod overlay;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sys::fs::{self, OFlags};
use crate::sys::lock::{self, Lock};
use crate::sys::process::{self, Forked};
use crate::sys::{Errno, Error, Result, socket};

pub use namespaces::{Attempt, Tried, namespaces};
pub use notification::{Notified, notification};
pub use overlay::{LOWER, overlay_on_disk};

/// What `work` gives, done by a child. `None`: the child died over it.
///
/// Only for a process with one thread, as every fork.
fn in_child<T: Serialize + DeserializeOwned>(work: impl FnOnce() -> T) -> Result<Option<T>> {
    let (read, write) = socket::pipe()?;
    match process::fork()? {
        Forked::Child => {
            drop(read);
            let text = serde_json::to_vec(&work()).unwrap_or_default();
            // Whoever does not hear of it takes it for a death, which it is.
            let told = File::from(write).write_all(&text);
            process::exit_now(i32::from(told.is_err()))
        }
        Forked::Parent(child) => {
            drop(write);
            let mut text = Vec::new();
            let read = File::from(read).read_to_end(&mut text);
            process::wait(Some(child), process::until_end())?;
            Ok(read.ok().and_then(|_| serde_json::from_slice(&text).ok()))
        }
    }
}

/// An answer of the kernel, as a number that can be passed on.
fn number(error: &Error) -> i32 {
    error.errno().raw_os_error()
}

/// Does a lock in `dir` keep others out? Everything about sessions rests on that. Leaves the file `lock` there.
///
/// # Errors
/// What the kernel says: the file system may know no locks.
pub fn locks(dir: &Path) -> Result<bool> {
    let place = fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let first = fs::create_at(&place, Path::new("lock"), 0o600)?;
    let second = fs::open_beneath(&place, Path::new("lock"), OFlags::RDWR)?;
    Ok(lock::try_lock(&first, Lock::Shared)?
        && lock::try_lock(&second, Lock::Shared)?
        && !lock::try_lock(&second, Lock::Exclusive)?)
}

/// May this process write in the directory?
#[must_use]
pub fn writable(dir: &Path) -> bool {
    fs::check_writable(dir).is_ok()
}

/// How much room the file system of `path` has, and which device it is.
///
/// # Errors
/// What the kernel says.
pub fn space(path: &Path) -> Result<(fs::Space, (u32, u32))> {
    let place = fs::open(path, OFlags::PATH)?;
    Ok((fs::space(&place)?, fs::fstat(&place)?.file.dev))
}

/// The error of a number that a child passed on.
fn errno(number: i32) -> Errno {
    Errno::from_raw_os_error(number)
}
