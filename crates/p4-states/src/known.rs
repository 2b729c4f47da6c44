//! The facts that the pairs rely on beside their own texts. Each line is checked against the pipeline's texts; one of
//! `UNREAD` must be needed, too.

/// The value of a field when the pipeline asks for an operation.
pub struct Given {
    pub control: &'static str,
    pub op: &'static str,
    pub field: &'static str,
    pub value: i128,
}

/// A field that both sides leave different, and that nobody reads then.
pub struct Unread {
    pub control: &'static str,
    pub op: &'static str,
    pub field: &'static str,
    /// A field and its value, without which the line does not hold.
    pub only_if: Option<(&'static str, i128)>,
    /// All files that ever read the field. An author who adds one must look at these lines again.
    pub readers: &'static [&'static str],
}

const fn given(control: &'static str, op: &'static str, field: &'static str, value: i128) -> Given {
    Given { control, op, field, value }
}

/// Metadata starts at zero (on tna but for what no_init.p4 names): v1model sets flags where the test holds, the ALU always puts one
/// out. All else that a control reads, or leaves unwritten, may hold anything.
pub const GIVEN: [Given; 10] = [
    given("PhaseState", "DO_MATCH", "claimed", 0),
    given("HeadState", "DO_MATCH", "same_head", 0),
    given("ProducerTailState", "DO_MATCH", "same_tail", 0),
    given("ProducerPsnState", "DO_MATCH", "matched", 0),
    given("RefillState", "DO_MATCH", "matched", 0),
    given("PollPsnState", "DO_MATCH", "answered", 0),
    given("CreditState", "DO_ADD", "over", 0),
    // In a header, so LOOK says it.
    given("LockState", "DO_GET", "g.blocked", 0),
    // The ALU reads by OR with zero.
    given("ProducerPsnState", "DO_GET", "producer_step", 0),
    // The one flag that v1model takes away.
    given("LockState", "DO_MATCH", "locked", 1),
];

/// Readers of `m.g.phase` are behind the test in claim.p4 that ends a packet whose claim failed.
const PHASE: [&str; 6] = [
    "p4/arch/tna/folded.p4",
    "p4/arch/tna/main.p4",
    "p4/arch/v1model/main.p4",
    "p4/pipeline/look.p4",
    "p4/pipeline/outcome.p4",
    "p4/pipeline/transfer.p4",
];
/// Read for fragments (at_producer), and for what a READ or a tail is sent under: neither follows EV_TAIL_ACKED or EV_RESET.
const PRODUCER_PSN: [&str; 2] = ["p4/pipeline/outcome.p4", "p4/pipeline/position.p4"];

const fn unread(
    control: &'static str,
    op: &'static str,
    field: &'static str,
    readers: &'static [&'static str],
) -> Unread {
    Unread { control, op, field, only_if: None, readers }
}

pub const UNREAD: [Unread; 6] = [
    // v1model gives the old phase, the ALU's action says the new one: right if it is claimed, else the packet ends (stale).
    Unread { only_if: Some(("claimed", 0)), ..unread("PhaseState", "DO_MATCH", "g.phase", &PHASE) },
    unread("ProducerPsnState", "DO_MATCH", "producer_psn", &PRODUCER_PSN),
    unread("ProducerPsnState", "DO_RESET", "producer_psn", &PRODUCER_PSN),
    // Debt and time of refill are for looks, in egress (RefillTimes); these operations belong to EV_START and EV_REFILL.
    unread("DebtState", "DO_ADD", "g.debt", &["p4/pipeline/amount.p4"]),
    unread("DebtState", "DO_SET", "g.debt", &["p4/pipeline/amount.p4"]),
    unread("RefillState", "DO_MATCH", "g.refill_at", &["p4/pipeline/amount.p4", "p4/pipeline/look.p4"]),
];

/// Sums that cannot wrap, as a comparison comes before: by control and sign.
pub const NEVER_WRAPS: [(&str, &str); 1] = [("CreditState", "-")];
