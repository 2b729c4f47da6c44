//! How a controller writes a field that the data plane has in so many bits. With `@p4runtime_translation` both
//! sides differ; this switch translates by number: the value is the same, only its width or its form changes.

use std::collections::HashMap;

use p4runtime_proto::p4::config::v1 as config;

use super::bytestring::{self, ones};
use super::refusal::{Outcome, Refusal};

/// The controller's side of a translated type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sdn {
    /// Not translated.
    Same,
    /// A number of another width in bits.
    Bits(u32),
    /// The number in decimal digits.
    Text,
}

/// Both sides of one field, parameter or index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repr {
    /// Width in the data plane, in bits.
    pub width: u32,
    sdn: Sdn,
}

impl Repr {
    /// An untranslated field.
    #[cfg(test)]
    pub fn plain(width: u32) -> Self {
        Self { width, sdn: Sdn::Same }
    }

    /// From P4Info's `bitwidth` and `type_name`, and the width that the artifact says. Names both widths if they
    /// don't agree.
    pub fn agree(
        bitwidth: i32,
        type_name: Option<&config::P4NamedType>,
        types: &HashMap<String, config::P4NewTypeSpec>,
        artifact: u32,
    ) -> Result<Self, String> {
        use config::p4_new_type_spec::Representation::TranslatedType;
        let spec = type_name.and_then(|name| types.get(&name.name));
        let sdn = match spec.and_then(|spec| spec.representation.as_ref()) {
            Some(TranslatedType(translation)) => Self::translated(translation, artifact)?.sdn,
            _ => Sdn::Same,
        };
        let expected = match sdn {
            Sdn::Same => i64::from(artifact),
            Sdn::Bits(bits) => i64::from(bits),
            Sdn::Text => 0,
        };
        // p4c gives no width for keys of type `error`.
        let untyped = bitwidth == 0 && type_name.is_none();
        if i64::from(bitwidth) != expected && !untyped {
            return Err(format!("has {bitwidth} bits in P4Info and {expected} in the device config"));
        }
        Ok(Self { width: artifact, sdn })
    }

    /// A translated type that has `artifact` bits in the data plane.
    pub fn translated(translation: &config::P4NewTypeTranslation, artifact: u32) -> Result<Self, String> {
        use config::p4_new_type_translation::SdnType;
        let sdn = match translation.sdn_type {
            Some(SdnType::SdnString(_)) => Sdn::Text,
            Some(SdnType::SdnBitwidth(bits)) => match u32::try_from(bits) {
                Ok(bits) if bits == artifact => Sdn::Same,
                Ok(bits) if bits > 0 => Sdn::Bits(bits),
                _ => return Err(format!("has a translation to {bits} bits")),
            },
            None => Sdn::Same,
        };
        Ok(Self { width: artifact, sdn })
    }

    /// Width on the controller's side, in bits.
    pub fn controller_width(&self) -> u32 {
        match self.sdn {
            Sdn::Same | Sdn::Text => self.width,
            Sdn::Bits(bits) => bits,
        }
    }

    /// From the controller's form to the data plane's, which is canonical.
    pub fn read(&self, value: &[u8]) -> Outcome<Vec<u8>> {
        match self.sdn {
            Sdn::Same => bytestring::parse(value, self.width),
            Sdn::Bits(bits) => bytestring::parse(&bytestring::parse(value, bits)?, self.width),
            Sdn::Text => {
                let digits = std::str::from_utf8(value).ok().filter(|text| is_canonical_decimal(text));
                let number = digits.and_then(|text| text.parse::<u128>().ok()).ok_or_else(|| {
                    Refusal::invalid(format!(
                        "'{}' has no translation; this switch takes decimal numbers",
                        String::from_utf8_lossy(value).escape_default()
                    ))
                })?;
                bytestring::parse(&number.to_be_bytes(), self.width)
            }
        }
    }

    /// From the data plane's form to the controller's.
    pub fn write(&self, value: &[u8]) -> Vec<u8> {
        match self.sdn {
            Sdn::Same | Sdn::Bits(_) => bytestring::canonical(value),
            Sdn::Text => {
                value.iter().fold(0u128, |n, byte| n << 8 | u128::from(*byte)).to_string().into_bytes()
            }
        }
    }

    /// A mask: the controller's all ones are the data plane's all ones.
    pub fn read_mask(&self, mask: &[u8]) -> Outcome<Vec<u8>> {
        match self.sdn {
            Sdn::Same => bytestring::parse(mask, self.width),
            Sdn::Bits(bits) => {
                let mask = bytestring::parse(mask, bits)?;
                if mask == ones(bits) { Ok(ones(self.width)) } else { bytestring::parse(&mask, self.width) }
            }
            Sdn::Text => Err(Refusal::invalid("a field of a string type can't be masked")),
        }
    }

    /// The inverse of [`read_mask`](Self::read_mask).
    pub fn write_mask(&self, mask: &[u8]) -> Vec<u8> {
        let mask = bytestring::canonical(mask);
        match self.sdn {
            Sdn::Bits(bits) if mask == ones(self.width) => ones(bits),
            _ => mask,
        }
    }

    /// A prefix length, from the controller's width to the data plane's: the bits that don't count stay the same.
    pub fn read_prefix(&self, length: i32) -> Outcome<u32> {
        let width = self.controller_width();
        let length = u32::try_from(length).ok().filter(|length| (1..=width).contains(length));
        let length =
            length.ok_or_else(|| Refusal::invalid(format!("the prefix length must be from 1 to {width}")))?;
        self.width
            .checked_sub(width - length)
            .filter(|length| *length > 0)
            .ok_or_else(|| Refusal::invalid("the prefix covers every value of the data plane"))
    }

    /// The inverse of [`read_prefix`](Self::read_prefix).
    pub fn write_prefix(&self, length: u32) -> i32 {
        let free = self.width.saturating_sub(length);
        self.controller_width().saturating_sub(free) as i32
    }
}

fn is_canonical_decimal(text: &str) -> bool {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits && (text == "0" || !text.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn translated(
        sdn_type: config::p4_new_type_translation::SdnType,
    ) -> HashMap<String, config::P4NewTypeSpec> {
        let translation = config::P4NewTypeTranslation { uri: "x".into(), sdn_type: Some(sdn_type) };
        let representation = Some(config::p4_new_type_spec::Representation::TranslatedType(translation));
        HashMap::from([("T".into(), config::P4NewTypeSpec { representation, ..Default::default() })])
    }

    #[test]
    fn widths_must_agree() {
        let none = HashMap::new();
        assert_eq!(Repr::agree(9, None, &none, 9), Ok(Repr::plain(9)));
        assert!(Repr::agree(9, None, &none, 16).unwrap_err().contains("9 bits"));
        assert_eq!(Repr::agree(0, None, &none, 32), Ok(Repr::plain(32)), "a key of type error");
    }

    #[test]
    fn numbers_of_another_width() {
        let types = translated(config::p4_new_type_translation::SdnType::SdnBitwidth(32));
        let name = config::P4NamedType { name: "T".into() };
        let repr = Repr::agree(32, Some(&name), &types, 9).unwrap();
        assert_eq!(repr.read(&[0, 0, 1, 5]).unwrap(), [1, 5]);
        assert_eq!(repr.read(&[2, 0]).unwrap_err().code, Code::OutOfRange);
        assert_eq!(repr.write(&[0, 5]), [5]);
        assert_eq!(repr.read_mask(&[0xff; 4]).unwrap(), [1, 0xff]);
        assert_eq!(repr.write_mask(&[1, 0xff]), [0xff; 4]);
        assert_eq!(repr.read_prefix(32).unwrap(), 9);
        assert_eq!(repr.write_prefix(9), 32);
        assert_eq!(repr.read_prefix(31).unwrap(), 8);
        assert!(
            repr.read_prefix(23).is_err() && repr.read_prefix(33).is_err() && repr.read_prefix(0).is_err()
        );
        assert!(Repr::agree(9, Some(&name), &types, 9).is_err());
    }

    #[test]
    fn text_is_a_decimal_number() {
        let text = config::p4_new_type_translation::SdnType::SdnString(Default::default());
        let types = translated(text);
        let name = config::P4NamedType { name: "T".into() };
        let repr = Repr::agree(0, Some(&name), &types, 9).unwrap();
        assert_eq!(repr.read(b"511").unwrap(), [1, 0xff]);
        assert_eq!(repr.write(&[1, 0xff]), b"511");
        assert_eq!(repr.read(b"512").unwrap_err().code, Code::OutOfRange);
        for bad in [&b""[..], b"eth0", b"05", b"+5", b"\xff"] {
            assert_eq!(repr.read(bad).unwrap_err().code, Code::InvalidArgument);
        }
    }
}
