//! Hosts that send forbidden packets to the switch: packets of others, old packets of their own, packets of the switch
//! to itself, noise. These packets must have no effect.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use zsr_link::Rng;
use zsr_plan::dataplane::admin::{self, Reset};
use zsr_tests::controlled::Controlled;
use zsr_topology::Pipes;
use zsr_wire::icrc;
use zsr_wire::roce::IP_AT;

/// The most frames that forgers know.
const KNOWN: usize = 256;
/// The most frames that one of them sends at one time.
const AT_ONCE: u64 = 4;
/// Numbers of workers, rings and connections that there may be.
const NUMBERS: u64 = 24;

/// Frames that have come in at the switch, with their hosts.
type Seen = Rc<RefCell<VecDeque<(usize, Vec<u8>)>>>;

pub struct Forger {
    rng: Rng,
    seen: Seen,
    hosts: BTreeSet<usize>,
    /// Frames sent.
    pub sent: u64,
}

impl Forger {
    pub fn new(seed: u64, sim: &mut Controlled) -> Forger {
        let seen = Seen::default();
        let known = seen.clone();
        sim.observe(move |host, bytes| {
            let mut known = known.borrow_mut();
            if known.len() == KNOWN {
                known.pop_front();
            }
            known.push_back((host, bytes.to_vec()));
        });
        Forger { rng: Rng::new(seed ^ 0x666f_7267), seen, hosts: BTreeSet::new(), sent: 0 }
    }

    /// Whether a host forges from now on.
    pub fn set(&mut self, host: usize, forges: bool) {
        match forges {
            true => self.hosts.insert(host),
            false => self.hosts.remove(&host),
        };
    }

    /// Forgets the seen frames. Connections are made anew under PSNs that they had before, so old frames would pass for
    /// new ones. Where PSNs are drawn, that does not happen.
    pub fn forget(&mut self) {
        self.seen.borrow_mut().clear();
    }

    /// Has each forging host send some frames.
    pub fn step(&mut self, sim: &mut Controlled) {
        for host in self.hosts.clone() {
            for _ in 0..self.rng.below(AT_ONCE) {
                if let Some(frame) = self.frame(host) {
                    sim.inject(host, &frame);
                    self.sent += 1;
                }
            }
        }
    }

    fn number(&mut self) -> u16 {
        self.rng.below(NUMBERS) as u16
    }

    fn frame(&mut self, host: usize) -> Option<Vec<u8>> {
        Some(match self.rng.below(11) {
            // Commands of the controller.
            0 => self.reset().packet(Pipes::default()),
            1 => admin::close(self.number(), Pipes::default()),
            2 => admin::retry(self.number(), Pipes::default()),
            // A frame of the host itself, once more.
            3 => self.known(|from| from == host)?,
            // A frame of another host, unchanged or with other content.
            4 | 5 => self.known(|from| from != host)?,
            6 => {
                let mut frame = self.known(|from| from != host)?;
                let at = self.rng.below(frame.len() as u64) as usize;
                frame[at] ^= 1 << self.rng.below(8);
                if frame.len() > IP_AT {
                    icrc::write(&mut frame[IP_AT..]);
                }
                frame
            }
            // A frame of the host itself, damaged.
            7..10 => {
                let mut frame = self.known(|from| from == host)?;
                let behind_ip = frame.len().saturating_sub(IP_AT) as u64;
                let at = frame.len() - 1 - self.rng.below(behind_ip.max(1)) as usize;
                frame[at] ^= 1 << self.rng.below(8);
                frame
            }
            _ => (0..self.rng.below(200)).map(|_| self.rng.bits() as u8).collect(),
        })
    }

    fn reset(&mut self) -> Reset {
        Reset {
            worker: self.number(),
            producer: self.number(),
            poll_qp: self.number(),
            head: 64 * u32::from(self.number()),
            producer_tail: 64 * u32::from(self.number()),
            psn: u32::from(self.number()),
            ..Default::default()
        }
    }

    /// A frame of a host for which `whose` holds. Its length is drawn first, since there are few kinds of each length.
    fn known(&mut self, whose: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
        let known = self.seen.borrow();
        let theirs = || known.iter().filter(|(from, _)| whose(*from)).map(|(_, frame)| frame);
        let lengths: Vec<usize> = theirs().map(Vec::len).collect::<BTreeSet<_>>().into_iter().collect();
        let length = *lengths.get(self.rng.below(lengths.len().max(1) as u64) as usize)?;
        let count = theirs().filter(|frame| frame.len() == length).count() as u64;
        theirs().filter(|frame| frame.len() == length).nth(self.rng.below(count) as usize).cloned()
    }
}
