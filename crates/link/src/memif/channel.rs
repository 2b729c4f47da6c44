//! The control channel of one connection: a socket of packets, and the handshake that ends with two rings.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::message::{self, AddRing, Hello, Message, VERSION};
use super::region::Region;
use super::ring::{self, Ring};

/// Descriptors of each of our own rings.
const LOG2_SIZE: u8 = 8;
const MAX_LOG2_SIZE: u8 = 14;
const MAX_REGIONS: u16 = 16;

/// One direction of a link: its ring, and the descriptor that wakes who receives.
pub(super) struct Half {
    pub(super) ring: Ring,
    pub(super) doorbell: OwnedFd,
}

/// A connection's two directions.
pub(super) struct Rings {
    pub(super) send: Half,
    pub(super) receive: Half,
}

/// How far a connection has come.
pub(super) enum Progress {
    /// The other side has to say something.
    Waits,
    /// Frames can move.
    Up(Box<Rings>),
    /// It has ended: closed by the other side (`None`), or for a reason.
    Ended(Option<String>),
}

/// The side that listens; the other side owns the memory.
#[derive(Default)]
struct Listening {
    initiated: bool,
    regions: Vec<Region>,
    from_owner: Option<(AddRing, OwnedFd)>,
    to_owner: Option<(AddRing, OwnedFd)>,
}

/// The side that connects and owns the memory.
struct Owning {
    /// What is to be sent, one with each acknowledgement.
    rest: std::vec::IntoIter<(Message, Option<OwnedFd>)>,
    rings: Option<Box<Rings>>,
}

enum Side {
    Listening(Listening),
    Owning(Owning),
    /// The rings were handed out.
    Done,
}

/// What follows from a message.
enum Answer {
    Send(Message, Option<OwnedFd>),
    Up(Box<Rings>, Option<Message>),
    Nothing,
}

pub(super) struct Channel {
    socket: OwnedFd,
    side: Side,
}

impl Channel {
    /// A connection that was accepted.
    ///
    /// # Errors
    /// The other side is gone already.
    pub(super) fn accepted(socket: OwnedFd) -> io::Result<Channel> {
        let hello = Hello {
            versions: (VERSION, VERSION),
            max_region: MAX_REGIONS - 1,
            max_rings: (0, 0),
            max_log2_ring_size: MAX_LOG2_SIZE,
        };
        send(&socket, &Message::Hello(hello), None)?;
        Ok(Channel { socket, side: Side::Listening(Listening::default()) })
    }

    /// A connection that was made, with memory of its own.
    ///
    /// # Errors
    /// No memory, no descriptor left.
    pub(super) fn connected(socket: OwnedFd) -> io::Result<Channel> {
        let size = 1 << LOG2_SIZE;
        let (region, memory) = Region::create(ring::region_len(size))?;
        let regions: Arc<[Region]> = Arc::new([region]);
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let (out, inward) = (bell()?, bell()?);
        let add_ring = |from_owner, number| {
            let offset = ring::ring_at(number, size) as u32;
            Message::AddRing(AddRing { from_owner, index: 0, region: 0, offset, log2_size: LOG2_SIZE })
        };
        let add_region = Message::AddRegion { index: 0, size: ring::region_len(size) as u64 };
        let rest = vec![
            (add_region, Some(memory)),
            (add_ring(true, 0), Some(out.try_clone()?)),
            (add_ring(false, 1), Some(inward.try_clone()?)),
            (Message::Connect, None),
        ];
        let own = |number, sends| {
            Ring::own(regions.clone(), number, size, sends)
                .ok_or(io::Error::other("a region without its rings"))
        };
        let rings = Box::new(Rings {
            send: Half { ring: own(0, true)?, doorbell: out },
            receive: Half { ring: own(1, false)?, doorbell: inward },
        });
        let owning = Owning { rest: rest.into_iter(), rings: Some(rings) };
        Ok(Channel { socket, side: Side::Owning(owning) })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what the other side has said, and answers.
    pub(super) fn attend(&mut self) -> Progress {
        loop {
            let (message, fd) = match receive(&self.socket) {
                Ok(Some(one)) => one,
                Ok(None) => return Progress::Waits,
                Err(why) => return Progress::Ended(why),
            };
            let answer = match message {
                None => Err("it sent what is no message of memif 2.0".to_owned()),
                Some(Message::Disconnect { text }) => {
                    return Progress::Ended(Some(format!("it says: {text}")));
                }
                Some(message) => self.side.hear(message, fd),
            };
            let (message, fd, up) = match answer {
                Ok(Answer::Nothing) => continue,
                Ok(Answer::Send(message, fd)) => (Some(message), fd, None),
                Ok(Answer::Up(rings, last)) => (last, None, Some(rings)),
                Err(text) => {
                    self.end(&text);
                    return Progress::Ended(Some(text));
                }
            };
            if let Some(message) = message
                && let Err(e) = send(&self.socket, &message, fd.as_ref().map(AsFd::as_fd))
            {
                match e.kind() {
                    // It has gone, and may have said why before.
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => continue,
                    _ => return Progress::Ended(Some(format!("it does not take messages: {e}"))),
                }
            }
            if let Some(rings) = up {
                return Progress::Up(rings);
            }
        }
    }

    /// Tells the other side why this is the end.
    pub(super) fn end(&self, text: &str) {
        // It may be gone.
        let _ = send(&self.socket, &Message::Disconnect { text: text.to_owned() }, None);
    }
}

impl Side {
    fn hear(&mut self, message: Message, fd: Option<OwnedFd>) -> Result<Answer, String> {
        match self {
            Side::Listening(side) => {
                let answer = side.hear(message, fd)?;
                if let Answer::Up(..) = answer {
                    *self = Side::Done;
                }
                Ok(answer)
            }
            Side::Owning(side) => side.hear(message),
            Side::Done => Err(format!("{message:?} after the connection was made")),
        }
    }
}

impl Listening {
    fn hear(&mut self, message: Message, fd: Option<OwnedFd>) -> Result<Answer, String> {
        let ack = Ok(Answer::Send(Message::Ack, None));
        match message {
            Message::Init { version, .. } if version != VERSION => {
                Err(format!("version {}.{} of memif, and not 2.0", version >> 8, version & 0xff))
            }
            Message::Init { is_ethernet: false, .. } => {
                Err("a link of packets, and not of Ethernet frames".into())
            }
            Message::Init { .. } => {
                self.initiated = true;
                ack
            }
            _ if !self.initiated => Err(format!("{message:?} before the connection was initiated")),
            Message::AddRegion { index, size } => {
                let fd = fd.ok_or("a region without its descriptor")?;
                if usize::from(index) != self.regions.len() || index >= MAX_REGIONS {
                    return Err(format!("region {index}, where {} is the next", self.regions.len()));
                }
                self.regions.push(Region::open(fd, size)?);
                ack
            }
            Message::AddRing(ring) => {
                let fd = fd.ok_or("a ring without its descriptor")?;
                let place = if ring.from_owner { &mut self.from_owner } else { &mut self.to_owner };
                if ring.index != 0 || place.is_some() {
                    return Err("more than one ring in a direction".to_owned());
                }
                if !(1..=MAX_LOG2_SIZE).contains(&ring.log2_size) {
                    return Err(format!("a ring of 2^{} descriptors", ring.log2_size));
                }
                *place = Some((ring, fd));
                ack
            }
            Message::Connect => {
                let (Some(from), Some(to)) = (self.from_owner.take(), self.to_owner.take()) else {
                    return Err("a connection without a ring in each direction".to_owned());
                };
                let regions: Arc<[Region]> = std::mem::take(&mut self.regions).into();
                let half = |(ring, doorbell): (AddRing, OwnedFd), sends| {
                    let AddRing { region, offset, log2_size, .. } = ring;
                    let ring = Ring::guest(regions.clone(), region, offset, 1 << log2_size, sends)
                        .map_err(|lie| lie.to_string())?;
                    Ok::<_, String>(Half { ring, doorbell })
                };
                let rings = Rings { receive: half(from, false)?, send: half(to, true)? };
                Ok(Answer::Up(Box::new(rings), Some(Message::Connected)))
            }
            other => Err(format!("{other:?}, which is for the side that connects")),
        }
    }
}

impl Owning {
    fn hear(&mut self, message: Message) -> Result<Answer, String> {
        match message {
            Message::Hello(hello) => {
                if !(hello.versions.0..=hello.versions.1).contains(&VERSION) {
                    return Err("another version of memif than 2.0".to_owned());
                }
                if hello.max_log2_ring_size < LOG2_SIZE {
                    return Err(format!("rings of at most 2^{} descriptors", hello.max_log2_ring_size));
                }
                Ok(Answer::Send(Message::Init { version: VERSION, id: 0, is_ethernet: true }, None))
            }
            Message::Ack => match self.rest.next() {
                Some((message, fd)) => Ok(Answer::Send(message, fd)),
                None => Ok(Answer::Nothing),
            },
            Message::Connected => match self.rings.take() {
                Some(mut rings) if self.rest.as_slice().is_empty() => {
                    rings.receive.ring.begin();
                    Ok(Answer::Up(rings, None))
                }
                _ => Err("a connection that was not asked for".to_owned()),
            },
            other => Err(format!("{other:?}, which is for the side that listens")),
        }
    }
}

fn send(socket: &OwnedFd, message: &Message, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = message.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    if !fds.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[io::IoSlice::new(&bytes)], &mut beside, flags)?;
    Ok(())
}

/// A message, or `None` inside for what is none; `None` if nothing is there.
type Heard = Option<(Option<Message>, Option<OwnedFd>)>;

/// # Errors
/// The end: closed (`None`), or what the system says.
fn receive(socket: &OwnedFd) -> Result<Heard, Option<String>> {
    let mut bytes = [0u8; message::SIZE + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let came = match recvmsg(socket, &mut [io::IoSliceMut::new(&mut bytes)], &mut beside, flags) {
        Ok(came) => came.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(Errno::CONNRESET) => return Err(None),
        Err(e) => return Err(Some(e.to_string())),
    };
    if came == 0 {
        return Err(None);
    }
    let fds = beside.drain().filter_map(|one| match one {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fd = fds.flatten().next();
    Ok(Some((Message::decode(&bytes[..came]), fd)))
}
