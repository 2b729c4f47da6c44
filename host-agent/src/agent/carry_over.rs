//! Rings whose switch was replaced by another one, which does not know how far it was.

use super::{Agent, AgentError, RingInfo, RingState, reachable};
use crate::nic::QpTarget;

/// A ring to connect to the new switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeRing {
    /// The ring's name.
    pub name: String,
    /// The switch's end for items, tail words and commit records.
    pub data: QpTarget,
    /// The switch's end for READs of the word that the processing unit writes.
    pub poll: QpTarget,
    /// The tail of a producer ring: everything in front of it was taken, bytes modulo 2^32.
    pub tail: Option<u32>,
    /// The lack of a consumer ring: its head behind the missing items, bytes modulo 2^32, and these items.
    pub lacks: Option<(u32, Vec<u8>)>,
}

impl Agent {
    /// Disconnects those of `names` that are rings, and says how they are from then on. Blocks on the NIC.
    ///
    /// # Errors
    /// The first error of the NIC.
    pub fn suspend_rings(&self, names: &[String]) -> Result<Vec<RingInfo>, AgentError> {
        let suspend = |name: &String| match self.disconnect_ring(name) {
            Err(AgentError::NotFound(_)) => None,
            done => Some(done),
        };
        names.iter().filter_map(suspend).collect()
    }

    /// Connects rings to a new switch, as it is told what they hold. Can be repeated. Blocks on the NIC.
    ///
    /// # Errors
    /// The first refusal: no such ring, items that do not fit, NIC.
    pub fn resume_rings(&self, rings: &[ResumeRing]) -> Result<(), AgentError> {
        for resume in rings {
            let info = self.disconnect_ring(&resume.name)?;
            if info.state == RingState::Aborted {
                continue;
            }
            if let Some(tail) = resume.tail {
                info.ring.taken(tail);
            }
            if let Some((head, items)) = &resume.lacks {
                let wrong = |source| AgentError::Items { name: resume.name.clone(), source };
                info.ring.complete(*head, items).map_err(wrong)?;
            }
            reachable(&resume.name, &info.ring)?;
            self.connect_ring(&resume.name, &resume.data, &resume.poll)?;
        }
        Ok(())
    }

    /// Items of a ring as they lie in memory: whole ones, in one piece.
    ///
    /// # Errors
    /// No such ring, no such items, or a switch that may be writing there is connected.
    pub fn read_items(&self, name: &str, from: u32, len: usize) -> Result<Vec<u8>, AgentError> {
        let info = self.ring(name)?;
        if info.state == RingState::Connected {
            let (name, state) = (name.to_owned(), "connected");
            return Err(AgentError::State { name, state, advice: "disconnect it first" });
        }
        let items = info.ring.items_at(from, len);
        reachable(name, &info.ring)?;
        items.map_err(|source| AgentError::Items { name: name.to_owned(), source })
    }
}
