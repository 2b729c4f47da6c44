//! The program that hands an interface's frames to a socket: five instructions, loaded and attached by system calls.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of bpf(2), and what they take (linux/bpf.h).
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// In the kernel's generic path, which every driver has.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_PASS: i32 = 2;
const FUNC_REDIRECT_MAP: i32 = 51;
/// Where `struct xdp_md` has the number of the receive queue.
const RX_QUEUE_INDEX: i16 = 16;
/// The queue that a socket is bound to.
const QUEUE: u32 = 0;

/// One command; the kernel takes attributes of any length and reads what it knows.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads as many bytes as `attributes` has; pointers in them are valid during the call.
    let done = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>() as libc::c_uint)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

fn descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: these commands return a new descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

fn pointer<T: ?Sized>(to: &T) -> u64 {
    std::ptr::from_ref(to).cast::<u8>() as u64
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// `struct bpf_insn`: operation, registers (source above destination), offset, constant.
#[repr(C)]
struct Instruction(u8, u8, i16, i32);

/// A program that runs on an interface for as long as this is held.
#[derive(Debug)]
pub(super) struct Redirect {
    _link: OwnedFd,
    _map: OwnedFd,
}

impl Redirect {
    /// Has interface number `index` hand all frames of its first queue to `socket`, which is bound to it. Frames of other
    /// queues go their usual way.
    pub(super) fn attach(index: u32, socket: BorrowedFd<'_>) -> Result<Redirect, (&'static str, io::Error)> {
        let because = |what| move |e| (what, e);
        let map = MapCreate { kind: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: 1 };
        let map = descriptor(MAP_CREATE, &map).map_err(because("making an XSKMAP"))?;
        // return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)
        let code = [
            Instruction(0x61, 0x12, RX_QUEUE_INDEX, 0),
            // The map's address, in two halves.
            Instruction(0x18, 0x11, 0, map.as_raw_fd()),
            Instruction(0, 0, 0, 0),
            Instruction(0xb7, 0x03, 0, XDP_PASS),
            Instruction(0x85, 0, 0, FUNC_REDIRECT_MAP),
            Instruction(0x95, 0, 0, 0),
        ];
        let program = ProgLoad {
            kind: PROG_TYPE_XDP,
            instructions: code.len() as u32,
            code: pointer(&code),
            license: pointer(c"Apache-2.0"),
            log_level: 0,
            log_size: 0,
            log: 0,
        };
        let program = descriptor(PROG_LOAD, &program).map_err(because("loading an XDP program"))?;
        let value = socket.as_raw_fd() as u32;
        let update = MapUpdate {
            map: map.as_raw_fd() as u32,
            _pad: 0,
            key: pointer(&QUEUE),
            value: pointer(&value),
            flags: 0,
        };
        bpf(MAP_UPDATE_ELEM, &update).map_err(because("entering the socket into an XSKMAP"))?;
        let link = LinkCreate {
            program: program.as_raw_fd() as u32,
            interface: index,
            attach_type: ATTACH_XDP,
            flags: XDP_FLAGS_SKB_MODE,
        };
        let link = descriptor(LINK_CREATE, &link).map_err(because("attaching an XDP program"))?;
        Ok(Redirect { _link: link, _map: map })
    }
}
