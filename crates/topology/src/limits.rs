//! The sizes of tables in the P4 program (`p4/common/types.p4`). Number 0 of everything is nobody's.

/// Workers: one per consumer ring, or per replicate flow.
pub const MAX_WORKERS: usize = 16384 - 1;
/// Connections of rings; number 1 is the doorbells'.
pub const MAX_QPS: usize = 65536 - 2;
/// Rings of either side: each has two connections.
pub const MAX_RINGS: usize = MAX_QPS / 2 - 1;
/// Lanes of a consumer: a program looks at all of them.
pub const MAX_LANES: usize = 16;
/// Members of a replicate flow: a bit each in a register of 32.
pub const MAX_MEMBERS: usize = 32;
