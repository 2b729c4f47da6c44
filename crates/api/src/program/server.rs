//! The agent's side of an attachment.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use prost::Message;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

use super::LONGEST_MESSAGE;
use crate::agent::Attach;

/// What a program says that has just connected. Waits for it as long as it takes.
///
/// # Errors
/// The connection's; [`InvalidData`](io::ErrorKind::InvalidData) for a message that is too long or none.
pub async fn greeting(stream: &mut UnixStream) -> io::Result<Attach> {
    let length = stream.read_u32_le().await? as usize;
    if length > LONGEST_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(Attach::decode(message.as_slice())?)
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
