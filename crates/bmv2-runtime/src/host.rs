//! What the program around a switch does for the interface: ports, queues, names.

use std::path::Path;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The number of the port.
    pub number: u16,
    /// The interface that it is on.
    pub interface: String,
    /// Whether frames pass.
    pub is_up: bool,
}

/// What changes at the queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// The packets that wait at most.
    Depth(usize),
    /// The packets that leave per second at most.
    Rate(u64),
}

/// The program around a switch. Errors are sentences for whoever asked. Calls may block for a round of the switch.
pub trait Host: Send + Sync {
    /// The number by which controllers name the switch.
    fn device_id(&self) -> u64;

    /// All ports, by number.
    fn ports(&self) -> Vec<PortInfo>;

    /// Opens a port on an interface, and writes what passes it into a file of the folder `pcap`.
    ///
    /// # Errors
    /// The number or the interface is taken, or can't be opened.
    fn add_port(&self, number: u16, interface: &str, pcap: Option<&Path>) -> Result<(), String>;

    /// Closes a port.
    ///
    /// # Errors
    /// There is none of that number.
    fn remove_port(&self, number: u16) -> Result<(), String>;

    /// Changes the queue of a port, or of all ports, also of those that come later.
    ///
    /// # Errors
    /// There is no port of that number.
    fn set_queue(&self, port: Option<u16>, change: QueueChange) -> Result<(), String>;
}
