//! Differences that are known, with their reasons in docs/bmv2-differences.md.

/// What bmv2 does to any program; and programs that both refuse.
const ANYWHERE: &[&str] = &["remains", "race", "crash", "unreadable", "unloadable", "refused"];

/// Programs of p4c's tests, and what differs there.
const KNOWN: &[(&str, &str)] = &[
    // Calls a function that its authors meant to add to bmv2.
    ("extern-funcs-bmv2", "load"),
    // Its JSON names a header type that it lacks.
    ("extract_for_header_union", "load"),
    // Take an index from an invalid header: remains of earlier packets in bmv2.
    ("issue1097-2-bmv2", "registers"),
    ("issue1566-bmv2", "counters"),
    ("issue2844-enum", "counters"),
    // Draws random numbers.
    ("issue1517-bmv2", "packet"),
    // Notes the time of packets.
    ("flowlet_switching-bmv2", "registers"),
    // Its tables have room for more entries in P4Info than in the JSON.
    ("init-entries-bmv2", "write"),
    // Keys of a translated type, or of type `error`.
    ("issue2283_1-bmv2", "write"),
    ("v1model-p4runtime-enumint-types1", "write"),
    ("v1model-p4runtime-most-types1", "write"),
];

/// Whether a difference of this kind is expected of the program.
pub fn is_known(program: &str, kind: &str) -> bool {
    ANYWHERE.contains(&kind) || KNOWN.contains(&(program, kind))
}
