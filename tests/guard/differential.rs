//! The same random calls with and without the broker.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags, accessat, chmodat,
    linkat, lsetxattr, mkdirat, mknodat, openat, renameat_with, setxattr, symlinkat, unlinkat, utimensat,
};

/// How many calls a run makes; `STOCKADE_TEST_CALLS` for more.
const CALLS: usize = 3000;

/// Where the results are written: a directory that the kernel lets through.
const TRANSCRIPT: &str = "free2/transcript";

/// Numbers from a seed, the same on both sides (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % n
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    fn path(&mut self) -> String {
        let dir = self.of(&[
            "", "", "", "sub/", "sub/", "a/", "b/", "sub/a/", "free/", "free/a/", "./", "sub/../", "a/../", "c/",
        ]);
        let name = self.of(&["a", "b", "c", "d", "e", "file", "sub", "free"]);
        let end = self.of(&["", "", "", "", "", "", "", "/", "/.", "/.."]);
        format!("{dir}{name}{end}")
    }
}

/// Make the calls and write down what they answered.
pub(crate) fn random_calls(_: &Path) {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let seed = number("STOCKADE_TEST_SEED", 1) as u64;
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut transcript = String::new();
    for _ in 0..number("STOCKADE_TEST_CALLS", CALLS) {
        call(&mut random, &mut transcript);
    }
    fs::write(TRANSCRIPT, transcript).expect("written");
}

fn call(random: &mut Random, transcript: &mut String) {
    let (path, other) = (random.path(), random.path());
    let mode = Mode::from_raw_mode(*random.of(&[&0o700, &0o755, &0o666, &0o600, &0o777]));
    let (what, result) = match random.below(16) {
        0..=2 => open(random, &path, mode, transcript),
        3 | 4 => ("mkdir", mkdirat(CWD, &path, mode)),
        5 => ("rmdir", unlinkat(CWD, &path, AtFlags::REMOVEDIR)),
        6 => ("unlink", unlinkat(CWD, &path, AtFlags::empty())),
        // Between mounts the kernel says EXDEV to `.` and `..` before it says EBUSY.
        7 | 8 if path.ends_with('.') || other.ends_with('.') => return,
        7 | 8 => {
            let flags = [RenameFlags::empty(), RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
            ("rename", renameat_with(CWD, &path, CWD, &other, flags[random.below(4)]))
        }
        // Of the project itself the broker says that it must stay in place, before the kernel says EPERM.
        9 if path.ends_with("..") => return,
        9 => ("link", linkat(CWD, &path, CWD, &other, *random.of(&[&AtFlags::empty(), &AtFlags::SYMLINK_FOLLOW]))),
        // Through a link to the project a `..` would lead out of it.
        10 if other.ends_with('.') => return,
        10 => ("symlink", symlinkat(&other, CWD, &path)),
        11 => ("chmod", chmodat(CWD, &path, mode | Mode::RWXU, AtFlags::empty())),
        12 => ("utimensat", set_times(random, &path)),
        13 => ("access", accessat(CWD, &path, Access::WRITE_OK, AtFlags::empty())),
        14 => ("mknod", mknodat(CWD, &path, *random.of(&[&FileType::Fifo, &FileType::RegularFile]), mode, 0)),
        _ if random.below(2) == 0 => ("setxattr", setxattr(&path, "user.x", b"x", XattrFlags::empty())),
        _ => ("lsetxattr", lsetxattr(&path, "user.x", b"x", XattrFlags::CREATE)),
    };
    let _ = writeln!(transcript, "{what} {path} {other} {mode:?}: {result:?}");
}

fn open(
    random: &mut Random,
    path: &str,
    mode: Mode,
    transcript: &mut String,
) -> (&'static str, rustix::io::Result<()>) {
    let flags = *random.of(&[
        &(OFlags::CREATE | OFlags::WRONLY),
        &(OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC),
        &(OFlags::CREATE | OFlags::EXCL | OFlags::RDWR),
        &OFlags::CREATE,
        &OFlags::RDWR,
        &(OFlags::WRONLY | OFlags::NOFOLLOW),
        &(OFlags::RDONLY | OFlags::TRUNC),
        &(OFlags::WRONLY | OFlags::DIRECTORY),
        &(OFlags::TMPFILE | OFlags::WRONLY),
    ]);
    let _ = write!(transcript, "{flags:?} ");
    // Nobody is at the other end of a fifo.
    let file = openat(CWD, path, flags | OFlags::NONBLOCK | OFlags::CLOEXEC, mode);
    let written =
        file.and_then(|file| if flags.intersects(OFlags::RWMODE) { rustix::io::write(&file, b"text") } else { Ok(0) });
    ("open", written.map(drop))
}

fn set_times(random: &mut Random, path: &str) -> rustix::io::Result<()> {
    let time = Timespec { tv_sec: 1_000_000, tv_nsec: 5 };
    let flags = *random.of(&[&AtFlags::empty(), &AtFlags::SYMLINK_NOFOLLOW]);
    utimensat(CWD, path, &Timestamps { last_access: time, last_modification: time }, flags)
}

/// Both transcripts and both trees must be the same.
pub(crate) fn compare(inside: &Path, outside: &Path) {
    let transcript = |root: &Path| fs::read_to_string(root.join(TRANSCRIPT)).expect("a transcript");
    let (ours, theirs) = (transcript(inside), transcript(outside));
    for (number, (our, their)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(our, their, "call {number}; before it:\n{}", before(&ours, number));
    }
    assert_eq!(tree(inside), tree(outside));
}

fn before(transcript: &str, number: usize) -> String {
    let lines: Vec<_> = transcript.lines().skip(number.saturating_sub(20)).take(number.min(20)).collect();
    lines.join("\n")
}

fn tree(root: &Path) -> String {
    let mut lines = Vec::new();
    let mut rest = vec![root.to_path_buf()];
    while let Some(path) = rest.pop() {
        let metadata = fs::symlink_metadata(&path).expect("metadata");
        let name = path.strip_prefix(root).expect("below").display().to_string();
        let target = fs::read_link(&path).unwrap_or_default();
        lines.push(format!("{name} {:o} {} -> {}", metadata.mode(), metadata.nlink(), target.display()));
        if metadata.is_dir() {
            rest.extend(fs::read_dir(&path).expect("listed").map(|entry| entry.expect("an entry").path()));
        }
    }
    lines.sort();
    lines.join("\n")
}
