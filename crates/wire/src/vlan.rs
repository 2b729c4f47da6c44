//! 802.1Q: the tag of a VLAN between an Ethernet frame's addresses and its ethertype. The ICRC does not cover it.

use crate::frame::Frame;

/// Ethertype that a tag begins with.
pub const ETHERTYPE: u16 = 0x8100;
/// Bytes of a tag: the ethertype, and the tag control information.
pub const LEN: usize = 4;
/// Bits of the VLAN in a tag; above them are priority (3 bits) and drop eligibility.
pub const ID: u16 = 0x0fff;

/// Bytes of both addresses.
const ADDRESSES: usize = 12;

/// Tag control information of `priority` (0 to 7) on a VLAN.
pub const fn tci(vlan: u16, priority: u8) -> u16 {
    ((priority & 7) as u16) << 13 | vlan & ID
}

/// The tag control information of a frame, if it has a tag.
#[inline]
pub fn tag(frame: &[u8]) -> Option<u16> {
    match frame.get(ADDRESSES..ADDRESSES + LEN)? {
        [t, p, rest @ ..] if u16::from_be_bytes([*t, *p]) == ETHERTYPE => {
            Some(u16::from_be_bytes([rest[0], rest[1]]))
        }
        _ => None,
    }
}

/// Takes the tag out of a frame, and gives its tag control information; `None`, and nothing changed, if it has none.
#[inline]
pub fn take(frame: &mut Frame) -> Option<u16> {
    let tci = tag(frame.bytes())?;
    frame.bytes_mut().copy_within(..ADDRESSES, LEN);
    frame.trim_front(LEN);
    Some(tci)
}

/// Puts a tag into a frame. `false`, and nothing changed, if there is no headroom for it.
#[inline]
pub fn put(frame: &mut Frame, tci: u16) -> bool {
    if frame.len() < ADDRESSES || frame.grow_front(LEN).is_none() {
        return false;
    }
    let bytes = frame.bytes_mut();
    bytes.copy_within(LEN..LEN + ADDRESSES, 0);
    bytes[ADDRESSES..ADDRESSES + 2].copy_from_slice(&ETHERTYPE.to_be_bytes());
    bytes[ADDRESSES + 2..ADDRESSES + LEN].copy_from_slice(&tci.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_in_behind_the_addresses_and_comes_out_again() {
        let plain: Vec<u8> = (0..60).collect();
        let mut frame = Frame::copy_from(&plain).unwrap();
        assert_eq!((take(&mut frame), frame.bytes()), (None, &plain[..]));
        assert!(put(&mut frame, tci(100, 3)));
        // Priority 3 is the upper three bits of 0x60.
        let tagged = [&plain[..12], &[0x81, 0x00, 0x60, 100], &plain[12..]].concat();
        assert_eq!(frame.bytes(), tagged);
        assert_eq!(tag(&tagged), Some(0x6064));
        assert_eq!((take(&mut frame), frame.bytes()), (Some(0x6064), &plain[..]));
    }

    #[test]
    fn what_is_too_short_has_no_tag() {
        for len in 0..16 {
            let bytes = [&[0; 12][..], &[0x81, 0, 0, 1]].concat();
            let mut frame = Frame::copy_from(&bytes[..len]).unwrap();
            assert_eq!(take(&mut frame), None);
            assert_eq!(put(&mut frame, 1), len >= 12);
        }
    }
}
