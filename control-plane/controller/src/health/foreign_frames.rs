//! Frames that their port's host should not send: the program drops and counts them by port, and here they become
//! events.

use crate::Controller;
use crate::times::foreign_frames::{AGAIN, LOOK};
use std::collections::BTreeMap;
use tokio::time::Instant;
use zsr_api::controller::{self as proto, EventKind};
use zsr_plan::dataplane::Station;
use zsr_plan::p4::names::counter::{OTHER_SOURCE, OTHER_VLAN};

/// The reason why a frame is foreign.
struct Fault {
    counter: &'static str,
    kind: EventKind,
    explain: fn(frames: &str, host: &str, &Station) -> String,
}

const FAULTS: [Fault; 2] = [
    Fault { counter: OTHER_VLAN, kind: EventKind::WrongVlan, explain: other_vlan },
    Fault { counter: OTHER_SOURCE, kind: EventKind::WrongSource, explain: other_source },
];

/// The count of each port at its last event, and the time of that event.
type Told = BTreeMap<u32, (u64, Instant)>;

/// A fault that is looked for: the cells of its counter, by host.
struct Watched {
    fault: &'static Fault,
    cells: Vec<(u32, u16)>,
    told: Told,
}

impl Controller {
    /// Emits events about such frames, for ever.
    pub(crate) async fn watch_strangers(&self) {
        let hosts = self.state().hosts.clone();
        let schema = self.0.plane.schema();
        let mut watched: Vec<Watched> = Vec::new();
        for fault in &FAULTS {
            let Ok(counter) = schema.counter(fault.counter) else { continue };
            let cells = hosts.values().map(|h| (counter, h.station.port as u16)).collect();
            watched.push(Watched { fault, cells, told: Told::new() });
        }
        loop {
            tokio::time::sleep(LOOK).await;
            for Watched { fault, cells, told } in &mut watched {
                // A switch that does not answer forwards nothing, or is asked again.
                let Ok(counted) = self.reader().cells(cells).await else { continue };
                for (host, cell) in hosts.values().zip(counted) {
                    let port = host.station.port;
                    let Some(frames) = news(told, port, cell.packets, Instant::now()) else { continue };
                    let frames = if frames == 1 { "1 frame".to_owned() } else { format!("{frames} frames") };
                    let text = (fault.explain)(&frames, &host.name, &host.station);
                    let event = proto::Event { host: host.name.clone(), port, text, ..Default::default() };
                    self.0.events.emit(fault.kind, event);
                }
            }
        }
    }
}

/// How many frames there were since the last time, if that is to be told now.
fn news(told: &mut Told, port: u32, counted: u64, now: Instant) -> Option<u64> {
    let (before, at) = match told.get(&port) {
        Some(&(before, at)) => (before, Some(at)),
        None => (0, None),
    };
    // A switch that was started anew has counted less.
    let frames = counted.checked_sub(before).unwrap_or(counted);
    if frames == 0 || at.is_some_and(|at| now.duration_since(at) < AGAIN) {
        return None;
    }
    told.insert(port, (counted, now));
    Some(frames)
}

fn other_vlan(frames: &str, host: &str, station: &Station) -> String {
    match station.vlan {
        None => format!(
            "{frames} for the switch came from host `{host}` with a VLAN tag and were dropped: the topology says that it is on no VLAN \
             (vlan: at the host)"
        ),
        Some(vlan) => format!(
            "{frames} for the switch came from host `{host}` without a tag of VLAN {vlan}, on which it is by the topology, and were dropped: \
             its NIC has to use the GID of that VLAN's interface"
        ),
    }
}

fn other_source(frames: &str, host: &str, station: &Station) -> String {
    format!(
        "{frames} came from the port of host `{host}` with other source addresses than its own, {} and {} by the topology (mac:, ip: at the \
         host), and were dropped: something there sends in another's name, or has addresses that the topology does not know",
        station.mac, station.ip
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn frames_are_told_once_a_minute_and_port() {
        let (mut told, start) = (Told::new(), Instant::now());
        let at = |s| start + Duration::from_secs(s);
        assert_eq!(news(&mut told, 1, 0, at(0)), None);
        assert_eq!(news(&mut told, 1, 3, at(2)), Some(3));
        assert_eq!(news(&mut told, 2, 1, at(2)), Some(1));
        assert_eq!(news(&mut told, 1, 5, at(4)), None, "too soon");
        assert_eq!(news(&mut told, 1, 7, at(70)), Some(4));
        assert_eq!(news(&mut told, 1, 7, at(140)), None, "no more came");
        assert_eq!(news(&mut told, 1, 2, at(210)), Some(2), "another switch");
    }
}
