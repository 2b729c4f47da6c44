//! Values of arbitrary types (p4.v1.P4Data): digests and registers. The data plane has them as a flat list of
//! bit strings; a type says how the list folds up.

use p4runtime_proto::p4::config::v1 as config;
use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::p4_data::Data;

use super::bytestring;
use super::refusal::{Outcome, Refusal};
use super::repr::Repr;

/// Width of an enum without an underlying type, and of an error, in every bmv2 program.
const NAME_WIDTH: u32 = 32;
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
    /// An enum without one: its members' names, by number.
    EnumName(Vec<String>),
    /// An error, likewise.
    ErrorName(Vec<String>),
    /// A value that the controller has in another form.
    Translated(Repr),
    Struct(Vec<DataType>),
    Tuple(Vec<DataType>),
    /// Field widths, of `bit` or (true) `int`. A digest carries the fields only, so the header counts as valid.
    Header(Vec<(u32, bool)>),
}

impl DataType {
    /// Resolves a type of P4Info. `widths` is the artifact's flat list, which alone knows how wide translated types are.
    /// The error says what is not supported.
    pub fn resolve(
        spec: Option<&config::P4DataTypeSpec>,
        types: Option<&config::P4TypeInfo>,
        widths: &[u32],
    ) -> Result<Self, String> {
        let empty = config::P4TypeInfo::default();
        let mut widths = widths.iter().copied();
        Resolver { types: types.unwrap_or(&empty), widths: &mut widths }.resolve(spec, 0)
    }

    /// Widths of the flat list, in bits.
    pub fn widths(&self) -> Vec<u32> {
        match self {
            Self::Bits(width) | Self::Int(width) | Self::EnumValue(width) => vec![*width],
            Self::Bool => vec![1],
            Self::EnumName(_) | Self::ErrorName(_) => vec![NAME_WIDTH],
            Self::Translated(repr) => vec![repr.width],
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
            Self::EnumName(names) => Data::Enum(name(names, &next())),
            Self::ErrorName(names) => Data::Error(name(names, &next())),
            Self::Translated(repr) => Data::Bitstring(repr.write(&next())),
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
            (Self::Translated(repr), Some(Data::Bitstring(bits))) => repr.read(bits),
            (Self::EnumName(names), Some(Data::Enum(member)))
            | (Self::ErrorName(names), Some(Data::Error(member))) => {
                let number = names.iter().position(|name| name == member);
                let number =
                    number.ok_or_else(|| Refusal::invalid(format!("there is no member '{member}'")))?;
                bytestring::parse(&(number as u32).to_be_bytes(), NAME_WIDTH)
            }
            (_, None) => Err(Refusal::invalid("data is not set")),
            _ => Err(Refusal::invalid(format!("data is not of the type that P4Info gives: {}", self.name()))),
        }
    }

    /// The type's name, for messages.
    pub fn name(&self) -> String {
        match self {
            Self::Bits(width) => format!("bit<{width}>"),
            Self::Int(width) => format!("int<{width}>"),
            Self::EnumValue(width) => format!("enum bit<{width}>"),
            Self::Bool => "bool".into(),
            Self::EnumName(_) => "enum".into(),
            Self::ErrorName(_) => "error".into(),
            Self::Translated(repr) => format!("a translated type of {} bits", repr.width),
            Self::Struct(_) => "struct".into(),
            Self::Tuple(_) => "tuple".into(),
            Self::Header(_) => "header".into(),
        }
    }
}

/// The name of a member; a number that has none, which a program can make of a cast, is given in digits.
fn name(names: &[String], number: &[u8]) -> String {
    let number = number.iter().fold(0usize, |n, byte| n << 8 | usize::from(*byte));
    names.get(number).cloned().unwrap_or_else(|| number.to_string())
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

struct Resolver<'a> {
    types: &'a config::P4TypeInfo,
    widths: &'a mut dyn Iterator<Item = u32>,
}

impl Resolver<'_> {
    fn resolve(&mut self, spec: Option<&config::P4DataTypeSpec>, depth: usize) -> Result<DataType, String> {
        use config::p4_data_type_spec::TypeSpec;
        if depth > MAX_DEPTH {
            return Err(format!("has a type that nests deeper than {MAX_DEPTH}"));
        }
        let types = self.types;
        let missing = |kind: &str, name: &str| format!("has {kind} '{name}', which type_info lacks");
        match spec.and_then(|spec| spec.type_spec.as_ref()) {
            Some(TypeSpec::Bitstring(bits)) => {
                self.widths.next();
                Ok(match bit_like(bits)? {
                    (width, false) => DataType::Bits(width),
                    (width, true) => DataType::Int(width),
                })
            }
            Some(TypeSpec::Bool(_)) => {
                self.widths.next();
                Ok(DataType::Bool)
            }
            Some(TypeSpec::Tuple(tuple)) => {
                let members = tuple.members.iter().map(|member| self.resolve(Some(member), depth + 1));
                Ok(DataType::Tuple(members.collect::<Result<_, _>>()?))
            }
            Some(TypeSpec::Struct(name)) => {
                let spec = types.structs.get(&name.name).ok_or_else(|| missing("struct", &name.name))?;
                let members = spec.members.iter().map(|m| self.resolve(m.type_spec.as_ref(), depth + 1));
                Ok(DataType::Struct(members.collect::<Result<_, _>>()?))
            }
            Some(TypeSpec::Header(name)) => {
                let spec = types.headers.get(&name.name).ok_or_else(|| missing("header", &name.name))?;
                let fields = spec.members.iter().map(|member| {
                    self.widths.next();
                    match &member.type_spec {
                        Some(bits) => bit_like(bits),
                        None => Err(format!("has header field '{}' without a type", member.name)),
                    }
                });
                Ok(DataType::Header(fields.collect::<Result<_, _>>()?))
            }
            Some(TypeSpec::SerializableEnum(name)) => {
                self.widths.next();
                let spec =
                    types.serializable_enums.get(&name.name).ok_or_else(|| missing("enum", &name.name))?;
                Ok(DataType::EnumValue(width(spec.underlying_type.as_ref().map_or(0, |bit| bit.bitwidth))?))
            }
            Some(TypeSpec::Enum(name)) => {
                self.widths.next();
                let spec = types.enums.get(&name.name).ok_or_else(|| missing("enum", &name.name))?;
                Ok(DataType::EnumName(spec.members.iter().map(|member| member.name.clone()).collect()))
            }
            Some(TypeSpec::Error(_)) => {
                self.widths.next();
                let spec = types.error.as_ref().ok_or("has an error, which type_info lacks")?;
                Ok(DataType::ErrorName(spec.members.clone()))
            }
            Some(TypeSpec::NewType(name)) => {
                use config::p4_new_type_spec::Representation;
                let spec = types.new_types.get(&name.name).ok_or_else(|| missing("type", &name.name))?;
                match &spec.representation {
                    Some(Representation::OriginalType(original)) => self.resolve(Some(original), depth + 1),
                    Some(Representation::TranslatedType(translation)) => {
                        let width = self.widths.next().ok_or_else(|| {
                            format!("has type '{}', of which the device config knows no width", name.name)
                        })?;
                        Ok(DataType::Translated(Repr::translated(translation, width)?))
                    }
                    None => Err(format!("has type '{}', which is nothing", name.name)),
                }
            }
            Some(TypeSpec::HeaderUnion(_) | TypeSpec::HeaderStack(_) | TypeSpec::HeaderUnionStack(_)) => {
                Err("has a header union or stack, which no bmv2 program can have here".into())
            }
            None => Err("has no type".into()),
        }
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
        let outer = DataType::resolve(Some(&named("outer")), Some(&types), &[48, 9]).unwrap();
        assert_eq!(outer.widths(), [48, 9]);
        let value = outer.fold(&mut vec![vec![0, 0, 0, 0, 1, 2], vec![0, 7]].into_iter());
        let Some(Data::Struct(outer)) = value.data else { panic!("{value:?}") };
        assert_eq!(outer.members[0].data, Some(Data::Bitstring(vec![1, 2])));
        let Some(Data::Struct(inner)) = &outer.members[1].data else { panic!("{outer:?}") };
        assert_eq!(inner.members[0].data, Some(Data::Bitstring(vec![7])));
    }

    #[test]
    fn names_and_translated_types() {
        use config::{p4_data_type_spec as data, p4_new_type_spec as new, p4_new_type_translation as sdn};
        let mut types = config::P4TypeInfo::default();
        let members = ["red", "green"]
            .map(|name| config::p4_enum_type_spec::Member { name: name.into(), ..Default::default() });
        let members = members.to_vec();
        types.enums.insert("color".into(), config::P4EnumTypeSpec { members, ..Default::default() });
        types.error = Some(config::P4ErrorTypeSpec { members: vec!["NoError".into(), "NoMatch".into()] });
        let translation = config::P4NewTypeTranslation {
            uri: "a/port".into(),
            sdn_type: Some(sdn::SdnType::SdnBitwidth(32)),
        };
        let representation = Some(new::Representation::TranslatedType(translation));
        let port = config::P4NewTypeSpec { representation, ..Default::default() };
        types.new_types.insert("port".into(), port);
        let of = |type_spec| config::P4DataTypeSpec { type_spec: Some(type_spec) };
        let name = |name: &str| config::P4NamedType { name: name.into() };
        let all = strukt(vec![
            bit(8),
            of(data::TypeSpec::NewType(name("port"))),
            of(data::TypeSpec::Enum(name("color"))),
            of(data::TypeSpec::Error(config::P4ErrorType {})),
        ]);
        types.structs.insert("all".into(), all);
        let all = DataType::resolve(Some(&named("all")), Some(&types), &[8, 9, 32, 32]).unwrap();
        assert_eq!(all.widths(), [8, 9, 32, 32]);
        let flat = [vec![1], vec![1, 2], vec![0, 0, 0, 1], vec![0, 0, 0, 9]];
        let Some(Data::Struct(got)) = all.fold(&mut flat.into_iter()).data else { panic!("a struct") };
        let got: Vec<_> = got.members.into_iter().map(|member| member.data.unwrap()).collect();
        let wanted = [
            Data::Bitstring(vec![1]),
            Data::Bitstring(vec![1, 2]),
            Data::Enum("green".into()),
            Data::Error("9".into()),
        ];
        assert_eq!(got, wanted);
        let DataType::Struct(parts) = &all else { panic!("a struct") };
        let read = |at: usize, data| parts[at].read(&pb::P4Data { data: Some(data) });
        assert_eq!(read(2, Data::Enum("green".into())).unwrap(), [1]);
        assert!(read(2, Data::Enum("blue".into())).is_err());
        assert_eq!(read(1, Data::Bitstring(vec![1, 2])).unwrap(), [1, 2]);
        assert!(DataType::resolve(Some(&named("all")), Some(&types), &[8]).unwrap_err().contains("'port'"));
    }

    #[test]
    fn types_that_go_round_are_refused() {
        let mut types = config::P4TypeInfo::default();
        types.structs.insert("a".into(), strukt(vec![named("b")]));
        types.structs.insert("b".into(), strukt(vec![named("a")]));
        assert!(DataType::resolve(Some(&named("a")), Some(&types), &[]).unwrap_err().contains("deeper"));
        assert!(DataType::resolve(Some(&named("c")), Some(&types), &[]).unwrap_err().contains("'c'"));
        assert!(DataType::resolve(None, None, &[]).is_err());
        assert!(DataType::resolve(Some(&bit(-1)), None, &[]).is_err());
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
