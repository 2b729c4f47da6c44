//! Which memory a ring is to be made in, as topologies and the controller say it.

use std::fmt;
use std::str::FromStr;

/// Where a ring's memory is to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// `host`: memory of the host.
    #[default]
    Host,
    /// `layouts`: memory of the host, whose items may have [layouts](crate::layout).
    Layouts,
    /// `gpu:N`: memory of GPU number N.
    Gpu(u32),
    /// `gpu:N:host`: memory of the host that a program maps for GPU number N.
    GpuHost(u32),
    /// `fpga-sim`: memory behind the simulated bus of a verilated design.
    FpgaSim,
    /// `pci:ADDRESS:BAR`, `pci:ADDRESS:BAR:wc`: a window of a PCI device.
    Pci(PciBar),
}

/// A window (base address register) of a PCI device, and how processors map it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PciBar {
    /// Number of the device's bus tree.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Slot on the bus, 0 to 31.
    pub device: u8,
    /// Function of the device, 0 to 7.
    pub function: u8,
    /// Number of the window, 0 to 5.
    pub bar: u8,
    /// Whether processors may gather stores to it (write-combining); else each access goes out as it is (uncached).
    pub combining: bool,
}

/// What a [`MemoryKind`] is written as.
pub const MEMORY_HELP: &str = "host, layouts, gpu:N, gpu:N:host, fpga-sim, or pci:ADDRESS:BAR with :uc or :wc behind it or nothing (such as \
     pci:0000:00:05.0:2)";

/// Not a [`MemoryKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no kind of memory: expected {MEMORY_HELP}")]
pub struct UnknownMemory(String);

impl FromStr for MemoryKind {
    type Err = UnknownMemory;

    fn from_str(text: &str) -> Result<Self, UnknownMemory> {
        parse(text).ok_or_else(|| UnknownMemory(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<MemoryKind> {
    if let Some(pci) = text.strip_prefix("pci:") {
        return parse_pci(pci).map(MemoryKind::Pci);
    }
    if let Some(gpu) = text.strip_prefix("gpu:") {
        let number = |t: &str| t.bytes().all(|b| b.is_ascii_digit()).then(|| t.parse().ok()).flatten();
        return match gpu.strip_suffix(":host") {
            Some(n) => number(n).map(MemoryKind::GpuHost),
            None => number(gpu).map(MemoryKind::Gpu),
        };
    }
    match text {
        "host" => Some(MemoryKind::Host),
        "layouts" => Some(MemoryKind::Layouts),
        "fpga-sim" => Some(MemoryKind::FpgaSim),
        _ => None,
    }
}

/// `DDDD:BB:DD.F:BAR`, as sysfs and `lspci -D` write addresses.
fn parse_pci(text: &str) -> Option<PciBar> {
    fn hex(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
        let fits = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        fits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    }
    let parts: Vec<&str> = text.split(':').collect();
    let ([domain, bus, slot, bar], combining) = match parts[..] {
        [a, b, c, d] | [a, b, c, d, "uc"] => ([a, b, c, d], false),
        [a, b, c, d, "wc"] => ([a, b, c, d], true),
        _ => return None,
    };
    let (device, function) = slot.split_once('.')?;
    let device = hex(device, 2..=2).filter(|d| *d < 32)?;
    let function = hex(function, 1..=1).filter(|f| *f < 8)?;
    let bar = hex(bar, 1..=1).filter(|b| *b < 6)?;
    Some(PciBar {
        // Virtual domains, such as those of VMD, have more than 4 digits.
        domain: hex(domain, 4..=8)?,
        bus: hex(bus, 2..=2)? as u8,
        device: device as u8,
        function: function as u8,
        bar: bar as u8,
        combining,
    })
}

impl PciBar {
    /// The device's name in sysfs: `0000:00:05.0`.
    pub fn address(&self) -> String {
        format!("{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.device, self.function)
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Layouts => f.write_str("layouts"),
            Self::Gpu(n) => write!(f, "gpu:{n}"),
            Self::GpuHost(n) => write!(f, "gpu:{n}:host"),
            Self::FpgaSim => f.write_str("fpga-sim"),
            Self::Pci(at) => {
                write!(f, "pci:{}:{}{}", at.address(), at.bar, if at.combining { ":wc" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_they_are_read() {
        for text in [
            "host",
            "layouts",
            "gpu:0",
            "gpu:7:host",
            "fpga-sim",
            "pci:0000:00:05.0:2",
            "pci:10000:e1:1f.7:5:wc",
        ] {
            assert_eq!(text.parse::<MemoryKind>().expect(text).to_string(), text);
        }
        assert_eq!("pci:0000:00:05.0:2:uc".parse(), "pci:0000:00:05.0:2".parse::<MemoryKind>());
    }

    #[test]
    fn what_is_no_kind_is_refused_with_those_that_there_are() {
        let bad = "|HOST|gpu|gpu:|gpu:x|gpu:+1|gpu:-1|gpu:0:dev|gpu:4294967296|pci:|pci:0000:00:05.0|pci:00:05.0:2|pci:0000:00:05.0:6\
             |pci:0000:00:05.8:0|pci:0000:00:20.0:0|pci:0000:00:05.0:2:wb|pci:0000:00:05.0:2:wc:1|pci:0000:0:05.0:2|fpga-sim:1|hôst";
        for text in bad.split('|') {
            let error = text.parse::<MemoryKind>().expect_err(text).to_string();
            assert!(error.contains(&format!("'{text}'")) && error.contains("gpu:N:host"), "{error}");
        }
    }
}
