//! What is tried inside. The directory holds `prot` (read), `.claude/hooks` (read, absent), `ro` (read) with `ro/allowed`
//! (write, absent), `pat/*.lock` (read), `free` and `free2` (writable mounts), `sub`, `plain`; all else is granted by the
//! broker.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps, XattrFlags,
    accessat, chmodat, chownat, fchmod, fchown, flock, fsetxattr, futimens, getxattr, linkat, lsetxattr, mkdirat,
    mknodat, open, openat, openat2, removexattr, renameat_with, setxattr, statat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::differential::random_calls;
use crate::harness::Case;

macro_rules! cases {
    ($($name:ident)*) => { pub(crate) const ALL: &[Case] = &[$((stringify!($name), $name)),*]; };
}

cases! {
    opens_and_creates protected_names_stay above_a_protected_name missing_ways_are_told_apart final_links_are_followed
    dots_and_slashes descriptor_calls nameless_files two_names sockets attributes access_is_answered
    threads_in_one_directory executables_are_not_busy locks_end_with_their_file fifos_do_not_block any_bytes_in_a_name
    inner_sandbox_gets_nothing killed_callers patterns_hold_for_new_names openat2_restrictions other_working_directories
    landlock_is_absent makes_denied_calls nothing_can_be_written makes_directories
    command random_calls
}

/// What a call answered.
fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> Errno {
    Errno::from_io_error(&result.expect_err("it fails")).expect("an errno")
}

fn mode_of(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).expect("metadata").mode() & 0o7777
}

const RW: Mode = Mode::from_raw_mode(0o666);
const TIMES: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 11, tv_nsec: 12 },
    last_modification: Timespec { tv_sec: 13, tv_nsec: 14 },
};

fn opens_and_creates(project: &Path) {
    fs::write("new", "one").expect("created");
    fs::write(project.join("sub/new"), "two").expect("created by an absolute path");
    assert_eq!(fs::read_to_string("sub/new").expect("read"), "two");
    let mut append = OpenOptions::new().append(true).open("new").expect("opened");
    append.write_all(b" more").expect("appended");
    assert!(rustix::fs::fcntl_getfl(&append).expect("flags").contains(OFlags::APPEND));
    assert_eq!(fs::read_to_string("new").expect("read"), "one more");
    assert_eq!(errno(OpenOptions::new().write(true).create_new(true).open("new")), Errno::EXIST);
    File::create("new").expect("truncated");
    assert_eq!(fs::metadata("new").expect("there").len(), 0);
    assert_eq!(open("absent", OFlags::RDWR, Mode::empty()).expect_err("absent"), Errno::NOENT);
    assert_eq!(open("sub", OFlags::RDWR, Mode::empty()).expect_err("a directory"), Errno::ISDIR);
    open("made", OFlags::RDONLY | OFlags::CREATE, RW).expect("made without writing");
    let exact = open("flags", OFlags::RDWR | OFlags::CREATE | OFlags::NOATIME | OFlags::CLOEXEC, RW).expect("flags");
    assert!(rustix::fs::fcntl_getfl(&exact).expect("flags").contains(OFlags::NOATIME));
    assert!(rustix::io::fcntl_getfd(&exact).expect("flags").contains(rustix::io::FdFlags::CLOEXEC));
    let kept = open("flags", OFlags::RDWR, Mode::empty()).expect("flags");
    assert!(!rustix::io::fcntl_getfd(&kept).expect("flags").contains(rustix::io::FdFlags::CLOEXEC));

    rustix::process::umask(Mode::from_raw_mode(0o027));
    File::create("masked").expect("created");
    fs::create_dir("masked.d").expect("created");
    assert_eq!((mode_of("masked"), mode_of("masked.d")), (0o640, 0o750));
    rustix::process::umask(Mode::empty());
    File::create("unmasked").expect("created");
    assert_eq!(mode_of("unmasked"), 0o666);
    rustix::process::umask(Mode::from_raw_mode(0o022));

    fs::write("ro/allowed", "x").expect("the one name that is allowed there");
    assert_eq!(errno(fs::write("ro/other", "x")), Errno::ROFS);
    fs::remove_file("ro/allowed").expect("and removed");
    let setuid = OFlags::WRONLY | OFlags::CREATE;
    assert_eq!(open("suid", setuid, Mode::from_raw_mode(0o4755)).expect_err("refused"), Errno::PERM);
    assert_eq!(errno(fs::set_permissions("plain", PermissionsExt::from_mode(0o4755))), Errno::PERM);
    assert_eq!(mode_of("plain") & 0o6000, 0);
}

fn protected_names_stay(_: &Path) {
    let refused = |what: &str, result: std::io::Result<()>| assert_eq!(errno(result), Errno::ROFS, "{what}");
    refused("write", fs::write("prot", "x"));
    refused("append", OpenOptions::new().append(true).open("prot").map(drop));
    refused("remove", fs::remove_file("prot"));
    refused("rename away", fs::rename("prot", "other"));
    refused("rename onto", fs::rename("plain", "prot"));
    // What `mv` then tries, a copy, fails.
    assert_eq!(errno(fs::rename("free/file", "ro/file")), Errno::XDEV);
    refused("chmod", fs::set_permissions("prot", PermissionsExt::from_mode(0o777)));
    refused("link out", fs::hard_link("prot", "other"));
    refused("link in", fs::hard_link("plain", "pat/x.lock"));
    refused("a link", symlink("plain", "pat/x.lock"));
    refused("a directory", fs::create_dir("pat/x.lock"));
    refused("below", fs::create_dir_all(".claude/hooks/x"));
    let raw = |what: &str, result: rustix::io::Result<()>| assert_eq!(result, Err(Errno::ROFS), "{what}");
    raw("exchange", renameat_with(CWD, "plain", CWD, "prot", RenameFlags::EXCHANGE));
    raw("exchange", renameat_with(CWD, "prot", CWD, "plain", RenameFlags::EXCHANGE));
    raw("times", utimensat(CWD, "prot", &TIMES, AtFlags::empty()));
    raw("owner", chownat(CWD, "prot", Some(rustix::process::getuid()), None, AtFlags::empty()));
    raw("xattr", setxattr("prot", "user.x", b"x", XattrFlags::empty()));
    raw("fifo", mknodat(CWD, "pat/x.lock", FileType::Fifo, RW, 0));
    let by_link = |target: &str| {
        symlink(target, "way").expect("a link");
        refused("through a link", fs::write("way", "x"));
        fs::remove_file("way").expect("removed");
    };
    by_link("prot");
    by_link("pat/x.lock");
    by_link("sub/../prot");
    fs::rename("ro", "moved").expect_err("what holds protected names stays");
    assert_eq!(fs::read_to_string("plain").expect("untouched"), "plain");
}

fn above_a_protected_name(_: &Path) {
    assert_eq!(errno(fs::write(".claude", "x")), Errno::ROFS);
    assert_eq!(errno(symlink("sub", ".claude")), Errno::ROFS);
    fs::create_dir(".claude").expect("a directory may be made");
    assert_eq!(errno(fs::create_dir(".claude")), Errno::EXIST);
    fs::write(".claude/other", "x").expect("beside the protected name");
    assert_eq!(errno(fs::create_dir(".claude/hooks")), Errno::ROFS);
    assert_eq!(errno(fs::rename(".claude", "elsewhere")), Errno::ROFS);
    assert_eq!(errno(fs::rename("sub", ".claude")), Errno::ROFS);
    let exchange = renameat_with(CWD, "sub", CWD, ".claude", RenameFlags::EXCHANGE);
    assert_eq!(exchange, Err(Errno::ROFS));
    fs::set_permissions(".claude", PermissionsExt::from_mode(0o700)).expect("its mode");
    utimensat(CWD, ".claude", &TIMES, AtFlags::empty()).expect("its times");
    assert_eq!(errno(fs::remove_dir(".claude")), Errno::NOTEMPTY);
    fs::remove_file(".claude/other").expect("removed");
    fs::remove_dir(".claude").expect("removed when empty");
}

fn missing_ways_are_told_apart(project: &Path) {
    assert_eq!(errno(fs::write("nowhere/x", "x")), Errno::NOENT);
    assert_eq!(errno(fs::create_dir(project.join("nowhere/x/y"))), Errno::NOENT);
    assert_eq!(errno(fs::write("plain/x", "x")), Errno::NOTDIR);
    assert_eq!(errno(fs::rename("plain", "nowhere/x")), Errno::NOENT);
    assert_eq!(errno(fs::write("/nowhere/x", "x")), Errno::NOENT);
    assert_eq!(errno(fs::write("x".repeat(256), "x")), Errno::NAMETOOLONG);
    assert_eq!(errno(fs::write("x/".repeat(2100), "x")), Errno::NAMETOOLONG);
    assert_eq!(errno(fs::write("", "x")), Errno::NOENT);
    symlink("loop", "loop").expect("a link");
    assert_eq!(errno(fs::write("loop", "x")), Errno::LOOP);
    assert_eq!(errno(fs::write("loop/x", "x")), Errno::LOOP);
    fs::create_dir_all("a/b/c/d").expect("made step by step");
    fs::create_dir_all(project.join("a/b/c/e/f")).expect("made step by step");
    let many: Vec<_> = (0..8).map(|i| std::thread::spawn(move || deep(i))).collect();
    for one in many {
        one.join().expect("no thread sees a read-only file system");
    }
}

fn deep(i: usize) {
    for round in 0..20 {
        fs::create_dir_all(format!("race{round}/x/y/z/{i}")).expect("made by whoever comes first");
    }
}

fn final_links_are_followed(project: &Path) {
    symlink("target", "dangling").expect("a link");
    fs::write("dangling", "x").expect("created through the link");
    assert_eq!(fs::read_to_string("target").expect("created"), "x");
    symlink(project.join("sub/abs"), "absolute").expect("a link");
    fs::write("absolute", "x").expect("created through the link");
    symlink("../plain", "sub/up").expect("a link");
    fs::write("sub/up", "up").expect("written through the link");
    assert_eq!(fs::read_to_string("plain").expect("written"), "up");
    symlink("../made", "free/out").expect("a link in a free directory");
    fs::write("free/out", "x").expect("created outside of it");
    assert!(fs::symlink_metadata("made").expect("created").is_file());
    symlink("free/new", "in").expect("a link into a free directory");
    fs::write("in", "x").expect("created in it");
    symlink("sub", "way").expect("a link on the way");
    fs::write("way/through", "x").expect("created behind it");
    symlink(project.join("sub"), "long").expect("a link on the way");
    fs::write("long/through", "y").expect("written behind it");
    let exclusive = OpenOptions::new().write(true).create_new(true).open("in");
    assert_eq!(errno(exclusive), Errno::EXIST);
    let nofollow = OpenOptions::new().write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open("way");
    assert_eq!(errno(nofollow), Errno::LOOP);
    assert_eq!(errno(fs::create_dir("dangling")), Errno::EXIST);
    fs::set_permissions("dangling", PermissionsExt::from_mode(0o600)).expect("its target's mode");
    assert_eq!(mode_of("target"), 0o600);
    lsetxattr("dangling", "user.x", b"x", XattrFlags::empty()).expect_err("links have none");
    chownat(CWD, "dangling", Some(rustix::process::getuid()), None, AtFlags::SYMLINK_NOFOLLOW).expect("the link's own");
    utimensat(CWD, "dangling", &TIMES, AtFlags::SYMLINK_NOFOLLOW).expect("the link's own");
    assert_eq!(fs::symlink_metadata("dangling").expect("there").mtime(), 13);
    assert_ne!(fs::metadata("dangling").expect("there").mtime(), 13);
    fs::hard_link("dangling", "twice").expect("the link itself");
    assert!(fs::symlink_metadata("twice").expect("there").is_symlink());
    linkat(CWD, "dangling", CWD, "thrice", AtFlags::SYMLINK_FOLLOW).expect("its target");
    assert!(fs::symlink_metadata("thrice").expect("there").is_file());
    fs::rename("dangling", "renamed").expect("the link itself");
    fs::remove_file("renamed").expect("the link itself");
    assert!(fs::exists("target").expect("known"));
}

fn dots_and_slashes(_: &Path) {
    assert_eq!(errno(fs::create_dir(".")), Errno::EXIST);
    assert_eq!(errno(fs::create_dir("sub/..")), Errno::EXIST);
    assert_eq!(errno(fs::remove_dir("sub/.")), Errno::INVAL);
    assert_eq!(errno(fs::remove_dir("sub/..")), Errno::NOTEMPTY);
    assert_eq!(errno(fs::rename("sub/.", "x")), Errno::BUSY);
    assert_eq!(errno(fs::write(".", "x")), Errno::ISDIR);
    fs::set_permissions(".", PermissionsExt::from_mode(0o750)).expect("the project's own mode");
    fs::set_permissions("sub/..", PermissionsExt::from_mode(0o755)).expect("the project's own mode");
    assert_eq!(mode_of("."), 0o755);
    utimensat(CWD, "sub/.", &TIMES, AtFlags::empty()).expect("its times");
    fs::create_dir("slash/").expect("a directory");
    fs::create_dir("slash/deep//").expect("a directory");
    fs::set_permissions("slash/", PermissionsExt::from_mode(0o700)).expect("its mode");
    assert_eq!(errno(fs::set_permissions("plain/", PermissionsExt::from_mode(0o600))), Errno::NOTDIR);
    assert_eq!(errno(fs::write("slash/", "x")), Errno::ISDIR);
    assert_eq!(errno(fs::write("plain/", "x")), Errno::ISDIR);
    assert_eq!(open("plain/", OFlags::WRONLY, RW).expect_err("no directory"), Errno::NOTDIR);
    assert_eq!(errno(fs::remove_file("plain/")), Errno::NOTDIR);
    assert_eq!(errno(fs::rename("plain", "x/")), Errno::NOTDIR);
    fs::rename("slash/", "slashed/").expect("a directory");
    symlink("slashed", "link").expect("a link");
    assert_eq!(errno(fs::remove_dir("link/")), Errno::NOTDIR);
    chownat(CWD, "link/", Some(rustix::process::getuid()), None, AtFlags::SYMLINK_NOFOLLOW).expect("its target");
    fs::remove_dir("slashed/deep/").expect("a directory");
    fs::write("./sub/.././sub//new", "x").expect("created");
}

fn descriptor_calls(_: &Path) {
    let file = File::open("sub/file").expect("open");
    fchmod(&file, Mode::from_raw_mode(0o640)).expect("mode");
    fchown(&file, Some(rustix::process::getuid()), None).expect("owner");
    futimens(&file, &TIMES).expect("times");
    assert_eq!(file.metadata().expect("metadata").mtime(), 13);
    fsetxattr(&file, "user.x", b"value", XattrFlags::CREATE).expect("attribute");
    rustix::fs::fremovexattr(&file, "user.x").expect("attribute");
    let by_number = format!("/proc/self/fd/{}", file.as_raw_fd());
    let by_dev = format!("/dev/fd/{}", file.as_raw_fd());
    let by_pid = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    for (mode, path) in [(0o600, &by_number), (0o604, &by_dev), (0o640, &by_pid)] {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode by way of procfs");
        assert_eq!(mode_of("sub/file"), mode);
    }
    let mut again = OpenOptions::new().write(true).open(&by_number).expect("opened again, for writing");
    again.write_all(b"again").expect("written");
    chownat(&file, "", Some(rustix::process::getuid()), None, AtFlags::EMPTY_PATH).expect("owner");
    let place = open("sub/file", OFlags::PATH, Mode::empty()).expect("a place");
    assert_eq!(fchmod(&place, RW), Err(Errno::BADF));
    assert_eq!(futimens(&place, &TIMES), Err(Errno::BADF));
    chownat(&place, "", Some(rustix::process::getuid()), None, AtFlags::EMPTY_PATH).expect("owner");
    fs::set_permissions(format!("/proc/self/fd/{}", place.as_raw_fd()), PermissionsExt::from_mode(0o644))
        .expect("mode");
    let dir = File::open("sub").expect("a directory");
    fchmod(&dir, Mode::from_raw_mode(0o700)).expect("mode");
    fs::write(format!("/proc/self/fd/{}/inner", dir.as_raw_fd()), "x").expect("created below a descriptor");
    fs::write("/proc/self/cwd/sub/cwd", "x").expect("created below the working directory");
    let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
    fchmod(&reader, RW).expect("a pipe is nobody's business");
    fchmod(rustix::stdio::stdin(), RW).expect("so is the one that came from outside");

    let protected = File::open("prot").expect("open");
    let by_number = format!("/proc/self/fd/{}", protected.as_raw_fd());
    assert_eq!(fchmod(&protected, RW), Err(Errno::ROFS));
    assert_eq!(futimens(&protected, &TIMES), Err(Errno::ROFS));
    assert_eq!(fsetxattr(&protected, "user.x", b"", XattrFlags::empty()), Err(Errno::ROFS));
    assert_eq!(errno(fs::set_permissions(&by_number, PermissionsExt::from_mode(0o777))), Errno::ROFS);
    assert_eq!(errno(fs::write(&by_number, "x")), Errno::ROFS);
    assert_eq!(linkat(CWD, &by_number, CWD, "out", AtFlags::SYMLINK_FOLLOW), Err(Errno::ROFS));
    let gone = File::open("plain").expect("open");
    fs::remove_file("plain").expect("removed");
    fs::write("plain (deleted)", "").expect("a name like the kernel's word for it");
    assert_eq!(fchmod(&gone, RW), Err(Errno::ROFS));
}

fn nameless_files(_: &Path) {
    let nameless = |dir: &str| open(dir, OFlags::TMPFILE | OFlags::RDWR, RW);
    let file = match nameless(".") {
        // Some file systems have none.
        Err(Errno::OPNOTSUPP) => return,
        other => other.expect("a file without a name"),
    };
    let by_number = format!("/proc/self/fd/{}", file.as_raw_fd());
    assert_eq!(linkat(CWD, &by_number, CWD, "pat/x.lock", AtFlags::SYMLINK_FOLLOW), Err(Errno::ROFS));
    linkat(CWD, &by_number, CWD, "named", AtFlags::SYMLINK_FOLLOW).expect("named");
    let second = nameless("sub/").expect("a file without a name");
    linkat(&second, "", CWD, "sub/second", AtFlags::EMPTY_PATH).expect("named");
    assert!(fs::symlink_metadata("sub/second").expect("there").is_file());
    symlink("sub", "way").expect("a link");
    nameless("way").expect("behind a link");
    assert_eq!(nameless("ro").expect_err("nothing there"), Errno::ROFS);
    assert_eq!(nameless("plain").expect_err("no directory"), Errno::NOTDIR);
    nameless("free").expect("the kernel's own business");
}

fn two_names(_: &Path) {
    fs::rename("plain", "renamed").expect("in one directory");
    fs::rename("renamed", "free/in").expect("into a free directory");
    fs::rename("free/in", "free2/across").expect("between free directories");
    fs::rename("free2/across", "plain").expect("out of a free directory");
    fs::hard_link("plain", "free/linked").expect("into a free directory");
    fs::hard_link("free/linked", "free2/linked").expect("between free directories");
    assert_eq!(fs::metadata("plain").expect("there").nlink(), 3);
    let noreplace = renameat_with(CWD, "plain", CWD, "sub/file", RenameFlags::NOREPLACE);
    assert_eq!(noreplace, Err(Errno::EXIST));
    let absent = renameat_with(CWD, "plain", CWD, "absent", RenameFlags::EXCHANGE);
    assert_eq!(absent, Err(Errno::NOENT));
    renameat_with(CWD, "plain", CWD, "sub/file", RenameFlags::EXCHANGE).expect("exchanged");
    assert_eq!(fs::read_to_string("plain").expect("there"), "sub/file");
    assert_eq!(errno(fs::rename("sub", "sub/below")), Errno::INVAL);
    assert_eq!(errno(fs::rename("absent", "x")), Errno::NOENT);
    assert_eq!(errno(fs::hard_link("sub", "x")), Errno::PERM);
    fs::rename("sub", "moved").expect("a directory");
    fs::write("moved/file", "x").expect("its files");
    fs::rename("free", "freed").expect("a free directory moves with its mount");
    fs::write("freed/file", "x").expect("and stays free");
    fs::remove_dir_all("free2").expect("and goes with it");
    fs::create_dir("dir").expect("a directory");
    assert_eq!(errno(fs::rename("dir", "plain")), Errno::NOTDIR);
    assert_eq!(errno(fs::rename("plain", "dir")), Errno::ISDIR);
    assert_eq!(errno(fs::remove_file("dir")), Errno::ISDIR);
}

fn sockets(project: &Path) {
    let listener = UnixListener::bind("socket").expect("bound");
    assert!(fs::symlink_metadata("socket").expect("there").file_type().is_socket());
    let _client = UnixStream::connect(project.join("socket")).expect("connected");
    listener.accept().expect("accepted");
    assert_eq!(errno(UnixListener::bind("socket")), Errno::ADDRINUSE);
    assert_eq!(errno(UnixListener::bind("pat/x.lock")), Errno::ROFS);
    assert_eq!(errno(UnixListener::bind("nowhere/x")), Errno::NOENT);
    UnixDatagram::bind("free/socket").expect("the kernel's own business");
    UnixListener::bind(project.join("sub/absolute")).expect("bound");
    let name = "n".repeat(100);
    UnixListener::bind(&name).expect("a long name");
    std::net::TcpListener::bind("127.0.0.1:0").map(drop).ok();
    let address = std::os::unix::net::SocketAddr::from_abstract_name(b"stockade-test").expect("an address");
    UnixListener::bind_addr(&address).expect("an abstract name is no file");
}

fn attributes(_: &Path) {
    chmodat(CWD, "plain", Mode::from_raw_mode(0o600), AtFlags::empty()).expect("mode");
    fs::set_permissions("sub", PermissionsExt::from_mode(0o2755)).expect("a directory's own bit");
    assert_eq!((mode_of("plain"), mode_of("sub") & 0o777), (0o600, 0o755));
    utimensat(CWD, "plain", &TIMES, AtFlags::empty()).expect("times");
    let metadata = fs::metadata("plain").expect("metadata");
    assert_eq!((metadata.atime(), metadata.mtime_nsec()), (11, 14));
    setxattr("plain", "user.x", b"value", XattrFlags::CREATE).expect("attribute");
    assert_eq!(setxattr("plain", "user.x", b"value", XattrFlags::CREATE), Err(Errno::EXIST));
    let mut value = [0; 16];
    assert_eq!(getxattr("plain", "user.x", &mut value), Ok(5));
    removexattr("plain", "user.x").expect("attribute");
    assert_eq!(removexattr("plain", "user.x"), Err(Errno::NODATA));
    assert_eq!(setxattr("absent", "user.x", b"", XattrFlags::empty()), Err(Errno::NOENT));
    assert_eq!(setxattr("plain", "user.x", &vec![0; 70_000], XattrFlags::empty()), Err(Errno::TOOBIG));
    assert_eq!(errno(fs::set_permissions("absent", PermissionsExt::from_mode(0o600))), Errno::NOENT);
    mknodat(CWD, "fifo", FileType::Fifo, RW, 0).expect("a fifo");
    mknodat(CWD, "regular", FileType::RegularFile, RW, 0).expect("a file");
    assert_eq!(mknodat(CWD, "device", FileType::CharacterDevice, RW, 0x103), Err(Errno::PERM));
    assert!(fs::symlink_metadata("fifo").expect("there").file_type().is_fifo());
}

fn access_is_answered(_: &Path) {
    let can_write = |path: &str| accessat(CWD, path, Access::WRITE_OK, AtFlags::empty());
    assert_eq!(can_write("plain"), Ok(()));
    assert_eq!(can_write("."), Ok(()));
    assert_eq!(can_write("sub/"), Ok(()));
    assert_eq!(can_write("plain/"), Err(Errno::NOTDIR));
    assert_eq!(can_write("absent"), Err(Errno::NOENT));
    assert_eq!(can_write("prot"), Err(Errno::ROFS));
    assert_eq!(can_write("free/file"), Ok(()));
    let executable = accessat(CWD, "plain", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
    assert_eq!(executable, Err(Errno::ACCESS));
    symlink("plain", "link").expect("a link");
    assert_eq!(can_write("link"), Ok(()));
}

fn threads_in_one_directory(_: &Path) {
    let work = |i: usize| {
        move || {
            for n in 0..100 {
                let name = format!("t{i}-{n}");
                fs::write(&name, &name).expect("written");
                fs::rename(&name, format!("sub/{name}")).expect("renamed");
                assert_eq!(fs::read_to_string(format!("sub/{name}")).expect("read"), name);
            }
        }
    };
    let threads: Vec<_> = (0..8).map(|i| std::thread::spawn(work(i))).collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(fs::read_dir("sub").expect("listed").count(), 801);
}

fn executables_are_not_busy(_: &Path) {
    let sleep = fs::read("/bin/true").expect("a program");
    for n in 0..200 {
        let path = format!("./program{n}");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&path).expect("made");
        file.write_all(&sleep).expect("written");
        drop(file);
        assert!(Command::new(&path).status().expect("not busy").success());
        fs::remove_file(&path).expect("removed");
    }
}

fn locks_end_with_their_file(_: &Path) {
    for _ in 0..500 {
        let file = File::create("lock").expect("created");
        flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("nobody holds it");
    }
}

fn fifos_do_not_block(_: &Path) {
    mknodat(CWD, "fifo", FileType::Fifo, RW, 0).expect("a fifo");
    let nonblocking = open("fifo", OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    assert_eq!(nonblocking.expect_err("nobody reads"), Errno::NXIO);
    let reader = std::thread::spawn(|| fs::read_to_string("fifo").expect("read"));
    fs::write("fifo", "through").expect("written to the reader");
    assert_eq!(reader.join().expect("no panic"), "through");
    // A blocked opener must not keep the broker from others.
    let blocked = std::thread::spawn(|| File::create("fifo").map(drop));
    for n in 0..100 {
        fs::write(format!("other{n}"), "x").expect("written");
    }
    let mut text = String::new();
    File::open("fifo").expect("opened").read_to_string(&mut text).expect("read");
    blocked.join().expect("no panic").expect("opened");
}

fn any_bytes_in_a_name(_: &Path) {
    for bytes in [&b"\xff\xfe"[..], b"a\nb", b"\x1b[31m", b" ", b"...", b"\\"] {
        let name = Path::new(OsStr::from_bytes(bytes));
        fs::write(name, "x").expect("written");
        fs::rename(name, Path::new("sub").join(name)).expect("renamed");
        fs::remove_file(Path::new("sub").join(name)).expect("removed");
    }
    let longest = "n".repeat(255);
    fs::write(&longest, "x").expect("written");
    // Its end is at another place of a page each time.
    for n in 0..64 {
        let dir = format!("{}sub/", "./".repeat(n * 31));
        fs::write(format!("{dir}{n}"), "x").expect("written");
    }
}

fn inner_sandbox_gets_nothing(_: &Path) {
    // A root without capabilities cannot make one.
    if !Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success()) {
        return println!("skipped: no user namespace inside");
    }
    fs::write("sub/before", "x").expect("written");
    let script = "mount --bind sub sub && mount -o remount,bind,ro sub && ! touch sub/inner && ! rm sub/before";
    let status = Command::new("unshare").args(["-Urm", "sh", "-c", script]).status().expect("unshare");
    assert!(status.success());
    let script = "mount --bind free free && mount -o remount,bind,ro free && ! mv free/file sub/ && ! ln free/file x";
    let status = Command::new("unshare").args(["-Urm", "sh", "-c", script]).status().expect("unshare");
    assert!(status.success());
    assert!(fs::exists("sub/before").expect("known") && !fs::exists("sub/inner").expect("known"));
}

fn killed_callers(_: &Path) {
    for n in 0..50 {
        let script = format!("while :; do : > k{n}; rm k{n}; mkdir d{n}; rmdir d{n}; done");
        let mut child = Command::new("sh").args(["-c", &script]).spawn().expect("sh");
        std::thread::sleep(std::time::Duration::from_micros(500 + 137 * n));
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
    fs::write("after", "x").expect("the broker is still there");
}

fn patterns_hold_for_new_names(_: &Path) {
    fs::write("pat/x", "x").expect("no match");
    assert_eq!(errno(fs::write("pat/x.lock", "x")), Errno::ROFS);
    assert_eq!(errno(fs::rename("pat/x", "pat/x.lock")), Errno::ROFS);
    assert_eq!(errno(fs::rename("pat", "elsewhere")), Errno::ROFS);
}

fn openat2_restrictions(_: &Path) {
    let sub = open("sub", OFlags::PATH, Mode::empty()).expect("a directory");
    let make = |dir, path, resolve| openat2(dir, path, OFlags::RDWR | OFlags::CREATE, RW, resolve);
    make(CWD, "plain2", ResolveFlags::empty()).expect("created");
    fs::create_dir("sub/in").expect("a directory");
    make(sub.as_fd(), "in/beneath", ResolveFlags::BENEATH).expect("created");
    make(sub.as_fd(), "/in/root", ResolveFlags::IN_ROOT).expect("created");
    make(sub.as_fd(), "/../in/root2", ResolveFlags::IN_ROOT).expect("created");
    assert!(fs::exists("sub/in/root2").expect("known"));
    assert_eq!(make(sub.as_fd(), "../out", ResolveFlags::BENEATH).expect_err("out"), Errno::XDEV);
    symlink("in", "sub/way").expect("a link");
    assert_eq!(make(sub.as_fd(), "way/x", ResolveFlags::NO_SYMLINKS).expect_err("a link"), Errno::LOOP);
    let setuid = openat2(CWD, "s", OFlags::RDWR | OFlags::CREATE, Mode::from_raw_mode(0o4755), ResolveFlags::empty());
    assert_eq!(setuid.expect_err("refused"), Errno::PERM);
    let protected = openat2(CWD, "prot", OFlags::RDWR, Mode::empty(), ResolveFlags::empty());
    assert_eq!(protected.expect_err("protected"), Errno::ROFS);
}

fn other_working_directories(project: &Path) {
    std::env::set_current_dir("sub").expect("sub");
    fs::write("here", "x").expect("relative to the new one");
    fs::write("../there", "x").expect("above it");
    assert_eq!(errno(fs::write("../prot", "x")), Errno::ROFS);
    let dir = open(project, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).expect("a directory");
    mkdirat(&dir, "made", Mode::from_raw_mode(0o755)).expect("relative to a descriptor");
    openat(&dir, "made/file", OFlags::CREATE | OFlags::WRONLY, RW).expect("relative to a descriptor");
    unlinkat(&dir, "made/file", AtFlags::empty()).expect("removed");
    unlinkat(&dir, "made", AtFlags::REMOVEDIR).expect("removed");
    assert_eq!(mkdirat(&dir, "pat/x.lock", Mode::empty()), Err(Errno::ROFS));
    statat(&dir, "sub/here", AtFlags::empty()).expect("there");
    fs::create_dir("gone").expect("made");
    std::env::set_current_dir("gone").expect("gone");
    fs::remove_dir("../gone").expect("removed");
    assert_eq!(errno(fs::write("x", "x")), Errno::NOENT);
}

fn landlock_is_absent(_: &Path) {
    let python = "import ctypes; c = ctypes.CDLL(None, use_errno=True); \
        import sys; sys.exit(0 if c.syscall(444, 0, 0, 1) == -1 and ctypes.get_errno() == 95 else 1)";
    match Command::new("python3").args(["-c", python]).status() {
        Err(error) if error.kind() == ErrorKind::NotFound => println!("skipped: no python3"),
        status => assert!(status.expect("python3").success()),
    }
}

fn makes_denied_calls(_: &Path) {
    fs::write("prot", "x").expect_err("denied");
    fs::write("prot", "y").expect_err("denied");
    fs::create_dir(".claude").expect("made");
    fs::create_dir(".claude/hooks").expect_err("denied");
    fs::create_dir("ro").expect_err("exists");
    File::open("ro/absent").expect_err("absent");
    fs::remove_file("ro/absent").expect_err("absent");
    accessat(CWD, "prot", Access::WRITE_OK, AtFlags::empty()).expect_err("only asked");
    open("prot", OFlags::RDONLY | OFlags::CREATE, RW).expect("only read");
    fs::remove_file("prot").expect_err("denied");
    fs::rename("prot", "x").expect_err("denied");
}

fn nothing_can_be_written(_: &Path) {
    assert_eq!(errno(fs::write("new", "x")), Errno::NOSYS);
    assert_eq!(errno(fs::remove_file("plain")), Errno::NOSYS);
    assert_eq!(fs::read_to_string("plain").expect("reading goes on"), "plain");
}

fn makes_directories(_: &Path) {
    fs::create_dir("new").expect("made");
    fs::create_dir("new/deep").expect("made");
    fs::create_dir(".claude").expect("made, but not free");
    fs::create_dir("new").expect_err("there");
    fs::create_dir("free/inner").expect("made by the kernel");
}

fn command(_: &Path) {
    let command = std::env::var("STOCKADE_TEST_COMMAND").expect("a command");
    assert!(Command::new("sh").args(["-c", &command]).status().expect("sh").success());
}
