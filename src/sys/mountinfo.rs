//! `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount of our namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file system, as `major:minor`.
    pub dev: String,
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The type of the file system.
    pub kind: String,
}

/// The mounts of our namespace, in the kernel's order: of several at one place the last is on top.
///
/// # Errors
/// If `/proc` is not there.
pub fn read() -> std::io::Result<Vec<Entry>> {
    read_again(&open()?)
}

/// The file itself, which can be read again and again, also when `/proc` is another one.
///
/// # Errors
/// If `/proc` is not there.
pub fn open() -> std::io::Result<File> {
    File::open("/proc/self/mountinfo")
}

/// The mounts as they are now.
///
/// # Errors
/// What the kernel says.
pub fn read_again(mut file: &File) -> std::io::Result<Vec<Entry>> {
    // The kernel gives at most what is asked for, and the usual table fits.
    let mut text = Vec::with_capacity(16 << 10);
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(text.split(|&byte| byte == b'\n').filter_map(entry).collect())
}

fn entry(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|&byte| byte == b' ').skip(2);
    let dev = String::from_utf8(fields.next()?.to_vec()).ok()?;
    let root = unescape(fields.next()?);
    let point = unescape(fields.next()?);
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Entry { dev, root, point, kind: String::from_utf8_lossy(kind).into_owned() })
}

/// Space, tab, newline and backslash are written as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        if let (b'\\', Some(value)) = (byte, octal(tail)) {
            path.push(value);
            rest = &tail[3..];
        } else {
            path.push(byte);
            rest = tail;
        }
    }
    OsString::from_vec(path).into()
}

fn octal(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(text, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_escapes() {
        let line = br"36 35 98:0 /mnt1 /mnt/a\040b\134c rw,noatime master:1 - ext3 /dev/root rw";
        let (dev, root, point) = ("98:0".into(), "/mnt1".into(), r"/mnt/a b\c".into());
        let expected = Entry { dev, root, point, kind: "ext3".into() };
        assert_eq!(entry(line), Some(expected));
        assert_eq!(entry(b""), None);
    }

    #[test]
    fn our_own_can_be_read() {
        assert!(read().expect("mountinfo").iter().any(|entry| *entry.point == *"/"));
    }
}
