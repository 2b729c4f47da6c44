//! Ethernet II. A VLAN tag is not looked into ([`crate::vlan`] is): its ethertype (0x8100) is reported like any other.

use std::fmt;
use std::str::FromStr;

use crate::bytes::{array_at, u16_at};
use crate::error::{EmitError, Layer, ParseError, need, room};

/// Header length in bytes.
pub const LEN: usize = 14;
/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Shortest frame without FCS; shorter ones are padded by real hardware.
pub const MIN_FRAME: usize = 60;

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// Whether the group bit is set (multicast and broadcast).
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not six hexadecimal bytes separated by colons.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a MAC address: expected six two-digit hexadecimal bytes, such as 02:00:00:00:00:01")]
pub struct MacError {
    text: String,
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Mac, MacError> {
        let bad = || MacError { text: text.to_owned() };
        let mut out = [0; 6];
        let mut parts = text.split(':');
        for slot in &mut out {
            let part = parts.next().ok_or_else(bad)?;
            if part.len() != 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(bad());
            }
            *slot = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Mac(out)) }
    }
}

/// A checked view of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if it holds a whole header.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        need(Layer::Ethernet, LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// Destination address.
    pub fn dst(&self) -> Mac {
        Mac(array_at(self.buffer.as_ref(), 0))
    }

    /// Source address.
    pub fn src(&self) -> Mac {
        Mac(array_at(self.buffer.as_ref(), 6))
    }

    /// Ethertype, whatever it is.
    pub fn ethertype(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 12)
    }

    /// Everything behind the header.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[LEN..]
    }
}

/// An Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub dst: Mac,
    /// Source address.
    pub src: Mac,
    /// Ethertype.
    pub ethertype: u16,
}

impl Repr {
    /// Takes the header out of a view. Never fails: every value is legal.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr { dst: packet.dst(), src: packet.src(), ethertype: packet.ethertype() }
    }

    /// Writes the header to the start of `out`; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        room(Layer::Ethernet, LEN, out.len())?;
        out[0..6].copy_from_slice(&self.dst.0);
        out[6..12].copy_from_slice(&self.src.0);
        out[12..14].copy_from_slice(&self.ethertype.to_be_bytes());
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_text_round_trips_and_bad_text_is_refused() {
        let mac: Mac = "02:00:5e:10:ff:0a".parse().unwrap();
        assert_eq!(mac, Mac([2, 0, 0x5e, 0x10, 0xff, 0x0a]));
        assert_eq!(mac.to_string().parse::<Mac>().unwrap(), mac);
        for bad in [
            "",
            "02:00:5e:10:ff",
            "02:00:5e:10:ff:0a:1",
            "2:0:0:0:0:0",
            "+2:00:00:00:00:00",
            "é0:00:00:00:00:00",
        ] {
            let err = bad.parse::<Mac>().unwrap_err().to_string();
            assert!(err.contains(&format!("{bad:?}")), "{err}");
        }
    }
}
