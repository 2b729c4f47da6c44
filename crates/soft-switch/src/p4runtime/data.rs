//! Values of arbitrary types (p4.v1.P4Data): digests and registers. The data plane has them as a flat list of
//! bit strings; a type says how the list folds up.

use p4runtime_proto::p4::config::v1 as config;
use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::p4_data::Data;

use super::bytestring;
use super::refusal::{Outcome, Refusal};

/// Types may nest; the language forbids recursion, but P4Info comes from outside.
const MAX_DEPTH: usize = 32;

/// A type, resolved down to widths in bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DataType {
    Bits(u32),
    Int(u32),
    Bool,
    /// An enum with an underlying type.
    EnumValue(u32),
    Struct(Vec<DataType>),
    Tuple(Vec<DataType>),
    /// Field widths, of `bit` or (true) `int`. A digest carries the fields only, so the header counts as valid.
    Header(Vec<(u32, bool)>),
}

impl DataType {
    /// Resolves a type of P4Info. The error says what is not supported.
    pub fn resolve(
        spec: Option<&config::P4DataTypeSpec>,
        types: Option<&config::P4TypeInfo>,
    ) -> Result<Self, String> {
        let empty = config::P4TypeInfo::default();
        resolve(spec, types.unwrap_or(&empty), 0)
    }

    /// Widths of the flat list, in bits.
    pub fn widths(&self) -> Vec<u32> {
        match self {
            Self::Bits(width) | Self::Int(width) | Self::EnumValue(width) => vec![*width],
            Self::Bool => vec![1],
            Self::Struct(members) | Self::Tuple(members) => members.iter().flat_map(Self::widths).collect(),
            Self::Header(fields) => fields.iter().map(|(width, _)| *width).collect(),
        }
    }

    /// A value from the flat list, which must have as many bit strings as [`widths`](Self::widths).
    pub fn fold(&self, flat: &mut dyn Iterator<Item = Vec<u8>>) -> pb::P4Data {
        let mut next = || flat.next().unwrap_or_default();
        let data = match self {
            Self::Bits(_) => Data::Bitstring(bytestring::canonical(&next())),
            Self::Int(width) => Data::Bitstring(bytestring::format_signed(&next(), *width)),
            Self::EnumValue(_) => Data::EnumValue(bytestring::canonical(&next())),
            Self::Bool => Data::Bool(next().iter().any(|byte| *byte != 0)),
            Self::Struct(members) => Data::Struct(fold_all(members, flat)),
            Self::Tuple(members) => Data::Tuple(fold_all(members, flat)),
            Self::Header(fields) => {
                let bitstrings = fields.iter().map(|(width, signed)| {
                    let bits = next();
                    if *signed {
                        bytestring::format_signed(&bits, *width)
                    } else {
                        bytestring::canonical(&bits)
                    }
                });
                Data::Header(pb::P4Header { is_valid: true, bitstrings: bitstrings.collect() })
            }
        };
        pb::P4Data { data: Some(data) }
    }

    /// A value of one bit string, as registers have them.
    pub fn read(&self, value: &pb::P4Data) -> Outcome<Vec<u8>> {
        match (self, &value.data) {
            (Self::Bits(width), Some(Data::Bitstring(bits)))
            | (Self::EnumValue(width), Some(Data::EnumValue(bits))) => bytestring::parse(bits, *width),
            (Self::Int(width), Some(Data::Bitstring(bits))) => bytestring::parse_signed(bits, *width),
            (Self::Bool, Some(Data::Bool(value))) => Ok(vec![u8::from(*value)]),
            (_, None) => Err(Refusal::invalid("data is not set")),
            _ => Err(Refusal::invalid(format!("data is not of the type that P4Info gives: {}", self.name()))),
        }
    }

    /// For messages.
    pub fn name(&self) -> String {
        match self {
            Self::Bits(width) => format!("bit<{width}>"),
            Self::Int(width) => format!("int<{width}>"),
            Self::EnumValue(width) => format!("enum bit<{width}>"),
            Self::Bool => "bool".into(),
            Self::Struct(_) => "struct".into(),
            Self::Tuple(_) => "tuple".into(),
            Self::Header(_) => "header".into(),
        }
    }
}

fn fold_all(members: &[DataType], flat: &mut dyn Iterator<Item = Vec<u8>>) -> pb::P4StructLike {
    pb::P4StructLike { members: members.iter().map(|member| member.fold(flat)).collect() }
}

fn width(bits: i32) -> Result<u32, String> {
    u32::try_from(bits).ok().filter(|bits| *bits > 0).ok_or_else(|| format!("has a type of {bits} bits"))
}

fn bit_like(spec: &config::P4BitstringLikeTypeSpec) -> Result<(u32, bool), String> {
    use config::p4_bitstring_like_type_spec::TypeSpec;
    match &spec.type_spec {
        Some(TypeSpec::Bit(bit)) => Ok((width(bit.bitwidth)?, false)),
        Some(TypeSpec::Int(int)) => Ok((width(int.bitwidth)?, true)),
        Some(TypeSpec::Varbit(_)) => Err("has a varbit, which no bmv2 program can have here".into()),
        None => Err("has a bit string without a type".into()),
    }
}

fn resolve(
    spec: Option<&config::P4DataTypeSpec>,
    types: &config::P4TypeInfo,
    depth: usize,
) -> Result<DataType, String> {
    use config::p4_data_type_spec::TypeSpec;
    if depth > MAX_DEPTH {
        return Err(format!("has a type that nests deeper than {MAX_DEPTH}"));
    }
    let missing = |kind: &str, name: &str| format!("has {kind} '{name}', which type_info lacks");
    match spec.and_then(|spec| spec.type_spec.as_ref()) {
        Some(TypeSpec::Bitstring(bits)) => Ok(match bit_like(bits)? {
            (width, false) => DataType::Bits(width),
            (width, true) => DataType::Int(width),
        }),
        Some(TypeSpec::Bool(_)) => Ok(DataType::Bool),
        Some(TypeSpec::Tuple(tuple)) => {
            let members = tuple.members.iter().map(|member| resolve(Some(member), types, depth + 1));
            Ok(DataType::Tuple(members.collect::<Result<_, _>>()?))
        }
        Some(TypeSpec::Struct(name)) => {
            let spec = types.structs.get(&name.name).ok_or_else(|| missing("struct", &name.name))?;
            let members = spec.members.iter().map(|m| resolve(m.type_spec.as_ref(), types, depth + 1));
            Ok(DataType::Struct(members.collect::<Result<_, _>>()?))
        }
        Some(TypeSpec::Header(name)) => {
            let spec = types.headers.get(&name.name).ok_or_else(|| missing("header", &name.name))?;
            let fields = spec.members.iter().map(|member| match &member.type_spec {
                Some(bits) => bit_like(bits),
                None => Err(format!("has header field '{}' without a type", member.name)),
            });
            Ok(DataType::Header(fields.collect::<Result<_, _>>()?))
        }
        Some(TypeSpec::SerializableEnum(name)) => {
            let spec = types.serializable_enums.get(&name.name).ok_or_else(|| missing("enum", &name.name))?;
            Ok(DataType::EnumValue(width(spec.underlying_type.as_ref().map_or(0, |bit| bit.bitwidth))?))
        }
        Some(TypeSpec::NewType(name)) => {
            use config::p4_new_type_spec::Representation;
            let spec = types.new_types.get(&name.name).ok_or_else(|| missing("type", &name.name))?;
            match &spec.representation {
                Some(Representation::OriginalType(original)) => resolve(Some(original), types, depth + 1),
                _ => Err(format!(
                    "has translated type '{}', which this switch has in keys, parameters and \
                                  packet headers only",
                    name.name
                )),
            }
        }
        Some(TypeSpec::HeaderUnion(_) | TypeSpec::HeaderStack(_) | TypeSpec::HeaderUnionStack(_)) => {
            Err("has a header union or stack, which no bmv2 program can have here".into())
        }
        Some(TypeSpec::Enum(_) | TypeSpec::Error(_)) => {
            Err("has an enum or error without a width, which no bmv2 program can have here".into())
        }
        None => Err("has no type".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit(bitwidth: i32) -> config::P4DataTypeSpec {
        use config::{p4_bitstring_like_type_spec as like, p4_data_type_spec as data};
        let type_spec = Some(like::TypeSpec::Bit(config::P4BitTypeSpec { bitwidth }));
        let bits = config::P4BitstringLikeTypeSpec { type_spec, ..Default::default() };
        config::P4DataTypeSpec { type_spec: Some(data::TypeSpec::Bitstring(bits)) }
    }

    fn named(name: &str) -> config::P4DataTypeSpec {
        let name = config::P4NamedType { name: name.into() };
        config::P4DataTypeSpec { type_spec: Some(config::p4_data_type_spec::TypeSpec::Struct(name)) }
    }

    fn strukt(members: Vec<config::P4DataTypeSpec>) -> config::P4StructTypeSpec {
        let members = members
            .into_iter()
            .map(|spec| config::p4_struct_type_spec::Member { name: "m".into(), type_spec: Some(spec) });
        config::P4StructTypeSpec { members: members.collect(), ..Default::default() }
    }

    #[test]
    fn structs_fold_and_flatten() {
        let mut types = config::P4TypeInfo::default();
        types.structs.insert("inner".into(), strukt(vec![bit(9)]));
        types.structs.insert("outer".into(), strukt(vec![bit(48), named("inner")]));
        let outer = DataType::resolve(Some(&named("outer")), Some(&types)).unwrap();
        assert_eq!(outer.widths(), [48, 9]);
        let value = outer.fold(&mut vec![vec![0, 0, 0, 0, 1, 2], vec![0, 7]].into_iter());
        let Some(Data::Struct(outer)) = value.data else { panic!("{value:?}") };
        assert_eq!(outer.members[0].data, Some(Data::Bitstring(vec![1, 2])));
        let Some(Data::Struct(inner)) = &outer.members[1].data else { panic!("{outer:?}") };
        assert_eq!(inner.members[0].data, Some(Data::Bitstring(vec![7])));
    }

    #[test]
    fn types_that_go_round_are_refused() {
        let mut types = config::P4TypeInfo::default();
        types.structs.insert("a".into(), strukt(vec![named("b")]));
        types.structs.insert("b".into(), strukt(vec![named("a")]));
        assert!(DataType::resolve(Some(&named("a")), Some(&types)).unwrap_err().contains("deeper"));
        assert!(DataType::resolve(Some(&named("c")), Some(&types)).unwrap_err().contains("'c'"));
        assert!(DataType::resolve(None, None).is_err());
        assert!(DataType::resolve(Some(&bit(-1)), None).is_err());
    }

    #[test]
    fn registers_check_the_type() {
        let value = |data| pb::P4Data { data: Some(data) };
        assert_eq!(DataType::Int(12).read(&value(Data::Bitstring(vec![0xff]))).unwrap(), [0x0f, 0xff]);
        assert_eq!(DataType::Bool.read(&value(Data::Bool(true))).unwrap(), [1]);
        assert!(DataType::Bits(8).read(&value(Data::Bool(true))).is_err());
        assert!(DataType::Bits(8).read(&pb::P4Data::default()).is_err());
        let back = DataType::Int(12).fold(&mut std::iter::once(vec![0x0f, 0xff]));
        assert_eq!(back.data, Some(Data::Bitstring(vec![0xff])));
    }
}
