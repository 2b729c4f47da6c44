//! Settings of the chip beside the program's entries: ports, copies that a flooded frame leaves out, recirculation, and
//! the packet generator. The generator makes ticks all the time. It also makes the controller's packets one by one,
//! since BF Runtime has no packet-out.

use super::BfrtError;
use super::groups::update;
use super::info::Info;
use super::proto as bf;
use super::row::{Row, Value, data, keys, only_key};
use bf::data_field::Value as Wire;
use bf::update::Type;
use zsr_plan::dataplane::admin;
use zsr_plan::dataplane::ticks::TimerPacket;
use zsr_topology::{Chip, Fec, Pipes, PortSetup};

pub(super) const PORT: &str = "$PORT";
pub(super) const WAYS: &str = "ways";
pub(super) const LOOPS: &str = "FoldParser.loops";
pub(super) const RECIRCULATION: &str = "pktgen.port_cfg";
const GENERATOR: &str = "pktgen.app_cfg";
const BUFFER: &str = "pktgen.pkt_buffer";
const PRUNE: &str = "$pre.prune";
/// Bytes that the generator puts in front of a packet: they take the place of the destination address.
const GENERATOR_HEADER: usize = 6;
/// Packets lie in the generator's buffer at multiples of 16 bytes. Each application has a place of its own, and fills
/// it with its packet: the driver of a Tofino 2 refuses packets of fewer than 59 bytes, and an internal frame has 58
/// here.
const PLACE: u32 = 64;
/// Position and value of the EtherType there (p4/arch/tna/parser.p4): the parser removes the bytes that fill the place.
const ETHERTYPE: std::ops::Range<usize> = 12 - GENERATOR_HEADER..14 - GENERATOR_HEADER;
const ETHERTYPE_GENERATED: [u8; 2] = [0x88, 0xb6];
/// Bytes around the payload of a path MTU, generously: RoCE, Ethernet, and the header between the halves of ingress.
const AROUND_MTU: u32 = 200;
/// Number of parts into which workers are divided: by the lowest bits of their numbers.
const SHARES: u64 = 16;

/// A port to be made.
pub(super) struct Port {
    /// The port's number on the device.
    pub number: u32,
    /// Path MTU of packets through the port, bytes.
    pub mtu: u32,
    /// Whether packets that the port sends come in there.
    pub loops: bool,
}

/// Makes ports. `there` are those that exist already.
pub(super) fn ports(
    info: &Info,
    setup: &PortSetup,
    ports: impl Iterator<Item = Port>,
    there: &[bf::TableEntry],
) -> Result<Vec<bf::Update>, BfrtError> {
    let speed = format!("BF_SPEED_{}G", setup.speed);
    let fec = match setup.fec {
        Fec::None => "BF_FEC_TYP_NONE",
        Fec::Firecode => "BF_FEC_TYP_FIRECODE",
        Fec::ReedSolomon => "BF_FEC_TYP_REED_SOLOMON",
    };
    let autoneg = match setup.autoneg {
        None => "PM_AN_DEFAULT",
        Some(true) => "PM_AN_FORCE_ENABLE",
        Some(false) => "PM_AN_FORCE_DISABLE",
    };
    let port = |Port { number, mtu, loops }| {
        // The driver takes the speed of a port only when it makes the port.
        let exists = there.iter().any(|e| only_key(e) == Some(u64::from(number)));
        let mut row = Row::of(info, PORT)?.key("$DEV_PORT", u64::from(number))?;
        if !exists {
            row = row
                .with("$SPEED", Value::Text(&speed))?
                .with("$FEC", Value::Text(fec))?
                .with("$N_LANES", Value::Number(setup.lanes.into()))?
                .with("$AUTO_NEGOTIATION", Value::Text(autoneg))?;
        }
        if loops {
            row = row.with("$LOOPBACK_MODE", Value::Text("BF_LPBK_MAC_NEAR"))?;
        }
        let bytes = u64::from(mtu + AROUND_MTU);
        let row = row.with("$TX_MTU", Value::Number(bytes))?.with("$RX_MTU", Value::Number(bytes))?;
        let kind = if exists { Type::Modify } else { Type::Insert };
        Ok(update(kind, row.with("$PORT_ENABLE", Value::Bool(true))?.entry()))
    };
    ports.map(port).collect()
}

/// Has the parser treat packets at `loops`, and no others, as sent there by the chip itself; `there` are the present
/// entries.
pub(super) fn loops(
    info: &Info,
    loops: &[u32],
    there: &[bf::TableEntry],
) -> Result<Vec<bf::Update>, BfrtError> {
    let entry = |port: u32| Ok(Row::of(info, LOOPS)?.masked("f1", port.into())?.entry());
    let known: Vec<u32> = there.iter().filter_map(only_key).map(|port| port as u32).collect();
    let gone = known.iter().filter(|port| !loops.contains(port)).map(|&port| (Type::Delete, port));
    let new = loops.iter().filter(|port| !known.contains(port)).map(|&port| (Type::Insert, port));
    gone.chain(new).map(|(kind, port)| Ok(update(kind, entry(port)?))).collect()
}

/// Shares workers among `loops`, or gives them all to the chip's own loop; `there` are the present entries.
pub(super) fn ways(
    info: &Info,
    own: u32,
    pipes: Pipes,
    loops: &[u32],
    there: &[bf::TableEntry],
) -> Result<Vec<bf::Update>, BfrtError> {
    let mut out = Vec::new();
    for home in pipes.homes() {
        // Loops are in the pipe behind.
        let own = [Pipes::port_in(home, own)];
        let of_half: Vec<u32> =
            loops.iter().copied().filter(|port| pipes.of_port(*port) == pipes.of_port(own[0])).collect();
        let of_half = if of_half.is_empty() { &own[..] } else { &of_half };
        for (worker, &port) in (0..SHARES).zip(of_half.iter().cycle()) {
            let half = u64::from(home / 2);
            let row = Row::of(info, WAYS)?.key("half", half)?.key("worker", worker)?.action("way")?;
            let entry = row.with("port", Value::Number(port.into()))?.entry();
            match there.iter().find(|e| keys(e) == keys(&entry)) {
                None => out.push(update(Type::Insert, entry)),
                Some(now) if data(info, now, "port") == data(info, &entry, "port") => {}
                Some(_) => out.push(update(Type::Modify, entry)),
            }
        }
    }
    Ok(out)
}

/// The id that stands for a port of a cable among those that a flooded frame leaves out (p4/arch/tna:
/// `level2_exclusion_id`). It is made of the number of the port's pipe, and the lower six bits of its own, as the
/// driver takes ids up to 287.
fn exclusion(port: u32) -> u32 {
    (port >> 7) << 6 | port & 63
}

/// Keeps a copy of a flooded frame from going back to the port where the frame came from.
pub(super) fn prunes(info: &Info, ports: impl Iterator<Item = u32>) -> Result<Vec<bf::Update>, BfrtError> {
    let prune = |port: u32| {
        let row = Row::of(info, PRUNE)?.key("$MULTICAST_L2_XID", exclusion(port).into())?;
        // There is always an entry: the driver takes an insertion as its new value.
        Ok(update(Type::Insert, row.with("$DEV_PORT", Value::Numbers(vec![port]))?.entry()))
    };
    ports.map(prune).collect()
}

/// A port that recirculates, and whether it takes the generator's packets, too.
pub(super) type Recirculating = (u32, bool);

/// The recirculating ports of the program. Its generator is in the first pipe.
pub(super) fn recirculating(chip: Chip, pipes: Pipes) -> impl Iterator<Item = Recirculating> {
    pipes.homes().flat_map(move |home| {
        let again = (Pipes::port_in(home, chip.port_again()), home == 0);
        let fold = chip.port_fold().map(|port| (Pipes::port_in(home, port), false));
        std::iter::once(again).chain(fold)
    })
}

/// The entity that reads such a port.
pub(super) fn recirculation_port(info: &Info, (port, _): Recirculating) -> Result<bf::TableEntry, BfrtError> {
    Ok(Row::of(info, RECIRCULATION)?.key("dev_port", port.into())?.entry())
}

/// The updates by which that port, which is `now`, recirculates, as far as necessary.
pub(super) fn recirculation(
    info: &Info,
    (port, generates): Recirculating,
    now: Option<&bf::TableEntry>,
) -> Result<Vec<bf::Update>, BfrtError> {
    let mut out = Vec::new();
    for name in ["recirculation_enable", "pktgen_enable"].into_iter().take(1 + usize::from(generates)) {
        if now.and_then(|e| data(info, e, name)) != Some(&Wire::BoolVal(true)) {
            let row = Row::of(info, RECIRCULATION)?.key("dev_port", port.into())?;
            out.push(update(Type::Modify, row.with(name, Value::Bool(true))?.entry()));
        }
    }
    Ok(out)
}

/// The applications that make timer packets, from number 0.
pub(super) fn timers(info: &Info, chip: Chip, packets: &[TimerPacket]) -> Result<Vec<bf::Update>, BfrtError> {
    let mut out = Vec::new();
    for (app, packet) in packets.iter().enumerate() {
        out.extend(generate(info, chip, app as u32, &packet.packet, Some(packet.every))?);
    }
    Ok(out)
}

/// Stops all applications.
pub(super) fn silence(info: &Info, chip: Chip) -> Result<Vec<bf::Update>, BfrtError> {
    (0..chip.generators()).map(|app| enable(info, app, false)).collect()
}

/// Sends `packet` by application `app`: once, or again and again.
pub(super) fn generate(
    info: &Info,
    chip: Chip,
    app: u32,
    packet: &[u8],
    every: Option<std::time::Duration>,
) -> Result<Vec<bf::Update>, BfrtError> {
    debug_assert_eq!(packet.len(), admin::FRAME);
    let mut body = packet.get(GENERATOR_HEADER..).unwrap_or_default().to_vec();
    body.resize(PLACE as usize, 0);
    body[ETHERTYPE].copy_from_slice(&ETHERTYPE_GENERATED);
    let place = u64::from(app * PLACE);
    let length = body.len() as u64;
    let (action, nanoseconds) = match every {
        // The chip's longest interval; ticks may come early.
        Some(every) => ("trigger_timer_periodic", every.as_nanos().clamp(1, u32::MAX.into()) as u64),
        None => ("trigger_timer_one_shot", 1),
    };
    let buffer = Row::of(info, BUFFER)?
        .key("pkt_buffer_offset", place)?
        .key("pkt_buffer_size", length)?
        .with("buffer", Value::Bytes(body))?;
    let mut row = Row::of(info, GENERATOR)?
        .key("app_id", app.into())?
        .action(action)?
        .with("timer_nanosec", Value::Number(nanoseconds))?
        .with("app_enable", Value::Bool(false))?
        .with("pkt_len", Value::Number(length))?
        .with("pkt_buffer_offset", Value::Number(place))?
        .with("pipe_local_source_port", Value::Number(chip.port_again().into()))?
        .with("increment_source_port", Value::Bool(false))?;
    // A single packet: these fields count from 0.
    for name in ["batch_count_cfg", "packets_per_batch_cfg", "ibg", "ibg_jitter", "ipg", "ipg_jitter"] {
        row = row.with(name, Value::Number(0))?;
    }
    if chip == Chip::Tofino2 {
        row = row.with("assigned_chnl_id", Value::Number(chip.port_again().into()))?;
    }
    // An application that was enabled does not begin again by itself.
    Ok(vec![
        enable(info, app, false)?,
        update(Type::Modify, buffer.entry()),
        update(Type::Modify, row.entry()),
        enable(info, app, true)?,
    ])
}

fn enable(info: &Info, app: u32, is: bool) -> Result<bf::Update, BfrtError> {
    let row = Row::of(info, GENERATOR)?.key("app_id", app.into())?;
    Ok(update(Type::Modify, row.with("app_enable", Value::Bool(is))?.entry()))
}
