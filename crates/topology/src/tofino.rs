//! A Tofino as a topology names it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::build::Builder;
use super::lanes;
use super::model::Switch;
use super::pipes::Pipes;
use super::read::Table;

/// Where a Tofino is, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tofino {
    /// The generation of the chip.
    pub chip: Chip,
    /// The API of its control server.
    pub api: TofinoApi,
    /// The address of the control server.
    pub address: SocketAddr,
    /// The program's name on the switch (BF Runtime).
    pub program: String,
    /// How ports are set up; `None`: they are somebody else's affair.
    pub ports: Option<PortSetup>,
    /// Device ports in loopback, which share what goes from one half of ingress to the other (p4/arch/tna/folded.p4); none:
    /// [`Chip::port_fold`] takes it all.
    pub loops: Vec<u32>,
}

/// A generation of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Chip {
    /// Tofino 1 (tna).
    Tofino,
    /// Tofino 2 (t2na).
    Tofino2,
}

/// A control API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TofinoApi {
    /// The API of the chip's driver (`bf_switchd`).
    BfRuntime,
    /// As Stratum serves it.
    P4Runtime,
}

/// How the ports of links are set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSetup {
    /// Gigabits per second.
    pub speed: u32,
    /// Forward error correction.
    pub fec: Fec,
    /// Lanes of a port.
    pub lanes: u32,
    /// Autonegotiation; `None`: as the cable has it.
    pub autoneg: Option<bool>,
}

/// Forward error correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fec {
    /// None.
    None,
    /// Fire code.
    Firecode,
    /// Reed-Solomon.
    ReedSolomon,
}

impl Chip {
    /// The device port that leads back into the pipeline, and that packets of the packet generator come in at
    /// (p4/arch/tna/ops.p4: `PORT_RECIRCULATE`).
    pub fn port_again(self) -> u32 {
        match self {
            Chip::Tofino => 68,
            Chip::Tofino2 => 6,
        }
    }

    /// The recirculation port between the two pipes that ingress takes, where one pipe does not hold it (p4/arch/tna/ops.p4:
    /// `PORT_FOLD`).
    pub fn port_fold(self) -> Option<u32> {
        match self {
            Chip::Tofino => Some(196),
            Chip::Tofino2 => None,
        }
    }

    /// Device ports of cables in pipe 0; those of another pipe follow from them ([`Pipes`](super::Pipes)).
    pub fn ports(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Chip::Tofino => 1..=63,
            Chip::Tofino2 => 8..=71,
        }
    }

    /// Device ports that can be loops: those of the pipes that have the other half of ingress.
    pub fn loops(self) -> Option<[std::ops::RangeInclusive<u32>; 2]> {
        match self {
            Chip::Tofino => Some([129..=191, 385..=447]),
            Chip::Tofino2 => None,
        }
    }

    /// Gigabits per second of a pipe's recirculation port.
    pub fn recirculation(self) -> u32 {
        match self {
            Chip::Tofino => 100,
            Chip::Tofino2 => 400,
        }
    }

    /// Applications of the packet generator.
    pub fn generators(self) -> u32 {
        match self {
            Chip::Tofino => 8,
            Chip::Tofino2 => 16,
        }
    }

    /// The chip's name.
    pub fn name(self) -> &'static str {
        match self {
            Chip::Tofino => "tofino",
            Chip::Tofino2 => "tofino2",
        }
    }
}

/// Keys of a switch that go with kind: tofino.
pub(super) const KEYS: [&str; 6] = ["chip", "api", "program", "ports", "loops", "device_id"];
/// As many as the program shares workers among (table `ways`).
const MAX_LOOPS: usize = 16;
/// Gigabits per second that a port can have.
const SPEEDS: [(&str, u32); 7] =
    [("10G", 10), ("25G", 25), ("40G", 40), ("50G", 50), ("100G", 100), ("200G", 200), ("400G", 400)];
const CORRECTIONS: [(&str, Fec); 3] = [("none", Fec::None), ("fc", Fec::Firecode), ("rs", Fec::ReedSolomon)];

impl Builder<'_> {
    /// Reads a Tofino's entry beside `kind`; `None` when something is wrong, which was said.
    pub(crate) fn tofino(&mut self, table: &Table<'_>) -> Option<Tofino> {
        if table.get("chip").is_none() {
            let message = format!("{} does not say which chip it is", table.what);
            self.reader.error(table.place, message, "chip: tofino or tofino2");
        }
        let chips = [("tofino", Chip::Tofino), ("tofino2", Chip::Tofino2)];
        let chip = self.reader.choice(table, "chip", &chips).map(|at| at.value);
        let apis = [("bfrt", TofinoApi::BfRuntime), ("p4runtime", TofinoApi::P4Runtime)];
        let api = self.reader.choice(table, "api", &apis).map_or(TofinoApi::BfRuntime, |at| at.value);
        let address = self.address(table, "address").map(|at| at.value);
        if table.get("address").is_none() {
            let message = format!("{} runs already, and does not say where", table.what);
            self.reader.error(
                table.place,
                message,
                "address: IP:PORT of its control server (bf_switchd: port 50052)",
            );
        }
        if api == TofinoApi::P4Runtime {
            for (key, is_there, expected) in [
                (
                    "artifacts",
                    table.get("artifacts").is_none(),
                    "artifacts: folder with p4info.txtpb and device.bin",
                ),
                ("ports", table.get("ports").is_some(), "no ports: P4Runtime has no way to set them up"),
                ("loops", table.get("loops").is_some(), "no loops: they are set up by BF Runtime"),
                (
                    "program",
                    table.get("program").is_some(),
                    "no program: P4Runtime has one program per switch",
                ),
            ] {
                if is_there {
                    let message =
                        format!("{} speaks P4Runtime, which '{key}' does not go with so", table.what);
                    self.reader.error(table.place_of(key), message, expected);
                }
            }
        }
        let name = |t: &str| (!t.is_empty() && t.len() < 64).then(|| t.to_owned());
        let program = self.reader.opt(table, "program", "the program's name on the switch", name);
        let program = program.map_or_else(|| "zsr".to_owned(), |at| at.value);
        let ports = chip.and_then(|chip| self.port_setup(table, chip));
        let pipes = table.get("pipes").and_then(|_| self.reader.integer(table, "pipes", 1..=4));
        let loops = self.loops(table, chip, pipes.map_or(1, |at| at.value));
        Some(Tofino { chip: chip?, api, address: address?, program, ports, loops })
    }

    fn loops(&mut self, table: &Table<'_>, chip: Option<Chip>, pipes: u64) -> Vec<u32> {
        let nodes = self.reader.items(table, "loops", "device ports in loopback");
        let Some(chip) = chip else { return Vec::new() };
        let Some([first, second]) = chip.loops() else {
            if table.get("loops").is_some() {
                let message = format!("{} has one pipe for all of ingress, and so no loops", table.what);
                self.reader.error(table.place_of("loops"), message, "no loops");
            }
            return Vec::new();
        };
        let show =
            |range: &std::ops::RangeInclusive<u32>| format!("from {} to {}", range.start(), range.end());
        let (ranges, expected) = match pipes {
            4 => {
                let expected = format!(
                    "device ports of pipes 1 and 3, each once, {}, or {}",
                    show(&first),
                    show(&second)
                );
                (vec![first, second], expected)
            }
            _ => (vec![first.clone()], format!("device ports of pipe 1, each once, {}", show(&first))),
        };
        let is_loop = |port: &u32| ranges.iter().any(|range| range.contains(port));
        let mut found = Vec::new();
        for node in nodes {
            let what = format!("a loop of {}", table.what);
            let Some(text) = self.reader.text(node, &what, &expected) else { continue };
            match text.parse().ok().filter(|port| is_loop(port) && !found.contains(port)) {
                Some(port) => found.push(port),
                None => self.reader.error(node.place, format!("{what} is '{text}'"), &*expected),
            }
        }
        if found.len() > MAX_LOOPS {
            let message = format!("{} has {} loops", table.what, found.len());
            self.reader.error(table.place_of("loops"), message, format!("at most {MAX_LOOPS}"));
        }
        found
    }

    fn port_setup(&mut self, table: &Table<'_>, chip: Chip) -> Option<PortSetup> {
        let node = table.get("ports")?;
        let what = format!("ports of {}", table.what);
        let ports = self.reader.table(node, &what, &["speed", "fec", "lanes", "autoneg"])?;
        let speed = self.reader.choice(&ports, "speed", &SPEEDS).map_or(100, |at| at.value);
        let possible = lanes::lanes(chip, speed);
        let Some(&usual) = possible.first() else {
            let message = format!("{what} have {speed}G, which a {} has not", chip.name());
            let speeds = SPEEDS.iter().filter(|(_, speed)| !lanes::lanes(chip, *speed).is_empty());
            let speeds: Vec<_> = speeds.map(|(word, _)| *word).collect();
            self.reader.error(ports.place_of("speed"), message, format!("one of {}", speeds.join(", ")));
            return None;
        };
        let lanes = self.reader.integer(&ports, "lanes", 1..=8).map_or(usual, |at| at.value as u32);
        if !possible.contains(&lanes) {
            let message = format!("{what} have {speed}G over {lanes} lanes, which a {} has not", chip.name());
            let possible: Vec<_> = possible.iter().map(ToString::to_string).collect();
            self.reader.error(ports.place_of("lanes"), message, format!("lanes: {}", possible.join(" or ")));
            return None;
        }
        let corrections = lanes::corrections(chip, speed, lanes);
        let fec = self.reader.choice(&ports, "fec", &CORRECTIONS).map_or(corrections[0], |at| at.value);
        if !corrections.contains(&fec) {
            let words = CORRECTIONS.iter().filter(|(_, fec)| corrections.contains(fec));
            let words: Vec<_> = words.map(|(word, _)| *word).collect();
            let message =
                format!("{what} have {speed}G over {lanes} lanes, which does not go with this 'fec'");
            self.reader.error(ports.place_of("fec"), message, format!("fec: {}", words.join(" or ")));
        }
        let autoneg = [("on", Some(true)), ("off", Some(false)), ("default", None)];
        let autoneg = self.reader.choice(&ports, "autoneg", &autoneg).and_then(|at| at.value);
        Some(PortSetup { speed, fec, lanes, autoneg })
    }

    /// Reports links that lead to lanes at which no port begins.
    pub(crate) fn tofino_lanes(&mut self) {
        let mut found = Vec::new();
        for (number, switch) in self.topology.switches.iter().enumerate() {
            let Some(tofino) = switch.kind.tofino() else { continue };
            let Some(lanes) = tofino.ports.as_ref().map(|setup| setup.lanes) else { continue };
            let links = self.topology.links.iter().filter(|l| l.switch == number);
            let all = links.map(|l| (l.place, l.port)).chain(tofino.loops.iter().map(|p| (switch.place, *p)));
            let wrong = all.filter(|(_, port)| !port.is_multiple_of(lanes));
            found.extend(wrong.map(|(place, port)| {
                let name = &switch.name;
                let message =
                    format!("no port of {lanes} lanes begins at device port {port} of switch '{name}'");
                (place, message, format!("a device port that is a multiple of {lanes}"))
            }));
        }
        for (place, message, expected) in found {
            self.reader.error(place, message, expected);
        }
    }

    /// Reports links that lead to ports which a Tofino does not have.
    pub(crate) fn tofino_ports(&mut self) {
        let wrong = |switch: &Switch, port: u32| {
            let (chip, pipes) = (switch.kind.tofino()?.chip, switch.pipes);
            let is_one = pipes.take(port) && chip.ports().contains(&pipes.local(port));
            (!is_one).then_some(chip)
        };
        let mut found = Vec::new();
        for link in &self.topology.links {
            let switch = &self.topology.switches[link.switch];
            if let Some(chip) = wrong(switch, link.port) {
                let message = format!(
                    "device port {} of switch '{}' is no port for cables in {} of a {}",
                    link.port,
                    switch.name,
                    pipes_of(&switch.pipes),
                    chip.name()
                );
                let range = |pipe| {
                    let [first, last] =
                        [chip.ports().start(), chip.ports().end()].map(|p| Pipes::port_in(pipe, *p));
                    format!("{first} to {last}")
                };
                let ranges: Vec<_> = switch.pipes.with_hosts().map(range).collect();
                let expected = format!("to: {}:PORT, PORT from {}", switch.name, ranges.join(", or from "));
                found.push((link.place, message, expected));
            }
            if switch.kind.tofino().is_some_and(|tofino| tofino.loops.contains(&link.port)) {
                let message =
                    format!("device port {} of switch '{}' is one of its loops", link.port, switch.name);
                found.push((link.place, message, "a port that 'loops' does not have".into()));
            }
        }
        for (place, message, expected) in found {
            self.reader.error(place, message, expected);
        }
    }
}

/// The pipes that take hosts.
fn pipes_of(pipes: &Pipes) -> String {
    let numbers: Vec<String> = pipes.with_hosts().map(|pipe| pipe.to_string()).collect();
    match numbers.as_slice() {
        [only] => format!("pipe {only}"),
        several => format!("pipes {}", several.join(", ")),
    }
}
