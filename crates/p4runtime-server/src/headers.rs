//! Controller headers: what stands in front of packets to and from the CPU port (specification, "Packet I/O").

use std::collections::{HashMap, HashSet};

use p4runtime_proto::p4::config::v1 as config;
use p4runtime_proto::p4::v1 as pb;

use super::bytestring;
use super::refusal::{Outcome, Refusal};
use super::repr::Repr;
use super::schema::{PacketHeader, Param};
use zsr_soft_switch::HeaderTypeInfo;

/// Packet-in and packet-out headers of a pipeline.
///
/// # Errors
/// If the artifact has no header with these fields, so that the switch and the controller would disagree.
pub(super) fn controller_headers(
    info: &config::P4Info,
    types: &[HeaderTypeInfo],
) -> Outcome<(Option<PacketHeader>, Option<PacketHeader>)> {
    let (mut packet_in, mut packet_out) = (None, None);
    for metadata in &info.controller_packet_metadata {
        let name = metadata.preamble.as_ref().map_or("", |preamble| preamble.name.as_str());
        let slot = match name {
            "packet_in" => &mut packet_in,
            "packet_out" => &mut packet_out,
            _ => {
                return Err(Refusal::invalid(format!(
                    "controller header '{name}' is neither packet_in nor packet_out"
                )));
            }
        };
        let header = PacketHeader::build(metadata, info, types)
            .map_err(|what| Refusal::invalid(format!("controller header '{name}' {what}")))?;
        if slot.replace(header).is_some() {
            return Err(Refusal::invalid(format!("controller header '{name}' is there twice")));
        }
    }
    Ok((packet_in, packet_out))
}

impl PacketHeader {
    fn build(
        metadata: &config::ControllerPacketMetadata,
        info: &config::P4Info,
        types: &[HeaderTypeInfo],
    ) -> Result<Self, String> {
        let none = HashMap::new();
        let new_types = info.type_info.as_ref().map_or(&none, |types| &types.new_types);
        let names = || metadata.metadata.iter().map(|field| field.name.as_str());
        let same = |of: &&HeaderTypeInfo| of.fields.iter().map(|(name, _)| name.as_str()).eq(names());
        let with =
            |of: &HeaderTypeInfo| Self::of(metadata, of.fields.iter().map(|(_, width)| *width), new_types);
        let mut candidates = types.iter().filter(same).map(with);
        if let Some(first) = candidates.next() {
            // Another header may have fields of the same names and other widths.
            return first.or_else(|error| candidates.find_map(Result::ok).ok_or(error));
        }
        // A header that the program never uses is not in its artifact; then P4Info must say all there is to say.
        let widths = metadata.metadata.iter().map(|field| u32::try_from(field.bitwidth).unwrap_or(0));
        if widths.clone().any(|width| width == 0) {
            return Err("is not in the device config: no header type has the same fields".into());
        }
        Self::of(metadata, widths, new_types)
    }

    fn of(
        metadata: &config::ControllerPacketMetadata,
        widths: impl Iterator<Item = u32>,
        new_types: &HashMap<String, config::P4NewTypeSpec>,
    ) -> Result<Self, String> {
        let mut ids = HashSet::new();
        let fields = metadata.metadata.iter().zip(widths).map(|(field, width)| {
            if field.id == 0 || !ids.insert(field.id) {
                return Err(format!(
                    "has field '{}' with id {}, which must be set and unique",
                    field.name, field.id
                ));
            }
            let repr = Repr::agree(field.bitwidth, field.type_name.as_ref(), new_types, width)
                .map_err(|what| format!("has field '{}', which {what}", field.name))?;
            Ok(Param { id: field.id, name: field.name.clone(), repr })
        });
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { fields })
    }

    /// Length in bytes. A header that the program never uses need not fill its last one.
    pub fn len(&self) -> usize {
        self.fields.iter().map(|field| field.repr.width as usize).sum::<usize>().div_ceil(8)
    }

    /// The header's bytes from the metadata of a PacketOut, which must have every field exactly once.
    pub fn pack(&self, metadata: &[pb::PacketMetadata]) -> Outcome<Vec<u8>> {
        if let Some(extra) = metadata.iter().find(|m| !self.fields.iter().any(|f| f.id == m.metadata_id)) {
            return Err(Refusal::invalid(format!("packet_out has no metadata field {}", extra.metadata_id)));
        }
        let mut bytes = vec![0; self.len()];
        let mut start = 0;
        for field in &self.fields {
            let mut given = metadata.iter().filter(|value| value.metadata_id == field.id);
            let (Some(value), None) = (given.next(), given.next()) else {
                return Err(Refusal::invalid(format!(
                    "metadata field {} ('{}') must be there once",
                    field.id, field.name
                )));
            };
            let place = || format!("metadata field {} ('{}')", field.id, field.name);
            let value = field
                .repr
                .read(&value.value)
                .map_err(|refusal| Refusal::invalid(refusal.at(place()).message))?;
            let width = field.repr.width as usize;
            put_bits(&mut bytes, start, width, &value);
            start += width;
        }
        Ok(bytes)
    }

    /// The metadata of a PacketIn from the header's bytes; none if the packet is too short to have one.
    pub fn unpack(&self, packet: &[u8]) -> Option<(Vec<pb::PacketMetadata>, usize)> {
        let header = packet.get(..self.len())?;
        let mut start = 0;
        let fields = self.fields.iter().map(|field| {
            let width = field.repr.width as usize;
            let bits = get_bits(header, start, width);
            start += width;
            pb::PacketMetadata { metadata_id: field.id, value: field.repr.write(&bits) }
        });
        Some((fields.collect(), self.len()))
    }
}

fn put_bits(bytes: &mut [u8], start: usize, width: usize, value: &[u8]) {
    for bit in 0..width {
        let from = value.len().checked_sub(1 + bit / 8).and_then(|index| value.get(index));
        let at = start + width - 1 - bit;
        if from.is_some_and(|byte| (byte >> (bit % 8)) & 1 == 1)
            && let Some(byte) = bytes.get_mut(at / 8)
        {
            *byte |= 0x80 >> (at % 8);
        }
    }
}

fn get_bits(bytes: &[u8], start: usize, width: usize) -> Vec<u8> {
    let mut value = bytestring::cut(&[0], width as u32, 0);
    let length = value.len();
    for bit in 0..width {
        let at = start + width - 1 - bit;
        if bytes.get(at / 8).is_some_and(|byte| (byte >> (7 - at % 8)) & 1 == 1)
            && let Some(byte) = value.get_mut(length - 1 - bit / 8)
        {
            *byte |= 1 << (bit % 8);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn header(widths: &[u32]) -> PacketHeader {
        let field = |(index, width): (usize, &u32)| Param {
            id: index as u32 + 1,
            name: format!("f{index}"),
            repr: Repr::plain(*width),
        };
        PacketHeader { fields: widths.iter().enumerate().map(field).collect() }
    }

    fn metadata(id: u32, value: &[u8]) -> pb::PacketMetadata {
        pb::PacketMetadata { metadata_id: id, value: value.to_vec() }
    }

    #[test]
    fn packs_bits_back_to_back() {
        let header = header(&[9, 7]);
        assert_eq!(header.pack(&[metadata(1, &[1, 1]), metadata(2, &[0x7f])]).unwrap(), [0x80, 0xff]);
        let (fields, length) = header.unpack(&[0x80, 0xff, 9]).unwrap();
        assert_eq!((fields, length), (vec![metadata(1, &[1, 1]), metadata(2, &[0x7f])], 2));
        assert!(header.unpack(&[1]).is_none());
    }

    #[test]
    fn the_header_is_the_one_that_fits() {
        let field = |id, bitwidth| config::controller_packet_metadata::Metadata {
            id,
            name: format!("f{id}"),
            bitwidth,
            ..Default::default()
        };
        let metadata = |first, second| config::ControllerPacketMetadata {
            preamble: None,
            metadata: vec![field(1, first), field(2, second)],
        };
        let typed = |fields: &[(&str, u32)]| HeaderTypeInfo {
            name: "h".into(),
            fields: fields.iter().map(|(name, width)| ((*name).to_owned(), *width)).collect(),
        };
        let of = |first, second| typed(&[("f1", first), ("f2", second)]);
        let info = config::P4Info::default();
        let types = [typed(&[("f1", 8)]), of(4, 4), of(9, 7)];
        let length = |bits: (i32, i32), types: &[HeaderTypeInfo]| {
            PacketHeader::build(&metadata(bits.0, bits.1), &info, types).map(|header| header.len())
        };
        assert_eq!(length((4, 4), &types), Ok(1));
        assert_eq!(length((9, 7), &types), Ok(2));
        assert!(length((9, 8), &types).unwrap_err().contains("'f1'"), "the first that has the names");
        assert_eq!(length((9, 15), &[]), Ok(3), "not used by the program");
        assert_eq!(length((9, 8), &[]), Ok(3), "nor is its last byte full");
        assert!(length((9, 0), &[]).is_err());
    }

    #[test]
    fn every_field_once() {
        let header = header(&[8, 8]);
        for bad in [
            vec![metadata(1, &[1])],
            vec![metadata(1, &[1]), metadata(1, &[1])],
            vec![metadata(1, &[1]), metadata(2, &[1]), metadata(3, &[1])],
            vec![metadata(1, &[1]), metadata(2, &[1, 1])],
            vec![metadata(1, &[1]), metadata(2, &[])],
        ] {
            assert_eq!(header.pack(&bad).unwrap_err().code, tonic::Code::InvalidArgument, "{bad:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn round_trip(values in proptest::collection::vec((1u32..40, any::<u64>()), 1..6)) {
            let mut widths: Vec<u32> = values.iter().map(|(width, _)| *width).collect();
            let rest = (8 - widths.iter().sum::<u32>() % 8) % 8;
            if rest > 0 { widths.push(rest); }
            let header = header(&widths);
            let fields: Vec<_> = widths.iter().enumerate().map(|(index, width)| {
                let value = values.get(index).map_or(0, |(_, value)| value & ((1u64 << width) - 1));
                metadata(index as u32 + 1, &bytestring::canonical(&value.to_be_bytes()))
            }).collect();
            let bytes = header.pack(&fields).unwrap();
            prop_assert_eq!(header.unpack(&bytes), Some((fields, bytes.len())));
        }
    }
}
