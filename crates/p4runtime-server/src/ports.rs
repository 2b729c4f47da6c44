//! Port numbers outside of the P4 program: replicas and watch ports (specification, "Translation of Port Numbers").
//! v1model's ports have 9 bits and are the controller's ports. Only the CPU port has another number.

use p4runtime_proto::p4::v1 as pb;

use super::bytestring;
use super::refusal::{Outcome, Refusal};

/// Ports have 9 bits in v1model.
const MAX_PORT: u32 = 511;

/// The number by which a controller may call the CPU port.
const SDN_CPU: u32 = pb::SdnPort::Cpu as i32 as u32;

fn check(port: u32) -> Outcome<u16> {
    u16::try_from(port)
        .ok()
        .filter(|_| port <= MAX_PORT)
        .ok_or_else(|| Refusal::invalid(format!("port {port} is not one of this switch (0 to {MAX_PORT})")))
}

fn number(port: &[u8]) -> Outcome<u32> {
    let port = bytestring::parse(port, 32).map_err(|refusal| refusal.at("port"))?;
    Ok(port.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// A replica's port.
pub(super) fn read(port: &[u8], cpu: u16) -> Outcome<u16> {
    read_number(number(port)?, cpu)
}

/// A replica's port in the older form.
pub(super) fn read_number(port: u32, cpu: u16) -> Outcome<u16> {
    if port == SDN_CPU { Ok(cpu) } else { check(port) }
}

/// A watch port; empty means none.
pub(super) fn read_watch(port: &[u8]) -> Outcome<Option<u16>> {
    if port.is_empty() { Ok(None) } else { check(number(port)?).map(Some) }
}

/// A watch port in the older form, where 0 means none.
pub(super) fn read_old_watch(port: i32) -> Outcome<Option<u16>> {
    let invalid = || Refusal::invalid(format!("watch port {port} is negative"));
    match u32::try_from(port).map_err(|_| invalid())? {
        0 => Ok(None),
        port => check(port).map(Some),
    }
}

/// A port for the controller.
pub(super) fn write(port: u16) -> Vec<u8> {
    bytestring::canonical(&port.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn numbers_and_the_cpu() {
        assert_eq!(read(&[0, 0, 5], 510).unwrap(), 5);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xfd], 510).unwrap(), 510);
        assert_eq!(read(&[2, 0], 510).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(read(&[], 510).unwrap_err().code, Code::OutOfRange);
        assert_eq!(read_watch(&[]).unwrap(), None);
        assert_eq!(read_watch(&[7]).unwrap(), Some(7));
        assert_eq!(read_old_watch(0).unwrap(), None);
        assert!(read_old_watch(-1).is_err());
        assert_eq!(write(511), [1, 255]);
    }
}
