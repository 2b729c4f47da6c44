//! A flow's settings as messages of `zsr.controller.v1`. Their limits are in `crates/topology/src/settings.rs`.

use zsr_api::controller as proto;
use zsr_records::Fault;
use zsr_topology::{Hint, Policy, Settings, rules};

/// A flow's settings with those that `changes` says, for items of `item_size` bytes.
///
/// # Errors
/// What is unknown or out of range, with flow, setting and range.
pub fn changed(
    settings: &Settings,
    changes: &proto::Settings,
    flow: &str,
    item_size: u32,
) -> Result<Settings, Fault> {
    let had = settings.clone();
    let new = Settings {
        weight: changes.weight.unwrap_or(had.weight),
        rate_cap_bps: changes.rate_cap_bps.unwrap_or(had.rate_cap_bps),
        poll_interval_us: changes.poll_interval_us.unwrap_or(had.poll_interval_us),
        poll_timeout_us: changes.poll_timeout_us.unwrap_or(had.poll_timeout_us),
        rto_us: changes.rto_us.unwrap_or(had.rto_us),
        dead_after_us: changes.dead_after_us.unwrap_or(had.dead_after_us),
        max_batch: changes.max_batch.unwrap_or(had.max_batch),
        doorbell: changes.doorbell.unwrap_or(had.doorbell),
        hint: match changes.hint.map(|h| (h, proto::Hint::try_from(h))) {
            None | Some((_, Ok(proto::Hint::Unspecified))) => had.hint,
            Some((_, Ok(proto::Hint::Bandwidth))) => Hint::Bandwidth,
            Some((_, Ok(proto::Hint::Latency))) => Hint::Latency,
            Some((value, Err(_))) => return Err(unknown(flow, "hint", value)),
        },
        policy: match changes.policy.map(|p| (p, proto::Policy::try_from(p))) {
            None | Some((_, Ok(proto::Policy::Unspecified))) => had.policy,
            Some((_, Ok(proto::Policy::Wait))) => Policy::Wait,
            Some((_, Ok(proto::Policy::DropMember))) => Policy::DropMember,
            Some((_, Ok(proto::Policy::Abort))) => Policy::Abort,
            Some((value, Err(_))) => return Err(unknown(flow, "policy", value)),
        },
    };
    new.check(&rules::flow(flow), item_size)?;
    Ok(new)
}

fn unknown(flow: &str, what: &str, value: i32) -> Fault {
    Fault::new(
        format!("flow `{flow}`: {what} {value} is not known to this controller"),
        "a client of this controller's version",
    )
}

/// Settings as they are asked for and shown, none left out.
pub fn message(s: &Settings) -> proto::Settings {
    proto::Settings {
        weight: Some(s.weight),
        rate_cap_bps: Some(s.rate_cap_bps),
        poll_interval_us: Some(s.poll_interval_us),
        poll_timeout_us: Some(s.poll_timeout_us),
        rto_us: Some(s.rto_us),
        dead_after_us: Some(s.dead_after_us),
        max_batch: Some(s.max_batch),
        doorbell: Some(s.doorbell),
        hint: Some(match s.hint {
            Hint::Bandwidth => proto::Hint::Bandwidth.into(),
            Hint::Latency => proto::Hint::Latency.into(),
        }),
        policy: Some(match s.policy {
            Policy::Wait => proto::Policy::Wait.into(),
            Policy::DropMember => proto::Policy::DropMember.into(),
            Policy::Abort => proto::Policy::Abort.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_stays() {
        let before = Settings::of_items(64);
        let changes = proto::Settings { weight: Some(3), ..Default::default() };
        let after = changed(&before, &changes, "f", 64).unwrap();
        assert_eq!(after, Settings { weight: 3, ..before });
        assert_eq!(changed(&Settings::of_items(4), &message(&after), "f", 64).unwrap(), after);
    }

    #[test]
    fn values_out_of_range_name_flow_setting_and_range() {
        use proto::Settings as Asked;
        let refused =
            |asked: Asked| changed(&Settings::of_items(64), &asked, "f", 64).unwrap_err().to_string();
        for (asked, part) in [
            (
                Asked { weight: Some(0), ..Default::default() },
                "'weight' of flow 'f' is 0, which is too small: expected 1 to 1000",
            ),
            (Asked { poll_interval_us: Some(0), ..Default::default() }, "'poll_interval' of flow 'f' is 0ns"),
            (
                Asked { max_batch: Some(100), ..Default::default() },
                "100 bytes are no multiple of the item size, 64 bytes",
            ),
            (
                Asked { max_batch: Some(0), ..Default::default() },
                "max_batch of flow 'f': 0 bytes hold no whole item",
            ),
            (Asked { dead_after_us: Some(u64::MAX), ..Default::default() }, "'dead_after' of flow 'f' is"),
            (Asked { hint: Some(99), ..Default::default() }, "hint 99 is not known to this controller"),
        ] {
            let message = refused(asked);
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
    }
}
