//! The receive ring that the kernel fills (packet_mmap, version 2): one slot per frame, handed over by a status word.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use zsr_wire::frame::MAX_FRAME;
use zsr_wire::{Frame, FramePool};

/// Bytes of a slot: the kernel's header of up to 128 bytes, and the longest frame.
const SLOT: usize = MAX_FRAME + 128;
const BLOCK: usize = 128 << 10;
const PER_BLOCK: usize = BLOCK / SLOT;
const BLOCKS: usize = 64;
const SLOTS: usize = PER_BLOCK * BLOCKS;
/// Ethernet addresses, behind which a VLAN tag belongs.
const ADDRESSES: usize = 12;
const ETHERTYPE_VLAN: u16 = 0x8100;

const _: () = assert!(SLOT.is_multiple_of(libc::TPACKET_ALIGNMENT) && PER_BLOCK > 0);

/// Sets an option of a packet socket.
pub(super) fn set<T>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The mapped ring of a socket.
pub(super) struct Ring {
    base: NonNull<u8>,
    next: usize,
}

// SAFETY: the mapping belongs to this object alone; the kernel does not mind the thread.
unsafe impl Send for Ring {}

/// What a slot held.
pub(super) enum Slot {
    /// The kernel has not filled it yet.
    Empty,
    /// A frame that is not for this port: sent by this host, or cut off.
    Unwanted {
        /// It was for us, and is lost.
        lost: bool,
    },
    Frame(Frame),
}

impl Ring {
    pub(super) fn new(socket: BorrowedFd<'_>) -> io::Result<Ring> {
        set(socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: SLOT as u32,
            tp_frame_nr: SLOTS as u32,
        };
        set(socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let at = unsafe {
            libc::mmap(
                null_mut(),
                BLOCK * BLOCKS,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(at.cast()) {
            Some(base) if at != libc::MAP_FAILED => Ok(Ring { base, next: 0 }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Takes what is in the next slot, and gives the slot back.
    pub(super) fn take(&mut self, pool: &mut FramePool) -> Slot {
        let offset = self.next / PER_BLOCK * BLOCK + self.next % PER_BLOCK * SLOT;
        // SAFETY: `next` is below SLOTS, so the slot lies in the mapping, aligned to 16 bytes.
        let slot = unsafe { self.base.add(offset) };
        // SAFETY: the header begins with the status word, which both sides access atomically.
        let status: &AtomicU32 = unsafe { slot.cast().as_ref() };
        let flags = status.load(Ordering::Acquire);
        if flags & libc::TP_STATUS_USER == 0 {
            return Slot::Empty;
        }
        // SAFETY: after that status the kernel leaves the slot to us; the header is plain data at its start.
        let header: libc::tpacket2_hdr = unsafe { slot.cast().read() };
        let taken = copy(slot, &header, flags, pool);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % SLOTS;
        taken
    }
}

/// The frame in a slot, with the VLAN tag that the kernel took out put back.
fn copy(slot: NonNull<u8>, header: &libc::tpacket2_hdr, flags: u32, pool: &mut FramePool) -> Slot {
    let address_at = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
    // SAFETY: the kernel puts the address there, inside the slot.
    let address: libc::sockaddr_ll = unsafe { slot.add(address_at).cast().read() };
    if address.sll_pkttype == libc::PACKET_OUTGOING {
        return Slot::Unwanted { lost: false };
    }
    let (at, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
    let tagged = flags & libc::TP_STATUS_VLAN_VALID != 0;
    let longest = if tagged { MAX_FRAME - 4 } else { MAX_FRAME };
    // Cut off, as frames are that a local sender leaves to be segmented by hardware.
    if header.tp_len as usize != len || len > longest || at + len > SLOT || len < ADDRESSES {
        return Slot::Unwanted { lost: true };
    }
    // SAFETY: inside the slot as just checked, written by the kernel and ours until the status changes.
    let bytes = unsafe { std::slice::from_raw_parts(slot.add(at).as_ptr(), len) };
    let mut frame = pool.take();
    let (addresses, rest) = bytes.split_at(ADDRESSES);
    let mut whole = frame.append(addresses);
    if tagged {
        let known = flags & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let tpid = if known { header.tp_vlan_tpid } else { ETHERTYPE_VLAN };
        whole &= frame.append(&tpid.to_be_bytes()) && frame.append(&header.tp_vlan_tci.to_be_bytes());
    }
    whole &= frame.append(rest);
    if whole {
        Slot::Frame(frame)
    } else {
        pool.put(frame);
        Slot::Unwanted { lost: true }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made for this object, which is gone after this.
        unsafe { libc::munmap(self.base.as_ptr().cast(), BLOCK * BLOCKS) };
    }
}
