//! A descriptor of the caller's that is written to and never waited for.
//!
//! Whether a write waits is a property of the open file description (`O_NONBLOCK`), which others share: setting it there
//! would change it for them. A pipe is opened again instead; a socket is told so with each call.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, OFlags};
use rustix::net::SendFlags;

use super::{Errno, Error, Fd, Result, act, fs};

/// Something that takes bytes now or not at all.
#[derive(Debug)]
pub struct Stream {
    fd: OwnedFd,
    is_socket: bool,
}

impl Stream {
    /// Take over a descriptor: a pipe that belongs to our user, a socket, a terminal or a regular file. `EBADF` if it is not
    /// open for writing; `ENXIO` if it is a pipe that nobody reads any more.
    pub fn new(fd: OwnedFd) -> Result<Self> {
        if fs::access_mode(&fd)? == OFlags::RDONLY {
            return Err(Error::new("write", format_args!("{}", Fd(fd.as_fd())), Errno::BADF));
        }
        let kind = fs::fstat(&fd)?.file_type();
        let fd = match kind {
            FileType::Fifo | FileType::CharacterDevice => {
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
                act::reopen(fd.as_fd(), flags)
                    .map_err(|errno| Error::new("open", format_args!("{}, {flags:?}", Fd(fd.as_fd())), errno))?
            }
            _ => fd,
        };
        Ok(Self { fd, is_socket: kind == FileType::Socket })
    }

    /// Write what there is room for; `EAGAIN` where there is none. To a pipe, up to `PIPE_BUF` bytes (4096) go as a whole or
    /// not at all (`pipe(7)`).
    pub fn write(&self, bytes: &[u8]) -> std::result::Result<usize, Errno> {
        loop {
            let written = if self.is_socket {
                rustix::net::send(&self.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            } else {
                rustix::io::write(&self.fd, bytes)
            };
            match written {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pipe_refuses_and_the_other_end_keeps_its_flags() {
        let (reader, writer) = super::super::socket::pipe().expect("a pipe");
        let shared = writer.try_clone().expect("a copy");
        let stream = Stream::new(writer).expect("a stream");
        let line = [b'x'; 4096];
        let written = std::iter::repeat_with(|| stream.write(&line)).take_while(|written| *written == Ok(4096)).count();
        assert!(written >= 1);
        assert_eq!(stream.write(&line), Err(Errno::AGAIN));
        assert!(!rustix::fs::fcntl_getfl(&shared).expect("flags").contains(OFlags::NONBLOCK));
        drop(reader);
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let (reader, _writer) = super::super::socket::pipe().expect("a pipe");
        assert!(Stream::new(reader).expect_err("read only").is(Errno::BADF));
    }
}
