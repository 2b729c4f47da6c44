//! Fills p4/pipeline/solve.p4: the XOR tables that keep the ICRC valid.

use super::PlanError;
use crate::p4::Schema;
use p4runtime_proto::p4::v1::TableEntry;
use zsr_wire::icrc::{Layout, xor_tables};

pub(super) fn entries(schema: &Schema) -> Result<Vec<TableEntry>, PlanError> {
    let mut out = Vec::with_capacity(8 * 256);
    for (name, layout) in [("reth", Layout::Reth), ("bare", Layout::Plain)] {
        for (byte, table) in xor_tables(layout).iter().enumerate() {
            for (value, &free) in table.iter().enumerate() {
                out.push(schema.entry(
                    &format!("solve_{name}_{byte}"),
                    &[value as u64],
                    &format!("set_{byte}"),
                    &[u64::from(free >> 16), u64::from(free & 0xffff)],
                )?);
            }
        }
    }
    Ok(out)
}
