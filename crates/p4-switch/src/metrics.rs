//! `--metrics`: counters of the running switch, for Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use zsr_bmv2_runtime::{Host, PortInfo};
use zsr_soft_switch::{PortStats, Stats, Switch, SwitchHandle, TableId};

use crate::ports::SwitchPorts;

const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a scrape has.
#[derive(Debug)]
struct Figures {
    stats: Stats,
    ports: Vec<(PortInfo, PortStats)>,
    /// Packets that wait to leave, by port as above.
    waiting: Vec<u32>,
    /// Frames that were lost behind the program, by port.
    lost: BTreeMap<u16, u64>,
    /// Name, entries, and most entries of each table with a key.
    tables: Vec<(String, usize, usize)>,
}

#[derive(Clone)]
struct Source {
    switch: SwitchHandle,
    ports: Arc<SwitchPorts>,
}

/// Answers scrapes at `listener`, for as long as the runtime runs.
pub(crate) fn serve(listener: TcpListener, switch: SwitchHandle, ports: Arc<SwitchPorts>) {
    let app = Router::new().route("/metrics", get(scrape)).with_state(Source { switch, ports });
    tokio::spawn(async move { axum::serve(listener, app).await });
}

/// Listens at an address of this machine: everybody who gets there reads.
pub(crate) async fn bind(at: SocketAddr) -> Result<TcpListener, String> {
    if !at.ip().is_loopback() {
        return Err(
            "answers go out in clear and to anybody, so only addresses of this machine will do".into()
        );
    }
    TcpListener::bind(at).await.map_err(|e| e.to_string())
}

async fn scrape(State(source): State<Source>) -> Response {
    let (ports, lost) = (source.ports.ports(), source.ports.lost());
    let looked = source.switch.call(move |switch| Figures::of(switch, ports, lost)).await;
    let Ok(figures) = looked else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the switch has stopped\n").into_response();
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(figures));
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => (StatusCode::OK, [(header::CONTENT_TYPE, KIND)], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")).into_response(),
    }
}

impl Figures {
    fn of(switch: &mut Switch, ports: Vec<PortInfo>, lost: BTreeMap<u16, u64>) -> Figures {
        let waiting = ports.iter().map(|port| switch.queue_depth(port.number)).collect();
        let ports = ports.into_iter().map(|port| {
            let stats = switch.port_stats(port.number);
            (port, stats)
        });
        let tables = switch.info().tables.iter().enumerate().filter(|(_, table)| !table.keys.is_empty());
        let sized = tables.map(|(i, table)| {
            (table.name.clone(), switch.table_len(TableId(i as u32)).unwrap_or(0), table.size)
        });
        Figures { stats: switch.stats(), ports: ports.collect(), waiting, lost, tables: sized.collect() }
    }

    /// Names of causes, and how many packets were lost for each.
    fn drops(&self) -> [(&'static str, u64); 8] {
        let stats = &self.stats;
        [
            ("ingress", stats.ingress_drops),
            ("egress", stats.egress_drops),
            ("recirculation", stats.recirculation_drops),
            ("multicast-without-group", stats.multicast_without_group),
            ("priority", stats.priority_drops),
            ("unknown-port", stats.unknown_port_drops),
            ("oversize", stats.oversize_drops),
            ("assert", stats.assert_drops),
        ]
    }

    /// Names of events, and how often they happened.
    fn events(&self) -> [(&'static str, u64); 9] {
        let stats = &self.stats;
        [
            ("parser-error", stats.parser_errors),
            ("checksum-error", stats.checksum_errors),
            ("recirculation", stats.recirculations),
            ("resubmission", stats.resubmissions),
            ("clone", stats.clones),
            ("replica", stats.replicas),
            ("assert-failed", stats.assert_failures),
            ("bad-index", stats.bad_indices),
            ("notification-lost", stats.notifications_dropped),
        ]
    }
}

/// A counter with its samples.
fn counters<'a, const N: usize>(
    out: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    samples: impl IntoIterator<Item = ([(&'a str, &'a str); N], u64)>,
) -> fmt::Result {
    let mut encoder = out.encode_descriptor(name, help, None, ConstCounter::new(0_u64).metric_type())?;
    samples
        .into_iter()
        .try_for_each(|(labels, value)| ConstCounter::new(value).encode(encoder.encode_family(&labels)?))
}

/// A gauge with its samples.
fn gauges<'a>(
    out: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    samples: impl IntoIterator<Item = ([(&'a str, &'a str); 1], i64)>,
) -> fmt::Result {
    let mut encoder = out.encode_descriptor(name, help, None, ConstGauge::new(0_i64).metric_type())?;
    samples
        .into_iter()
        .try_for_each(|(labels, value)| ConstGauge::new(value).encode(encoder.encode_family(&labels)?))
}

impl Collector for Figures {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut out;
        let numbers: Vec<String> = self.ports.iter().map(|(port, _)| port.number.to_string()).collect();
        type Of = fn(&PortStats) -> u64;
        for (name, help, of) in [
            ("p4_port_received_packets", "Frames that came in", (|port| port.rx_packets) as Of),
            ("p4_port_received_bytes", "Bytes of the frames that came in", |port| port.rx_bytes),
            ("p4_port_sent_packets", "Frames that the program sent", |port| port.tx_packets),
            ("p4_port_sent_bytes", "Bytes of the frames that the program sent", |port| port.tx_bytes),
            (
                "p4_port_dropped_packets",
                "Packets that were dropped between ports, by the one they were at",
                |port| port.drops,
            ),
        ] {
            let samples = self.ports.iter().zip(&numbers).map(|((port, stats), number)| {
                ([("port", number.as_str()), ("interface", port.interface.as_str())], of(stats))
            });
            counters(out, (name, help), samples)?;
        }
        let lost = self.ports.iter().zip(&numbers).map(|((port, _), number)| {
            let lost = self.lost.get(&port.number).copied().unwrap_or_default();
            ([("port", number.as_str()), ("interface", port.interface.as_str())], lost)
        });
        counters(
            out,
            (
                "p4_port_lost_packets",
                "Frames lost at the port: a full queue, the interface, a thread that is behind",
            ),
            lost,
        )?;
        let up = self.ports.iter().zip(&numbers);
        let up = up.map(|((port, _), number)| ([("port", number.as_str())], i64::from(port.is_up)));
        gauges(out, ("p4_port_up", "Whether frames pass the port's interface"), up)?;
        let waiting = numbers.iter().zip(&self.waiting);
        let waiting = waiting.map(|(number, packets)| ([("port", number.as_str())], i64::from(*packets)));
        gauges(out, ("p4_port_waiting_packets", "Packets that wait to leave by the port"), waiting)?;
        let drops = self.drops();
        let drops = drops.iter().map(|(cause, packets)| ([("cause", *cause)], *packets));
        counters(out, ("p4_dropped_packets", "Packets that were dropped"), drops)?;
        let events = self.events();
        let events = events.iter().map(|(event, times)| ([("event", *event)], *times));
        counters(out, ("p4_events", "What happened to packets"), events)?;
        let entries =
            self.tables.iter().map(|(name, entries, _)| ([("table", name.as_str())], *entries as i64));
        gauges(out, ("p4_table_entries", "Entries in the table"), entries)?;
        let sizes = self.tables.iter().map(|(name, _, size)| ([("table", name.as_str())], *size as i64));
        gauges(out, ("p4_table_size", "Most entries of the table"), sizes)
    }
}
