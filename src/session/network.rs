//! Which processes are in the network namespace that the runs of a session share.
//!
//! There is no daemon that could keep the namespace: it lives as long as a run is in it, and each run writes down the
//! process by which the next one finds it. The file is locked while somebody looks for a living one or begins anew.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::record::{self, Here, Parsed, Presence};
use super::{Error, Lease, Owner, Result};
use crate::sys::{self, Errno, attr, fs, lock};
use fs::OFlags;
use lock::Lock;

const NETWORK: &str = "network";
const SCHEMA: u64 = 1;
const LIMIT: usize = 1 << 20;
/// Who has the lock makes a namespace, which takes a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Members {
    schema: u64,
    members: Vec<Owner>,
}

/// The session's file.
#[derive(Debug)]
pub struct Network {
    file: OwnedFd,
    members: Vec<Owner>,
    /// Bytes in the file when it was read.
    length: usize,
}

impl Lease {
    /// What the runs of this session need to share a network namespace: of the first of its parents, whose private
    /// directories it shares too. `None` for a session of one run.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn network(&self) -> Result<Option<Network>> {
        if self.is_anonymous() && self.parent().is_none() {
            return Ok(None);
        }
        let root = self.root();
        let name = Path::new(NETWORK);
        let open = || fs::open_beneath(root.dir(), name, OFlags::RDWR | OFlags::NONBLOCK);
        let opened = match open() {
            Err(error) if error.is(Errno::NOENT) => match fs::create_at(root.dir(), name, 0o600) {
                Err(error) if error.is(Errno::EXIST) => open(),
                created => created,
            },
            opened => opened,
        };
        let file = opened.map_err(|error| Error::call("open", root.path().join(NETWORK), error))?;
        Ok(Some(Network { file, members: Vec::new(), length: 0 }))
    }
}

impl Network {
    /// Lock the file, and read who is in the namespace.
    ///
    /// # Errors
    /// What the kernel says; `EAGAIN` when somebody else keeps the lock.
    pub fn lock(&mut self) -> sys::Result<()> {
        let begin = Instant::now();
        while !lock::try_lock(&self.file, Lock::Exclusive)? {
            if begin.elapsed() > PATIENCE {
                return Err(sys::Error::new("flock", format_args!("the session's network"), Errno::AGAIN));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        fs::seek_to(&self.file, 0)?;
        let bytes = attr::read_open(&self.file, LIMIT)?;
        self.length = bytes.len();
        self.members = match record::parse::<Members>(&bytes) {
            Parsed::Whole(content) => content.members,
            // New, or cut off when a disk was full: whoever is in it is not found any more, and a new one begins.
            Parsed::Newer(_) | Parsed::Torn(_) => Vec::new(),
        };
        Ok(())
    }

    /// Something of the first living member: `open` is given its process id, and what it gives is believed only if the
    /// process then still is that one.
    pub fn find<T>(&self, mut open: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let here = Here::find().ok()?;
        self.members.iter().find_map(|member| {
            let found = open(member.pid)?;
            (member.presence(here) == Presence::Alive).then_some(found)
        })
    }

    /// Write down that this process is in the namespace too, or with `anew` alone, and unlock the file.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn enter(mut self, anew: bool) -> Result<()> {
        let here = Here::find()?;
        self.members.retain(|member| !anew && member.presence(here) == Presence::Alive);
        self.members.extend(Owner::of(std::process::id())?);
        let content = Members { schema: SCHEMA, members: std::mem::take(&mut self.members) };
        let mut bytes = record::to_bytes(&content);
        // Blanks instead of cutting it off: in one write, and a file that was cut off to nothing is written to the disk by
        // ext4 as soon as it is closed (`auto_da_alloc`, ext4(5)).
        bytes.resize(bytes.len().max(self.length), b' ');
        attr::write_at(&self.file, 0, &bytes).map_err(|error| Error::call("write", NETWORK, error))
        // Dropping the last copy of the descriptor drops the lock.
    }
}
