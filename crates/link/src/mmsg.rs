//! Many datagrams with one system call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use zsr_wire::Frame;
use zsr_wire::frame::MAX_FRAME;

/// Most datagrams per call.
pub(crate) const BATCH: usize = 32;

const NO_VECTOR: libc::iovec = libc::iovec { iov_base: null_mut(), iov_len: 0 };

/// Sends up to [`BATCH`] of `frames`, each as one datagram, to the connected peer. Returns how many were sent, at least
/// one; an error is that of the first.
pub(crate) fn send<'a>(fd: BorrowedFd<'_>, frames: impl Iterator<Item = &'a Frame>) -> io::Result<usize> {
    let mut vectors = [NO_VECTOR; BATCH];
    // SAFETY: all zeros is a valid `mmsghdr`: null pointers and zero lengths.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    let mut n = 0;
    for (frame, (vector, header)) in frames.zip(vectors.iter_mut().zip(&mut headers)) {
        let bytes = frame.bytes();
        *vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        n += 1;
    }
    if n == 0 {
        return Ok(0);
    }
    // SAFETY: the first `n` headers point to vectors, and these to frames, that outlive the call, which only reads
    // the frames.
    let sent = unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr(),
            n,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives up to [`BATCH`] datagrams, one into each of `frames`, whose content before is lost. Returns how many came,
/// at least one; a frame that was longer than a buffer is left empty.
pub(crate) fn recv(fd: BorrowedFd<'_>, frames: &mut [Frame]) -> io::Result<usize> {
    let mut vectors = [NO_VECTOR; BATCH];
    // SAFETY: as in `send`.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    let mut n = 0;
    for (frame, (vector, header)) in frames.iter_mut().zip(vectors.iter_mut().zip(&mut headers)) {
        frame.reset();
        // An empty buffer is as long as this.
        let Some(room) = frame.grow_back(MAX_FRAME) else { break };
        *vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: MAX_FRAME };
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        n += 1;
    }
    // SAFETY: the first `n` headers point to vectors, and these to frames of MAX_FRAME bytes, that outlive the call
    // and that nobody else has.
    let came = unsafe {
        libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), n, libc::MSG_DONTWAIT as _, null_mut())
    };
    let came = usize::try_from(came).map_err(|_| io::Error::last_os_error())?;
    for (frame, header) in frames.iter_mut().zip(&headers).take(came) {
        let cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        frame.truncate(if cut { 0 } else { header.msg_len as usize });
    }
    Ok(came)
}
