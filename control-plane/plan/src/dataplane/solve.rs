//! Fills p4/pipeline/solve.p4: the XOR tables that keep the ICRC valid.

use crate::p4::names::{action, table};
use crate::p4::{Schema, schema::SchemaError};
use p4runtime_proto::p4::v1::TableEntry;
use zsr_wire::icrc::{Layout, xor_tables};

/// Entries for each value of one byte of the difference, in the table and with the action of that byte.
macro_rules! byte {
    ($schema:ident, $out:ident, $table:ident, $set:ident, $free:expr) => {
        for (delta, free) in (0..=255).zip($free) {
            let (ident, sport) = ((free >> 16) as u16, free as u16);
            $out.push($schema.entry(table::$table { delta }, action::$set { ident, sport })?);
        }
    };
}

pub(super) fn entries(schema: &Schema) -> Result<Vec<TableEntry>, SchemaError> {
    let mut out = Vec::with_capacity(8 * 256);
    let [a, b, c, d] = xor_tables(Layout::Reth);
    byte!(schema, out, SolveReth0, Set0, a);
    byte!(schema, out, SolveReth1, Set1, b);
    byte!(schema, out, SolveReth2, Set2, c);
    byte!(schema, out, SolveReth3, Set3, d);
    let [a, b, c, d] = xor_tables(Layout::Plain);
    byte!(schema, out, SolveBare0, Set0, a);
    byte!(schema, out, SolveBare1, Set1, b);
    byte!(schema, out, SolveBare2, Set2, c);
    byte!(schema, out, SolveBare3, Set3, d);
    Ok(out)
}
