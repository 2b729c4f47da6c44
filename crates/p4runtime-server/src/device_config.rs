//! The forms of `p4_device_config` that controllers send: bmv2's JSON, bare or as older controllers wrap it.

use std::borrow::Cow;

use prost::Message;

use super::refusal::{Outcome, Refusal};

/// `p4.tmp.P4DeviceConfig` of PI, as far as it matters here: `reassign` (1) and `extras` (2) are for bmv2's
/// own assignment of devices.
#[derive(Clone, PartialEq, Message)]
struct P4DeviceConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// The JSON in a `p4_device_config`. A wrapped one begins with the tag of a field, which no JSON begins with.
pub(super) fn json(config: &[u8]) -> Outcome<Cow<'_, str>> {
    let wrapped = match config.first() {
        Some(b'{' | b' ' | b'\t' | b'\r' | b'\n') => None,
        _ => P4DeviceConfig::decode(config).ok().map(|config| config.device_data),
    };
    let (text, inside) = match wrapped {
        Some(data) if data.is_empty() => {
            return Err(Refusal::invalid(
                "p4_device_config is a p4.tmp.P4DeviceConfig without device_data, which is to be the JSON that p4c-bm2-ss writes",
            ));
        }
        Some(data) => {
            (String::from_utf8(data).map(Cow::from).map_err(|e| e.utf8_error()), "the device_data in ")
        }
        None => (std::str::from_utf8(config).map(Cow::from), ""),
    };
    text.map_err(|error| {
        Refusal::invalid(format!("{inside}p4_device_config is no text, so no bmv2 JSON: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_and_wrapped_are_told_apart() {
        for bare in ["{}", " {}", "\n{\"a\": 1}", "\r\n\t{}", "nothing like it"] {
            assert_eq!(json(bare.as_bytes()).unwrap(), bare);
        }
        let data = [&[0x1a, 2][..], b"{}"].concat();
        // One entry of the map in `extras`: port -> 9090.
        let extras = [&[0x12, 14, 0x0a, 12, 0x0a, 4][..], b"port", &[0x12, 4], b"9090"].concat();
        let reassign = [0x08, 1].to_vec();
        for parts in
            [vec![&data], vec![&reassign, &data], vec![&data, &extras], vec![&reassign, &extras, &data]]
        {
            let wrapped: Vec<u8> = parts.into_iter().flatten().copied().collect();
            assert_eq!(json(&wrapped).unwrap(), "{}", "{wrapped:x?}");
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        let message = |config: &[u8]| json(config).unwrap_err().message;
        assert!(message(&[0x08, 1]).contains("without device_data"));
        assert!(
            message(&[0x1a, 2, 0xff, 0xfe]).starts_with("the device_data in p4_device_config is no text")
        );
        assert!(message(&[0xff, 0xfe, 0xfd]).starts_with("p4_device_config is no text"));
        // Cut off; what comes of it is for the reader of JSON to refuse.
        assert_eq!(json(&[0x1a, 9, b'{']).unwrap(), "\u{1a}\t{");
    }
}
