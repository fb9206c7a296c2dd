//! Standard input, output and error are descriptors of the host, and `/proc/self/fd/N` opens anew what they lead to.
//!
//! So a file that the caller opened for reading must not become writable through it, and a directory must not become a
//! door: what is not a pipe, a socket or a terminal is opened anew inside, or read and written through a pipe.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::{Failure, Step};
use crate::plan::Plan;
use crate::policy::Access;
use crate::sys::fs::{self, FileId, FileType, OFlags, Stat};
use crate::sys::socket::{self, standard};
use crate::sys::terminal;

/// What one of the three descriptors becomes inside.
pub(super) enum Source {
    /// What it is.
    Pass,
    /// The same file opened for reading inside, at the same offset; through the pipe where it is not to be seen there.
    Reopen { path: PathBuf, offset: u64, file: FileId, otherwise: OwnedFd },
    /// The same device, opened inside: through the caller's descriptor its node on the host could be changed
    /// (`fchmod(2)`). What it is where it is not to be had inside.
    Device { path: &'static Path, device: (u32, u32), access: OFlags },
    /// A pipe from or to the supervisor.
    Pipe(OwnedFd),
    /// The same pipe as standard output.
    SameAsOutput,
}

/// The three descriptors, and the supervisor's ends of the pipes.
pub(super) struct Stdio {
    pub(super) sources: [Source; 3],
    pumps: [Option<OwnedFd>; 3],
}

/// The name of a standard descriptor in messages.
pub(super) fn name(number: usize) -> &'static str {
    ["standard input", "standard output", "standard error"][number]
}

impl Stdio {
    /// Decide for each of the three descriptors.
    pub(super) fn prepare(plan: &Plan) -> Result<Self, Failure> {
        let mut pumps = [None, None, None];
        let input = prepare(plan, 0, standard(0), &mut pumps)?;
        let output = prepare(plan, 1, standard(1), &mut pumps)?;
        let shared = matches!(output, Source::Pipe(_)) && same_file(standard(1), standard(2));
        let error = if shared { Source::SameAsOutput } else { prepare(plan, 2, standard(2), &mut pumps)? };
        Ok(Self { sources: [input, output, error], pumps })
    }

    /// Close the sandbox's ends and start to copy what goes through pipes from the beginning; input that may yet be opened
    /// inside waits for [`Pumps::start_input`].
    pub(super) fn into_pumps(self) -> io::Result<Pumps> {
        let [to, output, error] = self.pumps;
        let [input, ..] = self.sources;
        let waits = matches!(input, Source::Reopen { .. });
        let (Source::Reopen { otherwise: end, .. } | Source::Pipe(end)) = input else {
            return Pumps::default().draining(output, error);
        };
        let feed = to.map(|to| Feed { to: Some(to), end, start: fs::offset(standard(0)).ok(), fed: Arc::default() });
        let mut pumps = Pumps { feed, ..Pumps::default() };
        if !waits {
            pumps.start_input();
        }
        pumps.draining(output, error)
    }
}

/// The copying threads of the supervisor.
#[derive(Default)]
pub(super) struct Pumps {
    feed: Option<Feed>,
    running: Vec<JoinHandle<()>>,
}

/// What goes into the pipe that is the command's standard input.
struct Feed {
    /// Taken when the copying starts.
    to: Option<OwnedFd>,
    /// The other end, to see at last what was not read.
    end: OwnedFd,
    /// Where the file was; `None` for what has no offset.
    start: Option<u64>,
    /// How many bytes went in.
    fed: Arc<AtomicU64>,
}

impl Pumps {
    /// Feed the pipe that is the command's standard input.
    pub(super) fn start_input(&mut self) {
        let Some(feed) = &mut self.feed else { return };
        let (Some(to), Ok(from)) = (feed.to.take(), standard(0).try_clone_to_owned()) else { return };
        let counter = Arc::clone(&feed.fed);
        // Never joined: it may wait for ever for a command that does not read.
        std::thread::spawn(move || copy(from, to, &counter));
    }

    fn draining(mut self, output: Option<OwnedFd>, error: Option<OwnedFd>) -> io::Result<Self> {
        for (number, from) in [(1, output), (2, error)] {
            let Some(from) = from else { continue };
            let to = standard(number).try_clone_to_owned()?;
            self.running.push(std::thread::spawn(move || copy(from, to, &AtomicU64::new(0))));
        }
        Ok(self)
    }

    /// Wait until everything that was written has arrived, and leave the input file where the command stopped reading. To be
    /// called when no process of the run is left.
    pub(super) fn finish(self) {
        for pump in self.running {
            // A panic there cannot be; the copied part has arrived either way.
            let _ = pump.join();
        }
        let Some(Feed { to: None, end, start: Some(start), fed }) = self.feed else { return };
        let unread = socket::unread(&end).unwrap_or(0);
        restore_offset(0, start + fed.load(Ordering::Acquire).saturating_sub(unread));
    }
}

fn copy(from: OwnedFd, to: OwnedFd, copied: &AtomicU64) {
    // Plain reads and writes: `splice` takes the file's offset before it waits, and would write over what others wrote.
    let (mut from, mut to) = (File::from(from), File::from(to));
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An error on either side closes both: the writer gets SIGPIPE, the reader the end, as without us.
            Ok(0) | Err(_) => return,
            Ok(count) if write(&mut to, &buffer[..count], copied).is_err() => return,
            Ok(_) => {}
        }
    }
}

fn write(to: &mut File, mut data: &[u8], copied: &AtomicU64) -> io::Result<()> {
    while !data.is_empty() {
        match to.write(data) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                copied.fetch_add(count as u64, Ordering::Release);
                data = &data[count..];
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// As much as a pipe holds.
const BUFFER: usize = 65_536;

/// Move our own descriptor to where the command left the file that it opened anew, as if it had shared the offset.
pub(super) fn restore_offset(number: usize, offset: u64) {
    if let Ok(fd) = standard(number).try_clone_to_owned() {
        // Whoever reads on gets the rest; if the file cannot seek after all, there is nothing to restore.
        let _ = File::from(fd).seek(SeekFrom::Start(offset));
    }
}

fn prepare(
    plan: &Plan,
    number: usize,
    fd: BorrowedFd<'_>,
    pumps: &mut [Option<OwnedFd>; 3],
) -> Result<Source, Failure> {
    let stat = fs::fstat(fd).map_err(|error| Failure::of(Step::PrepareStdio, &error))?;
    match stat.file_type() {
        FileType::Directory => Err(Failure::because(
            Step::PrepareStdio,
            format!("{} is a directory: through it the command could leave the sandbox", name(number)),
        )),
        FileType::RegularFile | FileType::BlockDevice if number == 0 => reopen(fd, &stat, pumps),
        FileType::RegularFile if is_writable_inside(plan, fd, &stat) => Ok(Source::Pass),
        FileType::RegularFile | FileType::BlockDevice => {
            let (read, write) = pipe()?;
            pumps[number] = Some(read);
            Ok(Source::Pipe(write))
        }
        FileType::CharacterDevice => Ok(device(fd, &stat)),
        _ => Ok(Source::Pass),
    }
}

/// The nodes of the minimal `/dev`, and the terminal that appears as its console.
fn device(fd: BorrowedFd<'_>, stat: &Stat) -> Source {
    let path = match stat.device {
        (1, 3) => "/dev/null",
        (1, 5) => "/dev/zero",
        (1, 7) => "/dev/full",
        (1, 8) => "/dev/random",
        (1, 9) => "/dev/urandom",
        _ if terminal::is_terminal(fd) => "/dev/console",
        _ => return Source::Pass,
    };
    match fs::access_mode(fd) {
        Ok(access) => Source::Device { path: Path::new(path), device: stat.device, access },
        Err(_) => Source::Pass,
    }
}

/// Open a device of the sandbox's own `/dev`; `None` where it is not the same device.
pub(super) fn open_device(path: &Path, device: (u32, u32), access: OFlags) -> Option<OwnedFd> {
    let opened = fs::open(path, access | OFlags::NOCTTY).ok()?;
    let stat = fs::fstat(&opened).ok()?;
    (stat.file_type() == FileType::CharacterDevice && stat.device == device).then_some(opened)
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    socket::pipe().map_err(|error| Failure::of(Step::PrepareStdio, &error))
}

fn reopen(fd: BorrowedFd<'_>, stat: &Stat, pumps: &mut [Option<OwnedFd>; 3]) -> Result<Source, Failure> {
    let failed = |error| Failure::of(Step::PrepareStdio, &error);
    let (otherwise, feed) = pipe()?;
    pumps[0] = Some(feed);
    if !stat.is_file() {
        return Ok(Source::Pipe(otherwise));
    }
    let path = fs::path_of(fd).map_err(failed)?;
    let offset = fs::offset(fd).map_err(failed)?;
    Ok(Source::Reopen { path, offset, file: stat.file, otherwise })
}

/// May the command write this very file by its path anyway? Then the caller's descriptor gives it nothing more.
fn is_writable_inside(plan: &Plan, fd: BorrowedFd<'_>, stat: &Stat) -> bool {
    let Ok(path) = fs::path_of(fd) else { return false };
    path.is_absolute()
        && plan.names.judge(&path).access == Access::Write
        && fs::lstat(&path).is_ok_and(|there| there.file == stat.file)
        && stat.nlink == 1
}

fn same_file(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    match (fs::fstat(a), fs::fstat(b)) {
        (Ok(a), Ok(b)) => a.file == b.file,
        _ => false,
    }
}

/// Open a file inside that the caller opened for reading; `None` where it is not the same file there.
pub(super) fn open_inside(path: &Path, offset: u64, file: FileId) -> Option<OwnedFd> {
    let opened = fs::openat2(fs::CWD, path, OFlags::RDONLY, fs::Mode::empty(), fs::ResolveFlags::NO_SYMLINKS).ok()?;
    if fs::fstat(&opened).ok()?.file != file {
        return None;
    }
    fs::seek_to(&opened, offset).ok()?;
    Some(opened)
}
