//! Datagrams and descriptors between our own processes, loopback, terminals and polling.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use rustix::stdio::{stderr, stdin, stdout};

use super::process::Pid;
use super::{Errno, Error, Fd, Result, last_errno};

/// The longest message that is received: longer ones are not sent, they would be cut.
pub const MAX_MESSAGE: usize = 8192;

/// A pair of connected sockets that keep messages apart (`SOCK_SEQPACKET`).
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|errno| Error::new("socketpair", format_args!("AF_UNIX, SOCK_SEQPACKET"), errno))?;
    for socket in [&pair.0, &pair.1] {
        rustix::net::sockopt::set_socket_passcred(socket, true)
            .map_err(|errno| Error::new("setsockopt", format_args!("{}, SO_PASSCRED", Fd(socket.as_fd())), errno))?;
    }
    Ok(pair)
}

/// A received message.
#[derive(Debug)]
pub struct Received {
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
    /// Who sent it, as numbered in our own pid namespace (`SCM_CREDENTIALS`, filled in by the kernel).
    pub sender: Option<Pid>,
}

/// `sendmsg(2)` of one message, with descriptors (`SCM_RIGHTS`) if any.
pub fn send(socket: impl AsFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    let socket = socket.as_fd();
    if message.len() > MAX_MESSAGE {
        return Err(Error::new("sendmsg", format_args!("{}, {} bytes", Fd(socket), message.len()), Errno::MSGSIZE));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Error::new("sendmsg", format_args!("{}, {} descriptors", Fd(socket), fds.len()), Errno::MSGSIZE));
    }
    loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => {
                return Err(Error::new("sendmsg", format_args!("{}, {} bytes", Fd(socket), message.len()), errno));
            }
        }
    }
}

/// `recvmsg(2)` of one message; `None` when the other side is gone.
pub fn receive(socket: impl AsFd) -> Result<Option<Received>> {
    let socket = socket.as_fd();
    let mut buffer = [0; MAX_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let count = loop {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        match rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            Ok(received) => break received.bytes,
            Err(errno) => return Err(Error::new("recvmsg", format_args!("{}", Fd(socket)), errno)),
        }
    };
    let (mut fds, mut sender) = (Vec::new(), None);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(passed) => fds.extend(passed),
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials.pid),
            _ => {}
        }
    }
    Ok((count > 0).then(|| Received { bytes: buffer[..count].to_vec(), fds, sender }))
}

/// Wait until one of `fds` is readable or hung up; which of them are. `None` as timeout waits for ever.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Option<std::time::Duration>) -> Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = timeout.and_then(|duration| duration.try_into().ok());
    loop {
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Err(Errno::INTR) => {}
            Ok(_) => return Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
            Err(errno) => return Err(Error::new("poll", format_args!("{} descriptors", fds.len()), errno)),
        }
    }
}

/// Bring the loopback interface of this network namespace up (`netdevice(7)`, `SIOCSIFFLAGS`); the kernel then gives it
/// 127.0.0.1 and `::1` by itself.
pub fn loopback_up() -> Result<()> {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| Error::new("socket", format_args!("AF_INET, SOCK_DGRAM"), errno))?;
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(1);
    // SAFETY: SIOCSIFFLAGS reads one ifreq.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request) } != 0 {
        return Err(Error::new("ioctl", format_args!("SIOCSIFFLAGS, lo, IFF_UP"), last_errno()));
    }
    Ok(())
}

/// A pipe, both ends close-on-exec: (read, write).
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::new("pipe2", format_args!("O_CLOEXEC"), errno))
}

/// Standard input (0), output (1) or error (any other number).
#[must_use]
pub fn standard(number: usize) -> BorrowedFd<'static> {
    match number {
        0 => stdin(),
        1 => stdout(),
        _ => stderr(),
    }
}

/// How many bytes wait in a pipe to be read (`ioctl(2)`, `FIONREAD`).
pub fn unread(pipe: impl AsFd) -> Result<u64> {
    let pipe = pipe.as_fd();
    rustix::io::ioctl_fionread(pipe).map_err(|errno| Error::new("ioctl", format_args!("{}, FIONREAD", Fd(pipe)), errno))
}
