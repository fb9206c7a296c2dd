//! What a job prints, within a limit: the first and the last parts stay.
//!
//! The log is a directory of segments, each named by the place of its first byte in the whole output. When all of them are
//! full, the oldest after the first half is removed. So whatever is there is whole, a reader sees by the names what was
//! cut, and a supervisor that is killed leaves nothing to repair.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::{Error, Result, state};
use crate::sys::{self, Errno, fs, pipe};
use fs::OFlags;

const LOG: &str = "log";
/// Half of these stay from the beginning, the others move on with the end.
const SEGMENTS: u64 = 8;
/// The least that a log can be limited to.
const LEAST: u64 = 64 << 10;

/// A log that is being written.
#[derive(Debug)]
pub struct LogWriter {
    dir: OwnedFd,
    /// Bytes in one segment.
    size: u64,
    /// The segment that is being written, and where it begins.
    current: Option<(File, u64)>,
    /// The begins of all segments after the first half.
    moving: Vec<u64>,
    /// Bytes that were read in all.
    total: u64,
}

impl LogWriter {
    pub(super) fn create(job: BorrowedFd<'_>, path: &Path, limit: u64) -> Result<Self> {
        let call = |error| Error::call("make the log of", path, error);
        state::mkdir(job, Path::new(LOG)).map_err(call)?;
        let dir = fs::open_beneath(job, Path::new(LOG), OFlags::RDONLY | OFlags::DIRECTORY).map_err(call)?;
        Ok(Self { dir, size: limit.max(LEAST) / SEGMENTS, current: None, moving: Vec::new(), total: 0 })
    }

    /// Write everything that comes out of a pipe, to its end. A full disk costs output, not the job.
    pub fn pump(mut self, from: &OwnedFd) {
        loop {
            match self.step(from) {
                Ok(0) => return,
                Ok(moved) => self.total += moved,
                Err(_) => match discard(from) {
                    0 => return,
                    lost => {
                        self.total += lost;
                        // What comes next begins a new segment: the gap shows.
                        self.current = None;
                    }
                },
            }
        }
    }

    fn step(&mut self, from: &OwnedFd) -> sys::Result<u64> {
        let room = self.room()?;
        let Some((file, _)) = &self.current else { return Ok(0) };
        let moved = pipe::splice(from, file, usize::try_from(room).unwrap_or(usize::MAX))?;
        Ok(moved as u64)
    }

    /// How much may still go into the current segment, which is a new one if it has to be.
    fn room(&mut self) -> sys::Result<u64> {
        if let Some((_, begin)) = &self.current {
            let room = self.size.saturating_sub(self.total - begin);
            if room > 0 {
                return Ok(room);
            }
        }
        self.current = None;
        self.make_room()?;
        let file = fs::create_at(&self.dir, &name(self.total), 0o600)?;
        self.current = Some((file.into(), self.total));
        if self.total >= self.size * (SEGMENTS / 2) {
            self.moving.push(self.total);
        }
        Ok(self.size)
    }

    fn make_room(&mut self) -> sys::Result<()> {
        while self.moving.len() as u64 >= SEGMENTS / 2 {
            let oldest = self.moving.remove(0);
            match fs::unlink_at(&self.dir, &name(oldest)) {
                Err(error) if !error.is(Errno::NOENT) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Read something of a pipe and forget it; 0 at its end.
fn discard(from: &OwnedFd) -> u64 {
    let Ok(copy) = from.try_clone() else { return 0 };
    let mut buffer = vec![0; 65_536];
    File::from(copy).read(&mut buffer).map_or(0, |count| count as u64)
}

fn name(begin: u64) -> PathBuf {
    format!("{begin:020}").into()
}

/// A log as it is read: where reading has come to.
#[derive(Debug, Default)]
pub struct LogReader {
    position: u64,
}

impl LogReader {
    /// Copy what is new; a gap is marked. Gives whether there was anything.
    ///
    /// # Errors
    /// What cannot be read or written.
    pub(super) fn copy(&mut self, job: impl AsFd, to: &mut dyn Write) -> io::Result<bool> {
        let begin = self.position;
        let dir = match fs::open_beneath(job, Path::new(LOG), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(dir) => dir,
            Err(error) if error.is(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        for (start, name) in segments(&dir)? {
            // Removed since: the next one shows the gap.
            let Ok(file) = fs::open_beneath(&dir, &name, OFlags::RDONLY | OFlags::NONBLOCK) else { continue };
            self.copy_segment(&mut file.into(), start, to)?;
        }
        Ok(self.position > begin)
    }

    fn copy_segment(&mut self, file: &mut File, start: u64, to: &mut dyn Write) -> io::Result<()> {
        let end = start + file.metadata()?.len();
        if end <= self.position {
            return Ok(());
        }
        if start > self.position {
            writeln!(to, "\n[stockade: {} bytes cut here]", start - self.position)?;
            self.position = start;
        }
        file.seek(SeekFrom::Start(self.position - start))?;
        self.position += io::copy(file, to)?;
        Ok(())
    }
}

fn segments(dir: &OwnedFd) -> sys::Result<BTreeMap<u64, PathBuf>> {
    let segment = |entry: fs::Entry| Some((entry.name.to_str()?.parse().ok()?, entry.name.into()));
    Ok(fs::entries(dir)?.into_iter().filter_map(segment).collect())
}

/// Bytes that the log has on disk.
pub(super) fn size(job: impl AsFd) -> u64 {
    let Ok(dir) = fs::open_beneath(job, Path::new(LOG), OFlags::RDONLY | OFlags::DIRECTORY) else { return 0 };
    let names = segments(&dir).unwrap_or_default();
    names.values().filter_map(|name| fs::lstat_at(&dir, name).ok()).map(|stat| stat.size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(limit: u64, chunks: &[Vec<u8>]) -> (Vec<u8>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let job = fs::open(dir.path(), OFlags::RDONLY | OFlags::DIRECTORY).unwrap();
        let writer = LogWriter::create(job.as_fd(), dir.path(), limit).unwrap();
        let (from, to) = crate::sys::socket::pipe().unwrap();
        let chunks = chunks.to_vec();
        let feeder = std::thread::spawn(move || {
            let mut to = File::from(to);
            chunks.iter().for_each(|chunk| to.write_all(chunk).unwrap());
        });
        writer.pump(&from);
        feeder.join().unwrap();
        let mut read = Vec::new();
        LogReader::default().copy(&job, &mut read).unwrap();
        (read, size(&job))
    }

    #[test]
    fn short_output_is_whole() {
        let (read, _) = logged(LEAST, &[b"one\n".to_vec(), b"two\n".to_vec()]);
        assert_eq!(read, b"one\ntwo\n");
    }

    #[test]
    fn long_output_keeps_both_ends_and_says_what_is_missing() {
        let line = |n: u32| format!("{n:09}\n").into_bytes();
        let chunks: Vec<Vec<u8>> = (0..100_000).map(line).collect();
        let (read, size) = logged(LEAST, &chunks);
        assert!(size <= LEAST, "{size}");
        let text = String::from_utf8(read).unwrap();
        assert!(text.starts_with("000000000\n") && text.ends_with("000099999\n"));
        let cut: u64 = text.split("[stockade: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(cut + size, 1_000_000);
    }
}
