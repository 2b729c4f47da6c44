//! Changes under a NIC that is in use: its address goes and comes back, its device is taken away.
//!
//! A queue pair names its own address by an index into the port's table of GIDs. When the address is taken away, that
//! place stays taken, and useless, for as long as a queue pair names it. The address given again is at another place.

use std::path::Path;
use std::time::Duration;

use super::abi::{QpAttr, mask, state};
use super::objects::{Objects, QueuePair};
use super::{VerbsNic, check, error, neighbour, sysfs};
use crate::nic::NicError;

/// How often, and after what time each, a queue pair is asked to leave SQD. Some devices are a moment late to find that
/// they have nothing to send.
const DRAINS: u32 = 50;
const DRAIN: Duration = Duration::from_millis(1);

impl VerbsNic {
    /// Looks whether device, port and GID are of use, and has queue pairs follow the GID.
    pub(super) fn keep_up(&self) -> Result<(), NicError> {
        let mut objects = self.present()?;
        if !sysfs::is_there(Path::new(sysfs::CLASS), &self.choice.device) || !self.answers(&objects) {
            // Some devices are only gone when nobody has them open any more.
            objects.release(&self.verbs);
            return Err(error::taken_away(&self.choice.device));
        }
        let located = self.locate(&mut objects);
        let was_troubled = std::mem::replace(&mut objects.troubled, located.is_err());
        let index = located?;
        if was_troubled {
            self.enter_neighbours(&objects);
        }
        self.follow(&mut objects, index)
    }

    /// Where the GID is now.
    pub(super) fn locate(&self, objects: &mut Objects) -> Result<u8, NicError> {
        let (class, net) = (Path::new(sysfs::CLASS), Path::new(sysfs::NET));
        objects.gid_index = sysfs::locate(class, net, &self.choice, objects.gid_index)?;
        Ok(objects.gid_index)
    }

    /// Whether the opened device is still one: a driver that was loaded anew has made another one under its name.
    fn answers(&self, objects: &Objects) -> bool {
        // SAFETY: all zeros is valid for this structure of numbers, which the call fills; the device is open.
        unsafe {
            let mut attr = std::mem::zeroed();
            check((self.verbs.query_port)(objects.context, self.choice.port, &mut attr)).is_ok()
        }
    }

    /// An interface that goes down forgets them.
    fn enter_neighbours(&self, objects: &Objects) {
        let mut entered = Vec::new();
        for (target, _) in objects.queue_pairs.values().filter_map(|pair| pair.connected) {
            if !entered.contains(&target.ip) {
                entered.push(target.ip);
                // As when they were connected.
                let _ = neighbour::set(&self.choice.interface, target.ip, target.mac);
            }
        }
    }

    fn follow(&self, objects: &mut Objects, index: u8) -> Result<(), NicError> {
        let left = |pair: &QueuePair| pair.connected.is_some_and(|(_, at)| at != index);
        let behind = objects.queue_pairs.values().filter(|pair| left(pair)).count();
        for pair in objects.queue_pairs.values_mut().filter(|pair| left(pair)) {
            self.renew_way(pair, index)
                .map_err(|e| error::stays_behind(&self.choice.device, behind, index, &e))?;
        }
        Ok(())
    }

    /// Gives a connected queue pair its GID's new index. The queue pair is not reset: the switch is in the middle of a
    /// request, and a NIC that is asked again must know what it has answered. SQD is the state in which the way to the
    /// far end may be changed (IBTA volume 1, Modify Queue Pair). It stops nothing but sending, and these queue pairs
    /// never send requests.
    fn renew_way(&self, pair: &mut QueuePair, index: u8) -> std::io::Result<()> {
        let Some((target, _)) = pair.connected else { return Ok(()) };
        let to = |qp_state| QpAttr { qp_state, ..QpAttr::default() };
        // It may be there since an attempt that failed; if it is not, what follows does.
        let _ = self.modify(pair.qp, &mut to(state::SQD), mask::STATE);
        let mut way = QpAttr { ah_attr: self.way_to(&target, index), ..QpAttr::default() };
        self.modify(pair.qp, &mut way, mask::AV)?;
        let mut back = self.modify(pair.qp, &mut to(state::RTS), mask::STATE);
        for _ in 0..DRAINS {
            if back.is_ok() {
                break;
            }
            std::thread::sleep(DRAIN);
            back = self.modify(pair.qp, &mut to(state::RTS), mask::STATE);
        }
        back?;
        pair.connected = Some((target, index));
        Ok(())
    }
}
