//! A flow's settings as messages of `zsr.controller.v1`. Their table and their limits are in `crates/topology/src/settings.rs`.

use zsr_api::controller as proto;
use zsr_records::Fault;
use zsr_topology::{Hint, Policy, Settings, WhenEnded, rules};

/// The value of a setting, and of its field in a message.
pub trait Value: Clone + Sized {
    /// What a message has.
    type Message: Copy;

    /// As a message has it.
    fn message(&self) -> Self::Message;

    /// From a message; `None` if it says nothing.
    ///
    /// # Errors
    /// A number that is not known.
    fn of(message: Self::Message) -> Result<Option<Self>, i32>;
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Value for $type {
            type Message = $type;

            fn message(&self) -> $type {
                *self
            }

            fn of(message: $type) -> Result<Option<$type>, i32> {
                Ok(Some(message))
            }
        }
    )*};
}
plain!(u32, u64, bool);

macro_rules! choice {
    ($type:ident: $($value:ident),*) => {
        impl Value for $type {
            type Message = i32;

            fn message(&self) -> i32 {
                match self {
                    $($type::$value => proto::$type::$value.into(),)*
                }
            }

            fn of(message: i32) -> Result<Option<$type>, i32> {
                match proto::$type::try_from(message) {
                    $(Ok(proto::$type::$value) => Ok(Some($type::$value)),)*
                    Ok(proto::$type::Unspecified) => Ok(None),
                    Err(_) => Err(message),
                }
            }
        }
    };
}
choice!(Hint: Bandwidth, Latency);
choice!(Policy: Wait, DropMember, Abort);
choice!(WhenEnded: Keep, Delete);

macro_rules! messages {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:expr, $key:literal, $read:ident($option:literal, $value:literal);)*) => {
        /// A flow's settings with those that `changes` says, for items of `item_size` bytes.
        ///
        /// # Errors
        /// A value that is unknown or out of range, with flow, setting and range.
        pub fn changed(
            settings: &Settings,
            changes: &proto::Settings,
            flow: &str,
            item_size: u32,
        ) -> Result<Settings, Fault> {
            let mut new = settings.clone();
            $(if let Some(message) = changes.$field {
                let value = <$type as Value>::of(message).map_err(|value| unknown(flow, $key, value))?;
                new.$field = value.unwrap_or(new.$field);
            })*
            new.check(&rules::flow(flow), item_size)?;
            Ok(new)
        }

        /// Settings as they are asked for and shown, none left out.
        pub fn message(settings: &Settings) -> proto::Settings {
            proto::Settings { $($field: Some(settings.$field.message()),)* }
        }
    };
}
zsr_topology::for_each_setting!(messages);

fn unknown(flow: &str, what: &str, value: i32) -> Fault {
    Fault::new(
        format!("flow `{flow}`: {what} {value} is not known to this controller"),
        "a client of this controller's version",
    )
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
