//! Asks an agent for a ring's memory, and maps it.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg,
};

use super::{Pass, PuError, lease};
use crate::layouts::Registered;
use crate::sigpipe;
use zsr_api::{
    agent as proto,
    program::{BEGUN, BELL, FAREWELL, LONGEST_MESSAGE, MOST_REGISTERED, VERSION, framed},
};
use zsr_cuda::{Gpu, GpuMemory};
use zsr_ring::begun::Begun;
use zsr_ring::doorbell::Doorbell;
use zsr_ring::memory::{
    Bus, ByteOrder, DeviceMemory, DevicePart, GpuPart, Memory, MemoryError, MemoryKey, SharedMemory,
    Visibility,
};
use zsr_ring::{Ring, RingSpec, Role};

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to answer a farewell, which only matters to whoever attaches next.
const PARTING: Duration = Duration::from_secs(1);

/// A ring in this process's address space.
pub(super) struct Joined {
    /// Its memory holds the connection.
    pub(super) ring: Arc<Ring>,
    /// Its doorbell, if it is to ring.
    pub(super) bell: Option<Bell>,
    /// The number of the first registered region, if its items may be layouts.
    pub(super) layouts: Option<u32>,
}

/// Takes a ring, and registers memory there.
pub(super) fn join(
    socket: &Path,
    name: &str,
    role: Role,
    pass: Option<&Pass>,
    registered: &[Registered],
) -> Result<Joined, PuError> {
    let lost = |source| PuError::Lost { socket: socket.to_owned(), source };
    let nonsense = |reason: &str| PuError::Protocol { socket: socket.to_owned(), reason: reason.to_owned() };
    let _quiet = sigpipe::block();
    let mut stream = UnixStream::connect(socket)
        .map_err(|source| PuError::Connect { socket: socket.to_owned(), source })?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
    let attach = proto::Attach {
        version: VERSION,
        ring: name.to_owned(),
        role: match role {
            Role::Consumer => proto::Role::Consumer.into(),
            Role::Producer | Role::Loopback => proto::Role::Producer.into(),
        },
        pass: pass.map_or(Vec::new(), |pass| pass.0.clone()),
        registered: registered.iter().map(|memory| memory.len() as u64).collect(),
    };
    if registered.len() > MOST_REGISTERED {
        let many = registered.len();
        return Err(PuError::Refused(format!(
            "ring `{name}`: {many} regions of memory are too many to register: expected {MOST_REGISTERED} at most"
        )));
    }
    greet(&stream, &framed(&attach), registered).map_err(lost)?;
    let (first, file) = first_byte(&stream).map_err(lost)?;
    let mut length = [first, 0, 0, 0];
    stream.read_exact(&mut length[1..]).map_err(lost)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST_MESSAGE {
        return Err(nonsense("its message is too long"));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).map_err(lost)?;
    let attached = proto::Attached::decode(message.as_slice()).map_err(|e| nonsense(&e.to_string()))?;
    if !attached.refusal.is_empty() {
        return Err(match attached.needs_pass {
            true => PuError::NoPass(attached.refusal),
            false => PuError::Refused(attached.refusal),
        });
    }
    let file = file.ok_or_else(|| nonsense("no descriptor came with it"))?;
    let order = match attached.byte_order() {
        proto::ByteOrder::Big => ByteOrder::Big,
        proto::ByteOrder::Little => ByteOrder::Little,
        proto::ByteOrder::Unspecified => return Err(nonsense("the ring has no byte order")),
    };
    let ring = || name.to_owned();
    let spec = RingSpec::new(attached.item_size.into(), attached.ring_size.into())
        .map_err(|source| PuError::Geometry { ring: ring(), source })?
        .with_byte_order(order);
    let memory = match attached.gpu {
        Some(gpu) => on_gpu(file, &gpu, spec.memory_len(), order)
            .map_err(|reason| PuError::Gpu { ring: ring(), reason })?,
        None => mapped(file, attached.window, spec.memory_len(), order)
            .map_err(|source| PuError::Memory { ring: ring(), source })?,
    };
    let bell = attached.doorbell.then(|| stream.try_clone()).transpose().map_err(lost)?.map(Bell);
    let begun = Begun::default();
    let told = attached.begun.map(|_| begun.clone());
    let memory = Arc::new(Leased { memory, agent: stream, number: lease::number(), begun: told });
    let joined = Ring::join_begun(role, spec, memory.clone(), attached.epoch as u16, begun.clone())
        .map_err(|source| PuError::Ring { ring: ring(), source })?;
    begun.set(joined.snapshot().tail.counter, attached.begun.unwrap_or(0));
    if let Some(reason) = joined.memory().trouble() {
        return Err(PuError::Gpu { ring: ring(), reason });
    }
    lease::watch(memory.number, &memory.agent, Arc::downgrade(&joined));
    Ok(Joined { ring: joined, bell, layouts: attached.layouts })
}

/// Sends the greeting, with descriptors of registered memory at its first byte.
fn greet(mut stream: &UnixStream, bytes: &[u8], registered: &[Registered]) -> io::Result<()> {
    let files: Vec<BorrowedFd<'_>> = registered.iter().filter_map(Registered::file).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_REGISTERED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(&bytes[sent..])
}

fn mapped(
    file: OwnedFd,
    window: Option<proto::Window>,
    bytes: usize,
    order: ByteOrder,
) -> Result<Box<dyn Memory>, MemoryError> {
    Ok(match window {
        None => Box::new(SharedMemory::open(file, bytes, order)?),
        Some(proto::Window { offset, combining, what }) => {
            Box::new(DeviceMemory::open(file, DevicePart { offset, combining }, bytes, order, what)?)
        }
    })
}

/// Maps a ring in a GPU's memory for kernels of this process.
fn on_gpu(
    file: OwnedFd,
    part: &proto::Gpu,
    bytes: usize,
    order: ByteOrder,
) -> Result<Box<dyn Memory>, String> {
    let uuid =
        part.uuid.as_slice().try_into().map_err(|_| "the agent does not say which GPU it is".to_owned())?;
    let gpu = Gpu::with_uuid(zsr_cuda::LIBRARY.as_ref(), uuid)?;
    let part = GpuPart { number: gpu.number(), uuid, mapped: part.mapped };
    Ok(Box::new(GpuMemory::import(&gpu, file, part, bytes, order)?))
}

/// Has the agent ring for this program, over the connection to it.
pub(super) struct Bell(UnixStream);

impl Doorbell for Bell {
    fn ring(&mut self, head: u32, flags: u32) {
        let mut bytes = [BELL; 9];
        bytes[1..5].copy_from_slice(&head.to_le_bytes());
        bytes[5..].copy_from_slice(&flags.to_le_bytes());
        // A doorbell that can't be sent now is one that got lost: the switch polls.
        let _ = send(&self.0, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

/// The first byte of the answer, and the descriptor that came with it.
fn first_byte(stream: &UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok((byte[0], file))
}

/// A ring's memory, and the connection that says that it is ours.
#[derive(Debug)]
struct Leased {
    memory: Box<dyn Memory>,
    agent: UnixStream,
    number: u64,
    /// How far the item at the tail is, if the agent wants to know.
    begun: Option<Begun>,
}

impl Leased {
    fn say_farewell(&mut self) -> io::Result<()> {
        let mut said = Vec::with_capacity(10);
        if let Some(begun) = &self.begun {
            let (tail, records) = begun.get();
            said.push(BEGUN);
            said.extend(tail.to_le_bytes());
            said.extend(records.to_le_bytes());
        }
        said.push(FAREWELL);
        self.agent.write_all(&said)?;
        // The agent closes the connection when the ring is free: whoever comes next finds it so.
        self.agent.set_read_timeout(Some(PARTING))?;
        self.agent.read(&mut [0]).map(|_| ())
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        lease::forget(self.number, &self.agent);
        // Handles are gone before their memory, so all that they had to write is written. An agent that is gone
        // needs no farewell.
        let _quiet = sigpipe::block();
        let _ = self.say_farewell();
    }
}

// SAFETY: it is that of the memory in it, which lives as long.
unsafe impl Memory for Leased {
    fn base(&self) -> NonNull<u8> {
        self.memory.base()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }

    fn key(&self) -> Result<MemoryKey, String> {
        self.memory.key()
    }

    fn byte_order(&self) -> ByteOrder {
        self.memory.byte_order()
    }

    fn visibility(&self) -> Visibility {
        self.memory.visibility()
    }

    fn describe(&self) -> String {
        self.memory.describe()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.memory.file()
    }

    fn part(&self) -> Option<DevicePart> {
        self.memory.part()
    }

    fn bus(&self) -> Option<&dyn Bus> {
        self.memory.bus()
    }

    fn gpu(&self) -> Option<GpuPart> {
        self.memory.gpu()
    }

    fn trouble(&self) -> Option<String> {
        self.memory.trouble()
    }
}
