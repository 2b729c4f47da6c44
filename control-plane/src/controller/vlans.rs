//! Frames for the switch that come on another VLAN than that of their port: the program drops them and counts them by port, and
//! here they become events.

use super::Controller;
use crate::p4::names::counter::OTHER_VLAN;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use zsr_api::controller::{self as proto, EventKind};

/// Between two looks at the counters.
const LOOK: Duration = Duration::from_secs(2);
/// Between two events of one port: hosts ask for the switch's address again and again.
const AGAIN: Duration = Duration::from_secs(60);

/// What was counted at a port when it was last told, and when that was.
type Told = BTreeMap<u32, (u64, Instant)>;

impl Controller {
    /// Tells of such frames, for ever.
    pub(super) async fn watch_vlans(&self) {
        let Ok(counter) = self.0.plane.schema().counter(OTHER_VLAN) else {
            return std::future::pending().await;
        };
        let hosts = self.state().hosts.clone();
        let cells: Vec<(u32, u16)> = hosts.values().map(|h| (counter, h.station.port as u16)).collect();
        let mut told = Told::new();
        loop {
            tokio::time::sleep(LOOK).await;
            // A switch that does not answer forwards nothing, or is asked again.
            let Ok(counted) = self.reader().cells(&cells).await else { continue };
            for (host, cell) in hosts.values().zip(counted) {
                let port = host.station.port;
                let Some(frames) = news(&mut told, port, cell.packets, Instant::now()) else { continue };
                let text = explain(frames, &host.name, host.station.vlan);
                let host = host.name.clone();
                self.0
                    .events
                    .emit(EventKind::WrongVlan, proto::Event { host, port, text, ..Default::default() });
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

fn explain(frames: u64, host: &str, vlan: Option<u16>) -> String {
    let frames = if frames == 1 { "1 frame".to_owned() } else { format!("{frames} frames") };
    match vlan {
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

#[cfg(test)]
mod tests {
    use super::*;

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
