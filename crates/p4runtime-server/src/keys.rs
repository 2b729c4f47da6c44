//! Match keys, both ways (specification, "Match Format").

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::field_match::{self, FieldMatchType};

use super::bytestring::{self, ones};
use super::refusal::{Outcome, Refusal};
use super::schema::Field;
use zsr_soft_switch::MatchField;
use zsr_soft_switch::MatchKind;

/// Reads a key: one value per field, in the program's order. Fields that are left out match anything.
pub(super) fn read_key(fields: &[Field], matches: &[pb::FieldMatch]) -> Outcome<Vec<MatchField>> {
    if let Some(extra) = matches.iter().find(|m| !fields.iter().any(|field| field.id == m.field_id)) {
        return Err(Refusal::invalid(format!("there is no match field {}", extra.field_id)));
    }
    fields
        .iter()
        .map(|field| {
            let mut given = matches.iter().filter(|m| m.field_id == field.id);
            let place = || format!("match field {} ('{}')", field.id, field.name);
            match (given.next(), given.next()) {
                (Some(one), None) => read_field(field, one).map_err(|refusal| refusal.at(place())),
                (Some(_), Some(_)) => Err(Refusal::invalid("is given twice").at(place())),
                (None, _) => anything(field)
                    .ok_or_else(|| Refusal::invalid("matches exactly, so it can't be left out").at(place())),
            }
        })
        .collect()
}

/// Writes a key; fields that match anything are left out.
pub(super) fn write_key(fields: &[Field], key: &[MatchField]) -> Vec<pb::FieldMatch> {
    let pairs = fields.iter().zip(key);
    pairs
        .filter_map(|(field, value)| {
            let field_match_type = Some(write_field(field, value)?);
            Some(pb::FieldMatch { field_id: field.id, field_match_type })
        })
        .collect()
}

/// Reads a member of a value set, whose fields the artifact matches exactly.
pub(super) fn read_member(fields: &[Field], matches: &[pb::FieldMatch]) -> Outcome<Vec<MatchField>> {
    let exactly = |(value, field): (MatchField, &Field)| {
        let all = ones(field.repr.width);
        match value {
            MatchField::Exact(value) | MatchField::Optional(Some(value)) => Ok(MatchField::Exact(value)),
            MatchField::Ternary { value, mask } if mask == all => Ok(MatchField::Exact(value)),
            MatchField::Lpm { value, prefix_len } if prefix_len == field.repr.width => {
                Ok(MatchField::Exact(value))
            }
            MatchField::Range { low, high } if low == high => Ok(MatchField::Exact(low)),
            _ => Err(Refusal::unimplemented("a bmv2 program matches value sets exactly")
                .at(format_args!("match field {} ('{}')", field.id, field.name))),
        }
    };
    read_key(fields, matches)?.into_iter().zip(fields).map(exactly).collect()
}

/// The inverse of [`read_member`]: an exact value in the form that P4Info asks for.
pub(super) fn write_member(fields: &[Field], key: &[MatchField]) -> Vec<pb::FieldMatch> {
    let form = |(field, value): (&Field, &MatchField)| match (field.kind, value) {
        (MatchKind::Ternary, MatchField::Exact(value)) => {
            MatchField::Ternary { value: value.clone(), mask: ones(field.repr.width) }
        }
        (MatchKind::Lpm, MatchField::Exact(value)) => {
            MatchField::Lpm { value: value.clone(), prefix_len: field.repr.width }
        }
        (MatchKind::Range, MatchField::Exact(value)) => {
            MatchField::Range { low: value.clone(), high: value.clone() }
        }
        (MatchKind::Optional, MatchField::Exact(value)) => MatchField::Optional(Some(value.clone())),
        _ => value.clone(),
    };
    let key: Vec<MatchField> = fields.iter().zip(key).map(form).collect();
    write_key(fields, &key)
}

fn anything(field: &Field) -> Option<MatchField> {
    match field.kind {
        MatchKind::Exact => None,
        MatchKind::Lpm => Some(MatchField::Lpm { value: vec![0], prefix_len: 0 }),
        MatchKind::Ternary => Some(MatchField::Ternary { value: vec![0], mask: vec![0] }),
        MatchKind::Range => Some(MatchField::Range { low: vec![0], high: ones(field.repr.width) }),
        MatchKind::Optional => Some(MatchField::Optional(None)),
    }
}

fn read_field(field: &Field, given: &pb::FieldMatch) -> Outcome<MatchField> {
    let repr = &field.repr;
    match (field.kind, &given.field_match_type) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => {
            Ok(MatchField::Exact(repr.read(&exact.value)?))
        }
        (MatchKind::Optional, Some(FieldMatchType::Optional(optional))) => {
            Ok(MatchField::Optional(Some(repr.read(&optional.value)?)))
        }
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            let value = repr.read(&lpm.value)?;
            let prefix_len = repr.read_prefix(lpm.prefix_len)?;
            if trailing_zeros(&value, repr.width) < repr.width - prefix_len {
                return Err(Refusal::invalid(format!(
                    "{} has ones behind its first {} bits",
                    bytestring::hex(&value),
                    lpm.prefix_len
                )));
            }
            Ok(MatchField::Lpm { value, prefix_len })
        }
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            let value = repr.read(&ternary.value)?;
            let mask = repr.read_mask(&ternary.mask)?;
            if mask == [0] {
                return Err(Refusal::invalid("the mask is 0; leave out a field that matches anything"));
            }
            let width = mask.len().max(value.len());
            let outside = padded(&value, width).zip(padded(&mask, width)).any(|(v, m)| v & !m != 0);
            if outside {
                return Err(Refusal::invalid(format!(
                    "value {} has ones outside the mask {}",
                    bytestring::hex(&value),
                    bytestring::hex(&mask)
                )));
            }
            Ok(MatchField::Ternary { value, mask })
        }
        (MatchKind::Range, Some(FieldMatchType::Range(range))) => {
            let (low, high) = (repr.read(&range.low)?, repr.read(&range.high)?);
            // Canonical strings: the longer is the larger.
            if (low.len(), &low) > (high.len(), &high) {
                return Err(Refusal::invalid(format!(
                    "low {} is above high {}",
                    bytestring::hex(&low),
                    bytestring::hex(&high)
                )));
            }
            if low == [0] && high == ones(repr.width) {
                return Err(Refusal::invalid("the range holds every value; leave out such a field"));
            }
            Ok(MatchField::Range { low, high })
        }
        (_, None) => Err(Refusal::invalid("has no value")),
        (kind, Some(_)) => {
            Err(Refusal::invalid(format!("matches by {kind:?}; another kind of match was given")))
        }
    }
}

fn write_field(field: &Field, value: &MatchField) -> Option<FieldMatchType> {
    let repr = &field.repr;
    Some(match value {
        MatchField::Exact(value) => FieldMatchType::Exact(field_match::Exact { value: repr.write(value) }),
        MatchField::Lpm { prefix_len: 0, .. } | MatchField::Optional(None) => return None,
        MatchField::Lpm { value, prefix_len } => FieldMatchType::Lpm(field_match::Lpm {
            value: repr.write(value),
            prefix_len: repr.write_prefix(*prefix_len),
        }),
        MatchField::Ternary { mask, .. } if mask.iter().all(|byte| *byte == 0) => return None,
        MatchField::Ternary { value, .. } if field.kind == MatchKind::Optional => {
            FieldMatchType::Optional(field_match::Optional { value: repr.write(value) })
        }
        MatchField::Ternary { value, mask } => FieldMatchType::Ternary(field_match::Ternary {
            value: repr.write(value),
            mask: repr.write_mask(mask),
        }),
        MatchField::Range { low, high } => {
            let (low, high) = (bytestring::canonical(low), bytestring::canonical(high));
            if low == [0] && high == ones(repr.width) {
                return None;
            }
            FieldMatchType::Range(field_match::Range { low: repr.write(&low), high: repr.write(&high) })
        }
        MatchField::Optional(Some(value)) => {
            FieldMatchType::Optional(field_match::Optional { value: repr.write(value) })
        }
    })
}

/// Zero bits at the end, at most `width`.
fn trailing_zeros(value: &[u8], width: u32) -> u32 {
    let mut zeros = 0;
    for byte in value.iter().rev() {
        if *byte != 0 {
            return zeros + byte.trailing_zeros();
        }
        zeros += 8;
    }
    width.max(zeros)
}

/// The bytes with zeros in front, `length` in all.
fn padded(value: &[u8], length: usize) -> impl Iterator<Item = u8> + '_ {
    std::iter::repeat_n(0, length.saturating_sub(value.len())).chain(value.iter().copied())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use tonic::Code;

    use super::*;
    use crate::repr::Repr;

    fn field(id: u32, kind: MatchKind, width: u32) -> Field {
        Field { id, name: format!("f{id}"), kind, repr: Repr::plain(width) }
    }

    fn given(id: u32, value: FieldMatchType) -> pb::FieldMatch {
        pb::FieldMatch { field_id: id, field_match_type: Some(value) }
    }

    fn exact(value: &[u8]) -> FieldMatchType {
        FieldMatchType::Exact(field_match::Exact { value: value.to_vec() })
    }

    fn lpm(value: &[u8], prefix_len: i32) -> FieldMatchType {
        FieldMatchType::Lpm(field_match::Lpm { value: value.to_vec(), prefix_len })
    }

    fn ternary(value: &[u8], mask: &[u8]) -> FieldMatchType {
        FieldMatchType::Ternary(field_match::Ternary { value: value.to_vec(), mask: mask.to_vec() })
    }

    fn range(low: &[u8], high: &[u8]) -> FieldMatchType {
        FieldMatchType::Range(field_match::Range { low: low.to_vec(), high: high.to_vec() })
    }

    #[test]
    fn order_is_the_programs_and_anything_is_left_out() {
        let fields = [
            field(3, MatchKind::Exact, 9),
            field(1, MatchKind::Lpm, 32),
            field(2, MatchKind::Optional, 8),
            field(4, MatchKind::Range, 8),
            field(5, MatchKind::Ternary, 8),
        ];
        let matches = [given(1, lpm(&[10, 0, 0, 0], 8)), given(3, exact(&[0, 1]))];
        let key = read_key(&fields, &matches).unwrap();
        assert_eq!(key[0], MatchField::Exact(vec![1]));
        assert_eq!(key[3], MatchField::Range { low: vec![0], high: vec![255] });
        assert_eq!(write_key(&fields, &key), [given(3, exact(&[1])), given(1, lpm(&[10, 0, 0, 0], 8))]);
    }

    #[test]
    fn what_the_specification_forbids() {
        let cases = [
            (MatchKind::Exact, 8, exact(&[1, 0]), Code::OutOfRange),
            (MatchKind::Exact, 8, exact(&[]), Code::OutOfRange),
            (MatchKind::Exact, 8, lpm(&[1], 8), Code::InvalidArgument),
            (MatchKind::Lpm, 32, lpm(&[10, 0, 0, 1], 8), Code::InvalidArgument),
            (MatchKind::Lpm, 32, lpm(&[0], 0), Code::InvalidArgument),
            (MatchKind::Lpm, 32, lpm(&[0], 33), Code::InvalidArgument),
            (MatchKind::Lpm, 32, lpm(&[0], -1), Code::InvalidArgument),
            (MatchKind::Ternary, 8, ternary(&[0], &[0]), Code::InvalidArgument),
            (MatchKind::Ternary, 8, ternary(&[3], &[1]), Code::InvalidArgument),
            (MatchKind::Ternary, 16, ternary(&[1, 0], &[0xff]), Code::InvalidArgument),
            (MatchKind::Range, 16, range(&[1, 0], &[0xff]), Code::InvalidArgument),
            (MatchKind::Range, 8, range(&[0], &[0xff]), Code::InvalidArgument),
            (MatchKind::Range, 8, range(&[0], &[1, 0]), Code::OutOfRange),
        ];
        for (kind, width, value, code) in cases {
            let refusal = read_key(&[field(1, kind, width)], &[given(1, value.clone())]).unwrap_err();
            assert_eq!(refusal.code, code, "{value:?}: {}", refusal.message);
        }
        let fields = [field(1, MatchKind::Exact, 8)];
        for matches in [
            vec![],
            vec![given(2, exact(&[1]))],
            vec![given(1, exact(&[1])), given(1, exact(&[1]))],
            vec![pb::FieldMatch { field_id: 1, field_match_type: None }],
        ] {
            assert_eq!(read_key(&fields, &matches).unwrap_err().code, Code::InvalidArgument);
        }
    }

    #[test]
    fn prefixes_count_from_the_fields_first_bit() {
        let fields = [field(1, MatchKind::Lpm, 12)];
        let matches = [given(1, lpm(&[0x0a, 0x00], 4))];
        let key = read_key(&fields, &matches).unwrap();
        assert_eq!(key, [MatchField::Lpm { value: vec![0x0a, 0x00], prefix_len: 4 }]);
        assert_eq!(write_key(&fields, &key), matches);
        let longer = [given(1, lpm(&[0x0a, 0x10], 4))];
        assert_eq!(read_key(&fields, &longer).unwrap_err().code, Code::InvalidArgument);
    }

    #[test]
    fn optional_comes_back_from_a_ternary_key() {
        let fields = [field(1, MatchKind::Optional, 9)];
        let full = MatchField::Ternary { value: vec![0, 5], mask: vec![1, 0xff] };
        let five = FieldMatchType::Optional(field_match::Optional { value: vec![5] });
        assert_eq!(write_key(&fields, &[full]), [given(1, five)]);
        let none = MatchField::Ternary { value: vec![0, 0], mask: vec![0, 0] };
        assert!(write_key(&fields, &[none]).is_empty());
    }

    #[test]
    fn members_of_value_sets_are_exact_in_any_form() {
        let kinds =
            [MatchKind::Exact, MatchKind::Ternary, MatchKind::Lpm, MatchKind::Range, MatchKind::Optional];
        let fields: Vec<Field> = kinds.iter().zip(1..).map(|(kind, id)| field(id, *kind, 8)).collect();
        let five = FieldMatchType::Optional(field_match::Optional { value: vec![5] });
        let matches = vec![
            given(1, exact(&[5])),
            given(2, ternary(&[5], &[0xff])),
            given(3, lpm(&[5], 8)),
            given(4, range(&[5], &[5])),
            given(5, five),
        ];
        let key = read_member(&fields, &matches).unwrap();
        assert!(key.iter().all(|value| *value == MatchField::Exact(vec![5])));
        assert_eq!(write_member(&fields, &key), matches);
        let mut wide = matches.clone();
        wide[1] = given(2, ternary(&[5], &[0x0f]));
        assert_eq!(read_member(&fields, &wide).unwrap_err().code, Code::Unimplemented);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn lpm_round_trip(value: u32, length in 1i32..=32) {
            let fields = [field(1, MatchKind::Lpm, 32)];
            let kept = value & (u32::MAX << (32 - length));
            let matches = [given(1, lpm(&bytestring::canonical(&kept.to_be_bytes()), length))];
            let key = read_key(&fields, &matches).unwrap();
            prop_assert_eq!(write_key(&fields, &key), matches);
            if kept != value {
                let matches = [given(1, lpm(&value.to_be_bytes(), length))];
                prop_assert!(read_key(&fields, &matches).is_err());
            }
        }
    }
}
