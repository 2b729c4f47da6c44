//! The messages between an agent and a program at one of its rings; see `proto/zsr/agent/v1/program.proto`.

#[cfg(feature = "server")]
pub mod server;

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// The program leaves.
pub const FAREWELL: u8 = 0;
/// The program's ring has items.
pub const BELL: u8 = 1;
/// The program leaves an item begun.
pub const BEGUN: u8 = 2;
/// Most regions that a program registers at a ring.
pub const MOST_REGISTERED: usize = 16;
/// Longest message, bytes.
pub const LONGEST_MESSAGE: usize = 64 << 10;

/// A message with its length in front.
pub fn framed(message: &impl prost::Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}
