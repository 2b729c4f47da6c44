//! `zsr-switch trace`: what the packets of a file meet in a program, without a running switch.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};
use zsr_bmv2_runtime::State;
use zsr_soft_switch::{Switch, SwitchConfig};
use zsr_wire::frame::{Frame, FramePool, MAX_FRAME};

use crate::commands;
use crate::run::{Error, failed, load, usage};

/// Bytes of the file that are read at a time; a block of it must fit.
const BUFFER: usize = 1 << 18;

/// Show what the packets of a capture meet in a program: parser states, headers, tables, statements
#[derive(Debug, ClapArgs)]
pub(crate) struct Trace {
    /// The packets: a capture of Ethernet frames, pcap or pcapng
    #[arg(value_name = "PACKETS.pcap")]
    packets: PathBuf,
    /// The program: JSON that p4c-bm2-ss made
    #[arg(value_name = "PROGRAM.json")]
    program: PathBuf,
    /// Entries, registers, groups: a file of commands of simple_switch_CLI
    #[arg(value_name = "COMMANDS")]
    commands: Option<PathBuf>,
    /// The port by which the packets come in
    #[arg(long, value_name = "PORT", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=510))]
    port: u16,
    /// The value of egress_spec that drops a packet
    #[arg(long, value_name = "PORT", default_value_t = 511)]
    drop_port: u16,
}

/// A packet of the capture, and when it came.
struct Packet {
    at_ns: u64,
    bytes: Vec<u8>,
}

/// Writes to standard output what each packet meets.
pub(crate) fn run(trace: &Trace) -> Result<(), Error> {
    let program = load(&trace.program, true)?;
    let config = SwitchConfig { drop_port: trace.drop_port, trace: true, ..SwitchConfig::default() };
    let mut switch = Switch::new(&program, config);
    if let Some(path) = &trace.commands {
        commands::run(path, &mut switch, &mut State::default()).map_err(usage)?;
    }
    let packets = read(&trace.packets)?;
    let (mut pool, mut left) = (FramePool::with_frames(16), Vec::new());
    let mut out = BufWriter::new(std::io::stdout().lock());
    let first_ns = packets.first().map_or(0, |packet| packet.at_ns);
    for (i, packet) in packets.iter().enumerate() {
        let Some(frame) = Frame::copy_from(&packet.bytes) else {
            let len = packet.bytes.len();
            return Err(failed(format_args!("packet {}: {len} bytes; at most {MAX_FRAME} fit", i + 1)));
        };
        // A capture's packets may stand in another order; the switch's time only grows.
        let now = packet.at_ns.saturating_sub(first_ns).max(switch.now_ns());
        let told = writeln!(out, "packet {} at {:.6} s", i + 1, now as f64 / 1e9);
        switch.process(now, trace.port, frame, &mut pool, &mut left);
        let lines = switch.take_trace();
        let told = told.and_then(|()| lines.iter().try_for_each(|line| writeln!(out, "{line}")));
        left.drain(..).for_each(|(_, frame)| pool.put(frame));
        match told {
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            told => told.map_err(|e| failed(format_args!("standard output: {e}")))?,
        }
    }
    out.flush().or_else(|e| match e.kind() {
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(failed(format_args!("standard output: {e}"))),
    })
}

fn read(path: &Path) -> Result<Vec<Packet>, Error> {
    let wrong = |what: String| usage(format_args!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
    let no_capture = |_| wrong("this is no capture: pcap and pcapng are read".into());
    let mut reader = create_reader(BUFFER, file).map_err(no_capture)?;
    let (mut packets, mut interfaces) = (Vec::new(), Vec::new());
    let mut unit_ns = 1000;
    loop {
        let used = match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        unit_ns = if header.is_nanosecond_precision() { 1 } else { 1000 };
                        ethernet(header.network).map_err(wrong)?;
                    }
                    PcapBlockOwned::Legacy(packet) => {
                        let at = u64::from(packet.ts_sec) * 1_000_000_000;
                        let at_ns = at + u64::from(packet.ts_usec) * unit_ns;
                        let whole = packet.caplen >= packet.origlen;
                        packets.push(taken(at_ns, packet.data, whole, packets.len()).map_err(wrong)?);
                    }
                    PcapBlockOwned::NG(block) => {
                        if let Some(packet) =
                            next_generation(&block, &mut interfaces, packets.len()).map_err(wrong)?
                        {
                            packets.push(packet);
                        }
                    }
                }
                used
            }
            Err(PcapError::Eof) => return Ok(packets),
            Err(PcapError::UnexpectedEof) => {
                return Err(wrong(format!("packet {}: the file ends within it", packets.len() + 1)));
            }
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|e| wrong(format!("packet {}: {e:?}", packets.len() + 1)))?;
                continue;
            }
            Err(e) => {
                return Err(wrong(format!("behind packet {} the file is damaged ({e:?})", packets.len())));
            }
        };
        reader.consume(used);
    }
}

/// Nanoseconds of a unit of time, for each interface of a capture in the newer format.
fn next_generation(
    block: &pcap_parser::pcapng::Block<'_>,
    interfaces: &mut Vec<u128>,
    before: usize,
) -> Result<Option<Packet>, String> {
    use pcap_parser::pcapng::Block;
    match block {
        Block::SectionHeader(_) => interfaces.clear(),
        Block::InterfaceDescription(interface) => {
            ethernet(interface.linktype)?;
            interfaces.push(interface.ts_resolution().unwrap_or(1_000_000).max(1).into());
        }
        Block::EnhancedPacket(packet) => {
            let per_s = interfaces.get(packet.if_id as usize).copied().unwrap_or(1_000_000);
            let units = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
            let at_ns = u64::try_from(units * 1_000_000_000 / per_s).unwrap_or(u64::MAX);
            let data = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
            return taken(at_ns, data, packet.caplen >= packet.origlen, before).map(Some);
        }
        Block::SimplePacket(packet) => {
            let data = packet.data.get(..packet.origlen as usize).unwrap_or(packet.data);
            return taken(0, data, data.len() >= packet.origlen as usize, before).map(Some);
        }
        _ => {}
    }
    Ok(None)
}

fn taken(at_ns: u64, data: &[u8], whole: bool, before: usize) -> Result<Packet, String> {
    match whole {
        true => Ok(Packet { at_ns, bytes: data.to_vec() }),
        false => Err(format!("packet {} was cut when it was captured", before + 1)),
    }
}

fn ethernet(kind: pcap_parser::Linktype) -> Result<(), String> {
    match kind {
        pcap_parser::Linktype::ETHERNET => Ok(()),
        other => Err(format!("link type {}: only Ethernet frames are read", other.0)),
    }
}
