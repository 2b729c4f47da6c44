//! The needed part of libibverbs's stable binary interface: objects are opaque but for the fields at their start.

use std::ffi::{c_int, c_uint, c_void};

/// `struct ibv_device`, `ibv_context`, `ibv_pd`, `ibv_cq`: only pointed to.
#[repr(C)]
pub(super) struct Opaque {
    _private: [u8; 0],
}

pub(super) const QP_TYPE_RC: c_uint = 2;

pub(super) mod state {
    pub const RESET: u32 = 0;
    pub const INIT: u32 = 1;
    pub const RTR: u32 = 2;
    pub const RTS: u32 = 3;
    pub const SQD: u32 = 4;
}

pub(super) mod access {
    use std::ffi::c_int;
    pub const LOCAL_WRITE: c_int = 1;
    pub const REMOTE_WRITE: c_int = 2;
    pub const REMOTE_READ: c_int = 4;
}

pub(super) mod mask {
    use std::ffi::c_int;
    pub const STATE: c_int = 1 << 0;
    pub const ACCESS_FLAGS: c_int = 1 << 3;
    pub const PKEY_INDEX: c_int = 1 << 4;
    pub const PORT: c_int = 1 << 5;
    pub const AV: c_int = 1 << 7;
    pub const PATH_MTU: c_int = 1 << 8;
    pub const TIMEOUT: c_int = 1 << 9;
    pub const RETRY_CNT: c_int = 1 << 10;
    pub const RNR_RETRY: c_int = 1 << 11;
    pub const RQ_PSN: c_int = 1 << 12;
    pub const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub const MIN_RNR_TIMER: c_int = 1 << 15;
    pub const SQ_PSN: c_int = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub const DEST_QPN: c_int = 1 << 20;
}

/// `struct ibv_device_attr`.
#[repr(C)]
pub(super) struct DeviceAttr {
    pub fw_ver: [u8; 64],
    pub guids: [u64; 2],
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub ids: [u32; 3],
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub others: [c_int; 19],
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// `struct ibv_port_attr`. The library's function fills the first 48 bytes or all.
#[repr(C)]
pub(super) struct PortAttr {
    pub state: c_uint,
    pub max_mtu: c_uint,
    pub active_mtu: c_uint,
    pub gid_tbl_len: c_int,
    pub others: [u32; 10],
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Default, Clone, Copy)]
pub(super) struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Opaque,
    pub recv_cq: *mut Opaque,
    pub srq: *mut Opaque,
    pub cap: QpCap,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}

/// `struct ibv_ah_attr`, whose first member is `struct ibv_global_route`; a GID is aligned to 8 bytes.
#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct AhAttr {
    pub dgid: [u8; 16],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub pad: u8,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Default)]
pub(super) struct QpAttr {
    pub qp_state: c_uint,
    pub cur_qp_state: c_uint,
    pub path_mtu: c_uint,
    pub path_mig_state: c_uint,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

/// The beginning of `struct ibv_qp`.
#[repr(C)]
pub(super) struct Qp {
    pub pointers: [*mut c_void; 6],
    pub handle: u32,
    pub qp_num: u32,
}

/// The beginning of `struct ibv_mr`.
#[repr(C)]
pub(super) struct Mr {
    pub context: *mut Opaque,
    pub pd: *mut Opaque,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

// As a C compiler lays them out, on 64-bit systems.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<DeviceAttr>() == 232 && size_of::<PortAttr>() == 56 && size_of::<QpInitAttr>() == 64);
    assert!(size_of::<AhAttr>() == 32 && size_of::<QpAttr>() == 144);
    assert!(std::mem::offset_of!(QpAttr, ah_attr) == 56 && std::mem::offset_of!(QpAttr, rate_limit) == 136);
    assert!(std::mem::offset_of!(DeviceAttr, max_qp) == 108);
    assert!(std::mem::offset_of!(Mr, rkey) == 40 && std::mem::offset_of!(Qp, qp_num) == 52);
};
