//! What a job prints, within a limit: the first and the last parts stay.
//!
//! The log is a directory of segments, each named by the place of its first byte in the whole output, and a file that says
//! how far the output has come. When all segments are full, the oldest after the first half is renamed and written anew:
//! its pages are in memory and on disk already, which is what makes a flood of output cheap. A supervisor that is killed
//! leaves nothing to repair.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::{Error, Result, state};
use crate::sys::{self, Errno, attr, fs, pipe};
use fs::{OFlags, RenameFlags, Stat};

const LOG: &str = "log";
const POSITION: &str = "position";
/// Half of these stay from the beginning, the others move on with the end.
const SEGMENTS: u64 = 8;
/// Bytes for directories and the rest, a segment.
const OTHER: u64 = 1 << 10;
/// The least that a log can be limited to.
const LEAST: u64 = 64 << 10;

/// A log that is being written.
#[derive(Debug)]
pub struct LogWriter {
    dir: OwnedFd,
    /// Bytes in one segment.
    size: u64,
    /// The segment that is being written, and where it begins.
    current: Option<(OwnedFd, u64)>,
    /// The file that says how many bytes there are.
    position: OwnedFd,
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
        let position = fs::create_at(&dir, Path::new(POSITION), 0o600).map_err(call)?;
        Ok(Self {
            dir,
            size: limit.max(LEAST) / SEGMENTS - OTHER,
            current: None,
            position,
            moving: Vec::new(),
            total: 0,
        })
    }

    /// Write everything that comes out of a pipe, to its end. A full disk costs output, not the job.
    pub fn pump(mut self, from: &OwnedFd) {
        loop {
            match self.step(from) {
                Ok(0) => return,
                Ok(moved) => self.total += moved,
                Err(_) => match discard(from) {
                    0 => return,
                    lost => self.skip(lost),
                },
            }
        }
    }

    fn step(&mut self, from: &OwnedFd) -> sys::Result<u64> {
        let room = self.room()?;
        let Some((file, _)) = &self.current else { return Ok(0) };
        let moved = pipe::splice(from, file, usize::try_from(room).unwrap_or(usize::MAX))? as u64;
        if moved > 0 {
            // After the bytes themselves: what a reader is told of is there.
            attr::write_at(&self.position, 0, &(self.total + moved).to_le_bytes())?;
        }
        Ok(moved)
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
        let file = self.next_file()?;
        self.current = Some((file, self.total));
        if self.total >= self.size * (SEGMENTS / 2) {
            self.moving.push(self.total);
        }
        Ok(self.size)
    }

    /// A file for the next segment: the oldest of those that move on, or a new one.
    fn next_file(&mut self) -> sys::Result<OwnedFd> {
        let new = name(self.total);
        if (self.moving.len() as u64) < SEGMENTS / 2 {
            return fs::create_at(&self.dir, &new, 0o600);
        }
        let oldest = name(self.moving.remove(0));
        fs::rename_at(&self.dir, &oldest, &self.dir, &new, RenameFlags::empty())?;
        fs::open_beneath(&self.dir, &new, OFlags::RDWR)
    }

    /// Something of the output is lost: what comes next begins a new segment, so that the gap shows.
    fn skip(&mut self, lost: u64) {
        if let Some((file, begin)) = self.current.take() {
            // It may have been longer in an earlier life.
            let _ = attr::truncate(&file, self.total - begin);
        }
        self.total += lost;
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
        let total = total(&dir)?;
        let segments = segments(&dir)?;
        let last = segments.last_key_value().map(|(start, _)| *start);
        for (start, name) in segments {
            let limit = if Some(start) == last { total } else { u64::MAX };
            self.copy_segment(&dir, &name, (start, limit), to)?;
        }
        Ok(self.position > begin)
    }

    /// Copy what is new of a segment. One that has become another meanwhile is left: the next one shows the gap.
    fn copy_segment(
        &mut self,
        dir: &OwnedFd,
        name: &Path,
        (start, limit): (u64, u64),
        to: &mut dyn Write,
    ) -> io::Result<()> {
        let Ok(file) = fs::open_beneath(dir, name, OFlags::RDONLY | OFlags::NONBLOCK) else { return Ok(()) };
        let Stat { file: id, size, .. } = fs::fstat(&file)?;
        let mut file = File::from(file);
        let end = (start + size).min(limit);
        let mut buffer = vec![0; 65_536];
        while self.position < end {
            let from = self.position.max(start);
            let wanted = usize::try_from(end - from).map_or(buffer.len(), |left| left.min(buffer.len()));
            file.seek(SeekFrom::Start(from - start))?;
            let count = file.read(&mut buffer[..wanted])?;
            let same = fs::lstat_at(dir, name).is_ok_and(|now| now.file == id);
            if count == 0 || !same {
                return Ok(());
            }
            if from > self.position {
                writeln!(to, "\n[stockade: {} bytes cut here]", from - self.position)?;
            }
            to.write_all(&buffer[..count])?;
            self.position = from + count as u64;
        }
        Ok(())
    }
}

/// How many bytes there are in all.
fn total(dir: &OwnedFd) -> sys::Result<u64> {
    let bytes = attr::read(dir, Path::new(POSITION), 8)?;
    Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
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
            to.write_all(&chunks.concat()).unwrap();
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
        let cut: usize = text.split("[stockade: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let mark = format!("\n[stockade: {cut} bytes cut here]\n");
        assert_eq!(text.matches(&mark).count(), 1);
        assert_eq!(cut + text.len() - mark.len(), 1_000_000);
    }
}
