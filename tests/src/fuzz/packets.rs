//! Packets at the switch, from hosts that are not members of the flow that is watched.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use zsr_api::controller as proto;
use zsr_controller::Controller;
use zsr_ring::{Consumer, PopError, Producer};
use zsr_simnet::LinkConfig;
use zsr_wire::icrc;
use zsr_wire::roce::{BTH_AT, IP_AT};

use crate::controlled::Controlled;
use crate::wire::mended;

/// Frames that are remembered, to be sent again with changes.
const REMEMBERED: usize = 64;
/// Items that one input has to get through, and the virtual time that these may take.
const ITEMS: u64 = 4;
const LIMIT: Duration = Duration::from_secs(20);
/// Inputs that one system gets.
const INPUTS: u32 = 500;

/// Flow `mine` from h1 to h2, and flow `theirs` from h3 to h4, which are the hosts of an attacker.
struct Attacked {
    sim: Controlled,
    controller: Controller,
    mine: (Producer, Consumer),
    theirs: Option<(Producer, Consumer)>,
    next: [u64; 2],
    seen: Rc<RefCell<VecDeque<Vec<u8>>>>,
    inputs: u32,
}

fn create(
    sim: &mut Controlled,
    controller: &Controller,
    name: &str,
    from: &str,
    to: &str,
) -> (Producer, Consumer) {
    let request = proto::CreateFlowRequest {
        name: name.into(),
        producers: super::services::member(from),
        consumers: super::services::member(to),
        item_size: 64,
        ring_size: 4096,
        settings: Some(proto::Settings { rto_us: Some(500), ..Default::default() }),
        ..Default::default()
    };
    let flow = sim.create(controller, request);
    (sim.producer(&flow, 0), sim.consumer(&flow, 1))
}

impl Attacked {
    fn new() -> Attacked {
        super::services::keep_program();
        let mut sim = Controlled::new("hosts: [h1, h2, h3, h4]\nflows: []\n", LinkConfig::FAST, 1);
        let controller = sim.controller(None).expect("a controller");
        let mine = create(&mut sim, &controller, "mine", "h1", "h2");
        let theirs = create(&mut sim, &controller, "theirs", "h3", "h4");
        let seen: Rc<RefCell<VecDeque<Vec<u8>>>> = Rc::default();
        let sink = seen.clone();
        sim.observe(move |_, frame| {
            let mut seen = sink.borrow_mut();
            seen.push_back(frame.to_vec());
            if seen.len() > REMEMBERED {
                seen.pop_front();
            }
        });
        let mut attacked =
            Attacked { sim, controller, mine, theirs: Some(theirs), next: [0; 2], seen, inputs: 0 };
        attacked.delivers(20 * ITEMS);
        attacked
    }

    /// Moves the attacker's own flow, as long as it lives.
    fn theirs_goes_on(&mut self) {
        if self.controller.get_flow("theirs").is_ok_and(|flow| flow.failed.is_some()) {
            self.theirs = None;
            let controller = self.controller.clone();
            self.sim.drive(async move { controller.delete_flow("theirs", true).await }).expect("deleted");
            self.theirs = Some(create(&mut self.sim, &self.controller, "theirs", "h3", "h4"));
        }
        let (tx, rx) = self.theirs.as_mut().expect("made above");
        let _ = tx.try_push(&[7; 64]);
        while rx.try_pop(&mut [0; 64]).is_ok() {}
    }

    /// Checks that items of the other flow come once and in order.
    fn delivers(&mut self, items: u64) {
        let (goal, end) = (self.next[1] + items, self.sim.net.now() + LIMIT.as_nanos() as u64);
        let mut item = [0; 64];
        while self.next[1] < goal {
            if self.next[0] < goal {
                item[..8].copy_from_slice(&self.next[0].to_le_bytes());
                self.next[0] += u64::from(self.mine.0.try_push(&item).is_ok());
            }
            self.sim.run_for(Duration::from_micros(20));
            match self.mine.1.try_pop(&mut item) {
                Ok(()) => {
                    let came = u64::from_le_bytes(item[..8].try_into().expect("8 bytes"));
                    assert_eq!(came, self.next[1], "each item once and in order");
                    self.next[1] += 1;
                }
                Err(PopError::Empty) => assert!(self.sim.net.now() < end, "the other flow stands still"),
                Err(wrong) => panic!("the other flow: {wrong}"),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        for _ in 0..32 {
            let [how, at, len, more @ ..] = rest else { break };
            let (body, behind) = more.split_at(more.len().min((*len).into()));
            rest = behind;
            let frame = if how & 0x80 != 0 { body.to_vec() } else { self.changed(*how, (*at).into(), body) };
            self.sim.inject(2 + usize::from(at & 1), &frame);
            self.sim.run_for(Duration::from_micros(5));
        }
        self.theirs_goes_on();
        self.delivers(ITEMS);
    }

    /// A frame that was seen, with some bytes changed; headers and ICRC are made right again if wanted.
    fn changed(&self, how: u8, at: usize, changes: &[u8]) -> Vec<u8> {
        let seen = self.seen.borrow();
        let mut frame = seen[usize::from(how & 0x3f) % seen.len()].clone();
        for (byte, change) in frame.iter_mut().skip(at >> 1).zip(changes) {
            *byte ^= change;
        }
        if how & 0x40 != 0 {
            frame = mended(&frame).unwrap_or(frame);
            if frame.len() > BTH_AT + icrc::LEN {
                icrc::write(&mut frame[IP_AT..]);
            }
        }
        frame
    }
}

/// Frames of any bytes, and seen frames with changes, at the ports of two hosts. A flow between two other hosts
/// delivers each item once, in order, and soon. The two hosts' own flow may fail.
pub fn switch(bytes: &[u8]) {
    thread_local!(static HELD: RefCell<Option<Attacked>> = const { RefCell::new(None) });
    HELD.with_borrow_mut(|held| {
        let mut attacked = held.take().unwrap_or_else(Attacked::new);
        attacked.take(bytes);
        attacked.inputs += 1;
        if attacked.inputs < INPUTS {
            *held = Some(attacked);
        }
    });
}
