//! Packets that the switch has dropped, by cause (`DROP_*` in p4/common/types.p4).

use crate::Controller;
use crate::times::drops::PATIENCE;
use zsr_api::controller as proto;
use zsr_plan::p4::names::{self, counter::DROPS};

/// Cells of the counter, and what they are called.
const CAUSES: [(u8, &str); 8] = [
    (names::DROP_UNKNOWN_QP, "unknown-qp"),
    (names::DROP_BAD_ICRC, "bad-icrc"),
    (names::DROP_STALE, "stale"),
    (names::DROP_FORGED, "forged"),
    (names::DROP_NO_ROUTE, "no-route"),
    (names::DROP_MALFORMED, "malformed"),
    (names::DROP_VLAN, "wrong-vlan"),
    (names::DROP_SOURCE, "wrong-source"),
];

impl Controller {
    /// All causes with what was counted; nothing if the switch does not answer.
    pub(crate) async fn drops(&self) -> Vec<proto::Drops> {
        let Ok(counter) = self.0.plane.schema().counter(DROPS) else { return Vec::new() };
        let cells: Vec<(u32, u16)> = CAUSES.iter().map(|(cell, _)| (counter, u16::from(*cell))).collect();
        let reader = self.reader();
        let counted = tokio::time::timeout(PATIENCE, reader.cells(&cells)).await;
        let Ok(Ok(counted)) = counted else { return Vec::new() };
        let drops = CAUSES.iter().zip(counted);
        drops
            .map(|((_, cause), cell)| proto::Drops { cause: (*cause).into(), packets: cell.packets })
            .collect()
    }
}
