//! The agent's side of an attachment.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use prost::Message;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

use super::{LONGEST_MESSAGE, MOST_REGISTERED};
use crate::agent::Attach;

/// What a program says that has just connected, and the descriptors that came with it. Waits for it as long as it takes.
///
/// # Errors
/// The connection's; [`InvalidData`](io::ErrorKind::InvalidData) for a message that is too long or none.
pub async fn greeting(stream: &mut UnixStream) -> io::Result<(Attach, Vec<OwnedFd>)> {
    let (first, files) = stream.async_io(Interest::READABLE, || first_byte(stream)).await?;
    let mut length = [first, 0, 0, 0];
    stream.read_exact(&mut length[1..]).await?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok((Attach::decode(message.as_slice())?, files))
}

fn first_byte(stream: &UnixStream) -> io::Result<(u8, Vec<OwnedFd>)> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_REGISTERED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok((byte[0], rights.flatten().collect()))
}

/// Sends `bytes`, the descriptor with the first of them. Waits until the connection has taken them.
///
/// # Errors
/// The connection's.
pub async fn hand_over(stream: &mut UnixStream, bytes: &[u8], file: &OwnedFd) -> io::Result<()> {
    let sent = stream
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let files = [file.as_fd()];
            control.push(SendAncillaryMessage::ScmRights(&files));
            Ok(sendmsg(&*stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
        })
        .await?;
    stream.write_all(&bytes[sent..]).await
}
