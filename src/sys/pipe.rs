//! Pipes: their size, and moving what is in them.

use std::os::fd::AsFd;

use rustix::pipe::SpliceFlags;

use super::{Errno, Error, Fd, Result};

/// Let a pipe hold `bytes` (`F_SETPIPE_SZ`). The kernel refuses more than `/proc/sys/fs/pipe-max-size` to ordinary users.
pub fn set_size(pipe: impl AsFd, bytes: usize) -> Result<()> {
    let pipe = pipe.as_fd();
    rustix::pipe::fcntl_setpipe_size(pipe, bytes)
        .map(drop)
        .map_err(|errno| Error::new("fcntl", format_args!("{}, F_SETPIPE_SZ, {bytes}", Fd(pipe)), errno))
}

/// Move at most `bytes` from a pipe to where a file's offset stands (`splice(2)`); 0 at the end of the pipe. Waits for
/// something to be there.
pub fn splice(pipe: impl AsFd, file: impl AsFd, bytes: usize) -> Result<usize> {
    let (pipe, file) = (pipe.as_fd(), file.as_fd());
    loop {
        match rustix::pipe::splice(pipe, None, file, None, bytes, SpliceFlags::MOVE) {
            Err(Errno::INTR) => {}
            Ok(moved) => return Ok(moved),
            Err(errno) => {
                return Err(Error::new("splice", format_args!("{}, {}, {bytes}", Fd(pipe), Fd(file)), errno));
            }
        }
    }
}
