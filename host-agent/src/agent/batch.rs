//! Many rings in one call, all of them or none: what a controller needs for a flow.

use super::{Agent, AgentError, RingInfo, RingRequest};
use crate::nic::QpTarget;

/// A ring to make and connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRing {
    /// The ring.
    pub ring: RingRequest,
    /// The switch's end for items, tail words and commit records.
    pub data: QpTarget,
    /// The switch's end for READs of the word that the processing unit writes.
    pub poll: QpTarget,
    /// Secret of its doorbell, if it is a producer ring that rings.
    pub doorbell: Option<u32>,
}

impl Agent {
    /// Makes and connects `rings`, in order. Blocks on the NIC.
    ///
    /// # Errors
    /// As [`create_ring`](Self::create_ring) and [`connect_ring`](Self::connect_ring), for the first ring that is
    /// refused; those made before it are destroyed again.
    pub fn open_rings(&self, rings: Vec<OpenRing>) -> Result<Vec<RingInfo>, AgentError> {
        let mut opened: Vec<RingInfo> = Vec::with_capacity(rings.len());
        for open in rings {
            let name = open.ring.name.clone();
            let created = self.create_ring(open.ring);
            let made = created.is_ok();
            let connected = created.and_then(|_| self.connect_ring(&name, &open.data, &open.poll));
            let rung = connected.and_then(|info| match open.doorbell {
                Some(secret) => self.set_doorbell(&name, secret),
                None => Ok(info),
            });
            match rung {
                Ok(info) => opened.push(info),
                Err(error) => {
                    let undo =
                        made.then_some(name).into_iter().chain(opened.into_iter().map(|info| info.name));
                    for name in undo {
                        // Of two errors the first is the one to tell.
                        let _ = self.destroy_ring(&name);
                    }
                    return Err(error);
                }
            }
        }
        Ok(opened)
    }

    /// Destroys `names` for `reason` (empty: none), and says how many there were; `finished`: consumers see the end of the stream
    /// in place of an abort, behind what is in their rings. Blocks on the NIC.
    ///
    /// # Errors
    /// The first error of the NIC; all rings are gone all the same.
    pub fn close_rings(&self, names: &[String], reason: &str, finished: bool) -> Result<usize, AgentError> {
        let mut closed = 0;
        let mut result = Ok(());
        for name in names {
            if finished {
                match self.finish_ring(name) {
                    Ok(()) | Err(AgentError::NotFound(_)) => {}
                    Err(error) => result = result.and(Err(error)),
                }
            }
            if !reason.is_empty() {
                match self.abort_ring(name, reason) {
                    Ok(_) | Err(AgentError::NotFound(_)) => {}
                    Err(error) => result = result.and(Err(error)),
                }
            }
            match self.destroy_ring(name) {
                Ok(()) => closed += 1,
                Err(AgentError::NotFound(_)) => {}
                Err(error) => result = result.and(Err(error)),
            }
        }
        result.map(|()| closed)
    }

    /// Ends the streams of those of `names` that are producer rings without a program; says how many.
    ///
    /// # Errors
    /// [`AgentError::ShuttingDown`].
    pub fn end_rings(&self, names: &[String]) -> Result<usize, AgentError> {
        Ok(self.rings_named(names)?.iter().filter(|info| info.ring.end_unattended()).count())
    }
}
