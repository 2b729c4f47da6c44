//! Real NICs: reliable queue pairs on any device that libibverbs knows, loaded at run time.
//!
//! The agent needs registrations and queue pairs of the library, and never a work request: the switch is the only
//! requester. So the interface is small and stable enough to be called by name, and neither headers nor a C compiler
//! are needed to build.

mod abi;
mod changes;
mod error;
mod library;
mod neighbour;
mod objects;
mod sysfs;
mod vlan;

use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zsr_wire::{Qpn, Rkey};

use super::steps::Steps;
use super::{NicBackend, NicError, NicInfo, QpTarget, RingPart};
use abi::{AhAttr, Qp, QpAttr, QpCap, QpInitAttr, access, mask, state};
use library::Verbs;
use objects::{Objects, QueuePair};
use sysfs::Choice;
pub use sysfs::VerbsConfig;
use zsr_ring::memory::{Memory, MemoryKey};

/// Outstanding READs that a queue pair accepts at most; the switch has one.
const READS: u8 = 16;
/// The time for which a queue pair would wait for an answer, were it ever to ask: 4.096 µs times two to this power.
const TIMEOUT: u8 = 18;
const REMOTE: c_int = access::LOCAL_WRITE | access::REMOTE_READ | access::REMOTE_WRITE;

/// [`NicBackend`] over an RDMA device of the system's.
pub struct VerbsNic {
    verbs: Verbs,
    choice: Choice,
    info: NicInfo,
    max_qp: c_int,
    max_reads: u8,
    objects: Mutex<Objects>,
}

impl VerbsNic {
    /// Opens a device.
    ///
    /// # Errors
    /// [`NicError`]: no library, no device, no RoCEv2 GID with an IPv4 address, port down, no access.
    pub fn open(config: &VerbsConfig) -> Result<VerbsNic, NicError> {
        let choice = sysfs::choose(Path::new(sysfs::CLASS), Path::new(sysfs::NET), config)?;
        let verbs = Verbs::load()?;
        let context = verbs.open(&choice.device)?;
        let objects = Objects {
            context,
            pd: null_mut(),
            cq: null_mut(),
            regions: HashMap::new(),
            queue_pairs: HashMap::new(),
            gid_index: choice.gid_index,
            troubled: false,
        };
        let info = NicInfo {
            name: choice.device.clone(),
            backend: "verbs",
            mac: choice.mac,
            ip: choice.ip,
            path_mtu: 0,
            vlan: vlan::of(Path::new(vlan::FOLDER), &choice.interface),
        };
        // From here on, dropping it closes what is open.
        let mut nic =
            VerbsNic { verbs, choice, info, max_qp: 0, max_reads: READS, objects: Mutex::new(objects) };
        nic.set_up()?;
        Ok(nic)
    }

    /// The network interface behind the device's port.
    pub fn interface(&self) -> &str {
        &self.choice.interface
    }

    fn set_up(&mut self) -> Result<(), NicError> {
        let (verbs, device, port) = (&self.verbs, &self.choice.device, self.choice.port);
        let failed = |what: &str, source: io::Error| error::os(what, device, &source);
        let objects = self.objects.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: all zeros is valid for these structures of numbers, which the calls fill; the device is open.
        let (device_attr, port_attr) = unsafe {
            let mut device_attr: abi::DeviceAttr = std::mem::zeroed();
            let code = (verbs.query_device)(objects.context, &mut device_attr);
            check(code).map_err(|e| failed("asking for its limits", e))?;
            let mut port_attr: abi::PortAttr = std::mem::zeroed();
            let code = (verbs.query_port)(objects.context, port, &mut port_attr);
            check(code).map_err(|e| failed("asking for its port", e))?;
            (device_attr, port_attr)
        };
        self.max_qp = device_attr.max_qp;
        self.max_reads = device_attr.max_qp_rd_atom.clamp(1, READS.into()) as u8;
        // 1 is 256 bytes, 5 is 4096.
        self.info.path_mtu = 128 << port_attr.active_mtu.clamp(1, 5);
        // SAFETY: the device is open; both results are checked before they are used.
        unsafe {
            objects.pd = (verbs.alloc_pd)(objects.context);
            if objects.pd.is_null() {
                return Err(failed("making a protection domain", io::Error::last_os_error()));
            }
            objects.cq = (verbs.create_cq)(objects.context, 1, null_mut(), null_mut(), 0);
            if objects.cq.is_null() {
                return Err(failed("making a completion queue", io::Error::last_os_error()));
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn modify(&self, qp: *mut Qp, attr: &mut QpAttr, what: c_int) -> io::Result<()> {
        // SAFETY: `qp` is in the table, which the caller has locked; the call reads `attr`.
        check(unsafe { (self.verbs.modify_qp)(qp, attr, what) })
    }

    /// Takes a queue pair through all states, or says in which step it failed.
    fn connect(
        &self,
        qp: *mut Qp,
        target: &QpTarget,
        gid_index: u8,
    ) -> Result<(), (&'static str, io::Error)> {
        let step = |name, mut attr: QpAttr, what| self.modify(qp, &mut attr, what).map_err(|e| (name, e));
        step("RESET", QpAttr { qp_state: state::RESET, ..QpAttr::default() }, mask::STATE)?;
        let init = QpAttr {
            qp_state: state::INIT,
            port_num: self.choice.port,
            qp_access_flags: REMOTE as u32,
            ..QpAttr::default()
        };
        step("INIT", init, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)?;
        let rtr = QpAttr {
            qp_state: state::RTR,
            path_mtu: target.path_mtu.trailing_zeros().saturating_sub(7),
            dest_qp_num: target.qpn.get(),
            rq_psn: target.rq_psn.get(),
            max_dest_rd_atomic: self.max_reads,
            min_rnr_timer: 12,
            ah_attr: self.way_to(target, gid_index),
            ..QpAttr::default()
        };
        let what = mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
        step("RTR", rtr, what | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER)?;
        let rts = QpAttr {
            qp_state: state::RTS,
            timeout: TIMEOUT,
            retry_cnt: 7,
            rnr_retry: 7,
            sq_psn: target.sq_psn.get(),
            max_rd_atomic: 1,
            ..QpAttr::default()
        };
        let what = mask::STATE | mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::SQ_PSN;
        step("RTS", rts, what | mask::MAX_QP_RD_ATOMIC)
    }
}

impl VerbsNic {
    /// The way to a queue pair's far end, from the GID at this index.
    fn way_to(&self, target: &QpTarget, gid_index: u8) -> AhAttr {
        AhAttr {
            dgid: target.ip.to_ipv6_mapped().octets(),
            sgid_index: gid_index,
            hop_limit: 64,
            traffic_class: target.traffic_class,
            is_global: 1,
            port_num: self.choice.port,
            ..AhAttr::default()
        }
    }

    /// The objects of a device that is there.
    fn present(&self) -> Result<MutexGuard<'_, Objects>, NicError> {
        let objects = self.lock();
        if objects.context.is_null() { Err(error::taken_away(&self.choice.device)) } else { Ok(objects) }
    }
}

/// The library returns an error number, or -1 and sets `errno`.
fn check(code: c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        code => Err(io::Error::from_raw_os_error(code.saturating_abs())),
    }
}

/// The bytes that this process may lock; `u64::MAX` if there is no limit.
fn memlock_limit() -> Option<u64> {
    // SAFETY: all zeros is a valid `rlimit`.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills `limit`, which outlives it.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (done == 0).then_some(limit.rlim_cur)
}

impl NicBackend for VerbsNic {
    fn trouble(&self) -> Option<NicError> {
        self.keep_up().err()
    }

    fn info(&self) -> NicInfo {
        self.info.clone()
    }

    fn make(&self, memory: Arc<dyn Memory>) -> Result<RingPart, NicError> {
        Steps::make(&mut &*self, memory)
    }

    fn connect(&self, ring: RingPart, data: &QpTarget, poll: &QpTarget) -> Result<(), NicError> {
        Steps::connect(&mut &*self, ring, data, poll)
    }

    fn reset(&self, ring: RingPart) -> Result<(), NicError> {
        Steps::reset(&mut &*self, ring)
    }

    fn destroy(&self, ring: RingPart) -> Result<(), NicError> {
        Steps::destroy(&mut &*self, ring)
    }
}

impl Steps for &VerbsNic {
    fn register(&mut self, memory: Arc<dyn Memory>) -> Result<Rkey, NicError> {
        let mut objects = self.present()?;
        let (base, len) = (memory.base().as_ptr(), memory.len());
        let key =
            memory.key().map_err(|why| error::unreachable(&self.choice.device, &memory.describe(), &why))?;
        let region = match key {
            // SAFETY: the memory is valid, and stays so in the table until the region is gone.
            MemoryKey::HostAddress => unsafe {
                (self.verbs.reg_mr_iova)(objects.pd, base.cast(), len, 0, REMOTE)
            },
            MemoryKey::DmaBuf { fd, offset } => {
                let Some(reg_dmabuf_mr) = self.verbs.reg_dmabuf_mr else {
                    let why = "this libibverbs can't register a dma-buf: install rdma-core 34 or newer";
                    return Err(error::unreachable(&self.choice.device, &memory.describe(), why));
                };
                // SAFETY: as above; the memory owns the descriptor.
                unsafe { reg_dmabuf_mr(objects.pd, offset, len, 0, fd, REMOTE) }
            }
        };
        if region.is_null() {
            let source = io::Error::last_os_error();
            let device = &self.choice.device;
            return Err(match key {
                MemoryKey::HostAddress => error::register(device, len, memlock_limit(), &source),
                MemoryKey::DmaBuf { .. } => error::register_dma_buf(device, &memory.describe(), len, &source),
            });
        }
        // SAFETY: not null, so it begins like this.
        let rkey = Rkey(unsafe { (*region).rkey });
        objects.regions.insert(rkey, (region, memory));
        Ok(rkey)
    }

    fn deregister(&mut self, rkey: Rkey) -> Result<(), NicError> {
        let Ok(mut objects) = self.present() else { return Ok(()) };
        let Some((region, memory)) = objects.regions.remove(&rkey) else {
            return Err(error::unknown("memory region with the key", rkey.0));
        };
        // SAFETY: it was in the table, so it is registered.
        let done = check(unsafe { (self.verbs.dereg_mr)(region) });
        if let Err(e) = done {
            // The device may still write there.
            std::mem::forget(memory);
            return Err(error::os("deregistering memory", &self.choice.device, &e));
        }
        Ok(())
    }

    fn create_qp(&mut self) -> Result<Qpn, NicError> {
        let mut objects = self.present()?;
        // A ring's queue pairs answer; they never ask, nor take messages. Some devices want room for one of each.
        let cap =
            QpCap { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
        let mut attr = QpInitAttr {
            qp_context: null_mut(),
            send_cq: objects.cq,
            recv_cq: objects.cq,
            srq: null_mut(),
            cap,
            qp_type: abi::QP_TYPE_RC,
            sq_sig_all: 0,
        };
        // SAFETY: domain and queue are open; the call reads and writes `attr`.
        let qp = unsafe { (self.verbs.create_qp)(objects.pd, &mut attr) };
        if qp.is_null() {
            let source = io::Error::last_os_error();
            let have = objects.queue_pairs.len();
            return Err(error::queue_pair(&self.choice.device, have, self.max_qp, &source));
        }
        // SAFETY: not null, so it begins like this.
        let qpn = Qpn::new(unsafe { (*qp).qp_num });
        objects.queue_pairs.insert(qpn, QueuePair { qp, connected: None });
        Ok(qpn)
    }

    fn connect_qp(&mut self, qpn: Qpn, target: &QpTarget) -> Result<(), NicError> {
        if !target.path_mtu.is_power_of_two() || !(256..=self.info.path_mtu).contains(&target.path_mtu) {
            return Err(error::invalid(format!(
                "a path MTU of {} B is not possible on the RDMA device {}, which carries {} B at most: raise the MTU \
                 of {} (1500 carries 1024 B, 9000 carries 4096 B), or lower that of the host in the topology",
                target.path_mtu, self.choice.device, self.info.path_mtu, self.choice.interface
            )));
        }
        let mut objects = self.present()?;
        // It may have moved since it was looked at.
        let gid_index = self.locate(&mut objects)?;
        let pair =
            objects.queue_pairs.get_mut(&qpn).ok_or_else(|| error::unknown("queue pair", qpn.get()))?;
        // Needs a privilege, and no more than helps: without, the system asks the network for the address.
        let _ = neighbour::set(&self.choice.interface, target.ip, target.mac);
        pair.connected = None;
        VerbsNic::connect(self, pair.qp, target, gid_index).map_err(|(step, source)| {
            let _ = self.modify(
                pair.qp,
                &mut QpAttr { qp_state: state::RESET, ..QpAttr::default() },
                mask::STATE,
            );
            let (ip, mac) = (target.ip.to_string(), target.mac.to_string());
            error::state(&self.choice.device, step, &ip, &mac, &source)
        })?;
        pair.connected = Some((*target, gid_index));
        Ok(())
    }

    fn reset_qp(&mut self, qpn: Qpn) -> Result<(), NicError> {
        let Ok(mut objects) = self.present() else { return Ok(()) };
        let pair =
            objects.queue_pairs.get_mut(&qpn).ok_or_else(|| error::unknown("queue pair", qpn.get()))?;
        pair.connected = None;
        self.modify(pair.qp, &mut QpAttr { qp_state: state::RESET, ..QpAttr::default() }, mask::STATE)
            .map_err(|e| error::os("resetting a queue pair", &self.choice.device, &e))
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), NicError> {
        let Ok(mut objects) = self.present() else { return Ok(()) };
        let pair = objects.queue_pairs.remove(&qpn).ok_or_else(|| error::unknown("queue pair", qpn.get()))?;
        // SAFETY: it was in the table, so it exists.
        check(unsafe { (self.verbs.destroy_qp)(pair.qp) })
            .map_err(|e| error::os("destroying a queue pair", &self.choice.device, &e))
    }
}

impl Drop for VerbsNic {
    fn drop(&mut self) {
        self.objects.get_mut().unwrap_or_else(PoisonError::into_inner).release(&self.verbs);
    }
}
