//! The rules for flows, for everybody who asks for one: a topology (`flows.rs`, `members.rs`) or a client of the
//! controller (`control-plane/plan/src/state.rs`). Each rule is here, once, with its words. The rules for settings are
//! in `settings.rs`. A topology adds the line and column.

use std::ops::RangeInclusive;
use std::time::Duration;

use zsr_records::Fault;

use super::data::fits_item;
use super::limits::{MAX_LANES, MAX_MEMBERS, MAX_RINGS, MAX_WORKERS};
use super::model::{FlowKind, RingRole};
use super::units;

/// Item sizes that the ring ABI allows.
pub const ITEM_SIZES: RangeInclusive<u64> = 4..=1 << 20;
/// Ring sizes that the ring ABI allows.
pub const RING_SIZES: RangeInclusive<u64> = 4..=1 << 30;
/// Most bytes of a schema as it is written.
const MAX_SCHEMA: usize = 16 << 10;

/// How messages name a flow.
pub fn flow(name: &str) -> String {
    format!("flow '{name}'")
}

/// A value in its range; `what` is whose it is.
pub fn in_range<T: PartialOrd + Copy>(
    what: &str,
    key: &str,
    value: T,
    range: &RangeInclusive<T>,
    show: impl Fn(T) -> String,
) -> Result<(), Fault> {
    if range.contains(&value) {
        return Ok(());
    }
    let side = if value < *range.start() { "too small" } else { "too big" };
    Err(Fault::new(
        format!("'{key}' of {what} is {}, which is {side}", show(value)),
        format!("{} to {}", show(*range.start()), show(*range.end())),
    ))
}

/// A time in its range.
pub fn time(what: &str, key: &str, value: Duration, range: &RangeInclusive<Duration>) -> Result<(), Fault> {
    in_range(what, key, value, range, |time| format!("{time:?}"))
}

/// A size that is a power of two, in its range.
pub fn power_of_two(what: &str, key: &str, value: u64, range: &RangeInclusive<u64>) -> Result<(), Fault> {
    if value.is_power_of_two() {
        return in_range(what, key, value, range, units::show_size);
    }
    let next = value.checked_next_power_of_two().unwrap_or(*range.end());
    let near = next.clamp(*range.start(), *range.end());
    Err(Fault::new(
        format!("'{key}' of {what} is {value} bytes, which is no power of two"),
        format!(
            "a power of two from {} to {} (the next one is {})",
            units::show_size(*range.start()),
            units::show_size(*range.end()),
            units::show_size(near)
        ),
    ))
}

/// An item goes into a ring.
pub fn ring_holds_item(what: &str, item_size: u64, ring_size: u64) -> Result<(), Fault> {
    if item_size <= ring_size {
        return Ok(());
    }
    let message = format!("{what} has items of {item_size} bytes but only {ring_size} bytes of room");
    Err(Fault::new(message, "a ring at least as big as one item"))
}

/// A name that hosts and switches do not have.
pub fn name_of_node(name: &str) -> Fault {
    let message = format!("flow '{name}' has the name of a host or switch");
    Fault::new(message, "a name of its own: ring names are made of it")
}

/// Somebody on each side.
pub fn sides(what: &str, producers: usize, consumers: usize) -> Result<(), Fault> {
    for (count, side) in [(producers, "producers"), (consumers, "consumers")] {
        if count == 0 {
            return Err(Fault::new(format!("{what} has no {side}"), format!("{side}: at least one host")));
        }
    }
    Ok(())
}

/// As many consumers as the kind has room for.
pub fn consumers(what: &str, kind: FlowKind, count: usize) -> Result<(), Fault> {
    if !kind.copies() || count <= MAX_MEMBERS {
        return Ok(());
    }
    let message = format!("{what} is a replicate with {count} consumers");
    Err(Fault::new(message, format!("at most {MAX_MEMBERS} consumers")))
}

/// Lanes of the consumers of a shuffle with so many producers: none would have nobody to read from.
pub fn lanes(what: &str, kind: FlowKind, lanes: usize, producers: usize) -> Result<(), Fault> {
    if lanes == 1 {
        return Ok(());
    }
    if !kind.routes() {
        let message = format!("{what} is a {} with {lanes} lanes", kind.word());
        return Err(Fault::new(message, "no lanes, or kind: shuffle"));
    }
    let most = producers.min(MAX_LANES);
    if (1..=most).contains(&lanes) {
        return Ok(());
    }
    let message = format!("{what} has {lanes} lanes for {producers} producers");
    let expected = match most {
        0 | 1 => "1 lane: each lane reads from producers of its own".to_owned(),
        most => format!("1 to {most} lanes: each reads from producers of its own"),
    };
    Err(Fault::new(message, expected))
}

/// The name of a consumer's ring, where `ring` is that of its first lane.
pub fn lane_name(ring: &str, lane: usize) -> String {
    if lane == 0 { ring.to_owned() } else { format!("{ring}~lane{}", lane + 1) }
}

/// As many rings and workers as the switch program has room for, over all flows.
pub fn room(rings: usize, workers: usize) -> Result<(), Fault> {
    for (what, count, room) in [("rings", rings, MAX_RINGS), ("consumer rings", workers, MAX_WORKERS)] {
        if count > room {
            return Err(Fault::new(
                format!("the flows need {count} {what}, too many"),
                format!("at most {room} {what} in all"),
            ));
        }
    }
    Ok(())
}

/// Only a shuffle's items are routed.
pub fn is_routed(what: &str, kind: FlowKind) -> Result<(), Fault> {
    if kind.routes() {
        return Ok(());
    }
    let message = format!("{what} is a {}: its items are not routed", kind.word());
    Err(Fault::new(message, "no routing, or kind: shuffle"))
}

/// The text of a schema has a length that the controller takes.
pub fn schema_text(what: &str, bytes: usize) -> Result<(), Fault> {
    if bytes <= MAX_SCHEMA {
        return Ok(());
    }
    Err(Fault::new(format!("the schema of {what} has {bytes} B as text"), "at most 16 KiB"))
}

/// Tuples of `size` bytes go into items.
pub fn tuples(what: &str, size: u32, item_size: u32) -> Result<(), Fault> {
    fits_item(size, item_size).map_err(|expected| {
        Fault::new(
            format!("tuples of {size} bytes don't fit in the {item_size}-byte items of {what}"),
            expected,
        )
    })
}

/// All hosts of a flow have one path MTU.
pub fn mtu(what: &str, (host, mtu): (&str, u32), others: u32) -> Result<(), Fault> {
    if mtu == others {
        return Ok(());
    }
    let message = format!("mismatched MTUs in {what}: host '{host}' has {mtu}, the others {others}");
    Err(Fault::new(message, "one MTU for all hosts of a flow"))
}

/// As many declared rings as a member of that role needs.
pub fn ring_count(
    what: &str,
    member: &str,
    role: RingRole,
    rings: usize,
    needed: usize,
) -> Result<(), Fault> {
    if rings == needed {
        return Ok(());
    }
    let count = if rings == 1 { "1 ring".to_owned() } else { format!("{rings} rings") };
    let message = format!("{what} has {count} here for {} '{member}'", role.word());
    let expected = match role {
        RingRole::Producer if needed == 1 => "one producer ring".into(),
        RingRole::Producer => format!("{needed} producer rings, one per consumer, as a list"),
        RingRole::Consumer => "one consumer ring".into(),
    };
    Err(Fault::new(message, expected))
}

/// A declared ring is used on its own side.
pub fn ring_role(what: &str, ring: &str, is: RingRole, wanted: RingRole) -> Result<(), Fault> {
    if is == wanted {
        return Ok(());
    }
    let message = format!("{what} uses the {} ring '{ring}' as {} ring", is.word(), wanted.word());
    Err(Fault::new(message, format!("a ring with role: {}", wanted.word())))
}

/// A declared ring has the flow's items.
pub fn ring_items(what: &str, ring: &str, own: u32, item_size: u32) -> Result<(), Fault> {
    if own == item_size {
        return Ok(());
    }
    let message = format!("ring '{ring}' has items of {own} bytes, {what} of {item_size}");
    Err(Fault::new(message, "one item size in all rings of a flow"))
}

/// Consumer rings of a group have one size, since the switch writes a batch to one address in all of them.
pub fn ring_of_group(
    what: &str,
    (ring, size): (&str, u32),
    (first, expected): (&str, u32),
) -> Result<(), Fault> {
    if size == expected {
        return Ok(());
    }
    let message = format!(
        "{what} replicates to ring '{first}' of {} and ring '{ring}' of {}",
        units::show_size(expected.into()),
        units::show_size(size.into())
    );
    Err(Fault::new(message, "consumer rings of one size (ring_size for rings that the flow makes)"))
}

/// A declared ring belongs to whom the others belong.
pub fn ring_owner(what: &str, ring: &str, own: &str, owner: &str) -> Result<(), Fault> {
    if own == owner {
        return Ok(());
    }
    let message = format!("ring '{ring}' belongs to '{own}', the others of {what} to '{owner}'");
    Err(Fault::new(message, "rings of one owner"))
}

/// A declared ring that somebody uses already.
pub fn ring_user(flow: &str, ring: &str, user: &str) -> Fault {
    let message = match user == flow {
        true => format!("flow '{flow}' uses ring '{ring}' twice"),
        false => format!("ring '{ring}' is already used by flow '{user}'"),
    };
    Fault::new(message, "a ring of its own for each use")
}
