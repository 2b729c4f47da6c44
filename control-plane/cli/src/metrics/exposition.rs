//! What a controller says of its system, as OpenMetrics text.

use std::fmt;
use std::mem::replace;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use zsr_api::controller as proto;
use zsr_ring::latency::{BUCKETS, upper_us};

/// Answers of a controller.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub(crate) system: proto::System,
    pub(crate) flows: Vec<proto::Flow>,
    pub(crate) stats: proto::Stats,
}

/// States of a flow, as a label.
const STATES: [(proto::FlowState, &str); 7] = [
    (proto::FlowState::Creating, "creating"),
    (proto::FlowState::Running, "running"),
    (proto::FlowState::Stalled, "stalled"),
    (proto::FlowState::Impaired, "impaired"),
    (proto::FlowState::Failed, "failed"),
    (proto::FlowState::Ended, "ended"),
    (proto::FlowState::Deleting, "deleting"),
];

/// A scrape as Prometheus' own text, version 0.0.4, which node_exporter and promtool read: names of counters end with `_total` there.
pub(super) fn plain_text(snapshot: Snapshot) -> String {
    let text = open_metrics(snapshot);
    let mut out = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').unwrap_or((of, ""));
            let total = if kind == "counter" { "_total" } else { "" };
            let words = help.strip_prefix("# HELP ").and_then(|help| help.strip_prefix(name)).unwrap_or("");
            out += &format!("# HELP {name}{total}{words}\n# TYPE {name}{total} {kind}\n");
        } else if !line.starts_with('#') {
            out += line;
            out.push('\n');
        }
    }
    out
}

/// A scrape as OpenMetrics.
pub fn open_metrics(snapshot: Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut out = String::new();
    encode(&mut out, &registry).expect("a string has room");
    out
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// Names of systems, flows, hosts and links have no characters that would have to be escaped.
fn sample(
    encoder: &mut MetricEncoder<'_>,
    kind: Kind,
    labels: &Vec<(&str, &str)>,
    value: f64,
) -> fmt::Result {
    let encoder = encoder.encode_family(labels)?;
    match kind {
        // Whole numbers, as Prometheus counts them up to 2^53.
        Kind::Counter => ConstCounter::new(value as u64).encode(encoder),
        Kind::Gauge => ConstGauge::new(value).encode(encoder),
    }
}

/// One metric with its samples.
fn metric<'l>(
    out: &mut DescriptorEncoder<'_>,
    (name, help, unit): (&str, &str, Option<Unit>),
    kind: Kind,
    samples: impl IntoIterator<Item = (Vec<(&'l str, &'l str)>, f64)>,
) -> fmt::Result {
    let of = match kind {
        Kind::Counter => ConstCounter::new(0_u64).metric_type(),
        Kind::Gauge => ConstGauge::new(0.0_f64).metric_type(),
    };
    let mut encoder = out.encode_descriptor(name, help, unit.as_ref(), of)?;
    samples.into_iter().try_for_each(|(labels, value)| sample(&mut encoder, kind, &labels, value))
}

fn truth(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

impl Collector for Snapshot {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        self.of_system(&mut out)?;
        self.of_operations(&mut out)?;
        self.of_flows(&mut out)?;
        self.of_rings(&mut out)?;
        self.of_latencies(&mut out)
    }
}

impl Snapshot {
    fn of_system(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let system = &self.system;
        let switch = system.switch.clone().unwrap_or_default();
        let (name, version) = (system.name.as_str(), system.version.as_str());
        metric(
            out,
            ("zsr_system", "The system and the version of its controller", None),
            Kind::Gauge,
            [(vec![("system", name), ("version", version)], 1.0)],
        )?;
        let of_switch = |value: f64| [(vec![("switch", switch.name.as_str())], value)];
        let connected = truth(switch.connected && switch.trouble.is_empty());
        metric(
            out,
            ("zsr_switch_connected", "Whether the controller can change the switch", None),
            Kind::Gauge,
            of_switch(connected),
        )?;
        for (name, help, value) in [
            ("zsr_switch_workers", "Workers in use", switch.workers),
            ("zsr_switch_producer_rings", "Producer rings in use", switch.producer_rings),
            ("zsr_switch_queue_pairs", "Queue pairs in use", switch.queue_pairs),
            ("zsr_switch_workers_max", "Workers that the program has room for", switch.workers_max),
            (
                "zsr_switch_producer_rings_max",
                "Producer rings that the program has room for",
                switch.producer_rings_max,
            ),
            (
                "zsr_switch_queue_pairs_max",
                "Queue pairs that the program has room for",
                switch.queue_pairs_max,
            ),
        ] {
            metric(out, (name, help, None), Kind::Gauge, of_switch(value.into()))?;
        }
        let standby = system.standby.iter();
        metric(
            out,
            ("zsr_standby_ready", "Whether the standby switch could take over now", None),
            Kind::Gauge,
            standby.map(|standby| (vec![("switch", standby.name.as_str())], truth(standby.connected))),
        )?;
        metric(
            out,
            ("zsr_switch_dropped_packets", "Packets that the switch dropped since it had its program", None),
            Kind::Counter,
            self.stats
                .drops
                .iter()
                .map(|drops| (vec![("cause", drops.cause.as_str())], drops.packets as f64)),
        )?;
        let ports = switch.ports.iter();
        metric(
            out,
            ("zsr_switch_port_passes", "Whether frames pass at the switch's end of a link", None),
            Kind::Gauge,
            ports.map(|port| (vec![("link", port.link.as_str())], truth(port.trouble.is_empty()))),
        )?;
        type Of = fn(&proto::Host) -> f64;
        for (name, help, of) in [
            ("zsr_agent_connected", "Whether the host's agent answers", (|host| truth(host.connected)) as Of),
            ("zsr_host_passes", "Whether frames pass at the host's NIC", |host| {
                truth(host.trouble.is_empty())
            }),
            ("zsr_host_rings", "Rings at the host", |host| host.rings.into()),
        ] {
            let samples = system.hosts.iter().map(|host| (vec![("host", host.name.as_str())], of(host)));
            metric(out, (name, help, None), Kind::Gauge, samples)?;
        }
        self.of_agents(out)?;
        self.of_nics(out)?;
        for (name, help, value) in [
            ("zsr_controller_pending_changes", "Changes that are under way", system.pending.len() as f64),
            (
                "zsr_controller_unanswered_calls",
                "Calls to agents without an answer",
                system.unanswered.len() as f64,
            ),
            (
                "zsr_controller_journal_writable",
                "Whether the controller's journal can be written",
                truth(system.journal_trouble.is_empty()),
            ),
            ("zsr_controller_events", "Number of the newest event", system.newest_event as f64),
        ] {
            metric(out, (name, help, None), Kind::Gauge, [(vec![], value)])?;
        }
        Ok(())
    }

    fn of_operations(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("zsr_controller_operation", "Time of calls that change something");
        let mut encoder = out.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for operation in &self.stats.operations {
            let mut before = 0;
            let mut bucket =
                |upper: f64, calls: u64| (upper, calls.saturating_sub(replace(&mut before, calls)));
            let mut buckets: Vec<(f64, u64)> =
                operation.times.iter().map(|time| bucket(time.within_us as f64 / 1e6, time.calls)).collect();
            buckets.push(bucket(f64::MAX, operation.calls));
            let labels = vec![("operation", operation.name.as_str())];
            let (sum, count) = (operation.time_ns as f64 / 1e9, operation.calls);
            encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        let operations = self.stats.operations.iter();
        metric(
            out,
            ("zsr_controller_refused_operations", "Calls that were refused or failed", None),
            Kind::Counter,
            operations
                .map(|operation| (vec![("operation", operation.name.as_str())], operation.refused as f64)),
        )
    }

    fn of_agents(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let of = |value: fn(&proto::HostStats) -> u64| {
            let hosts = self.stats.hosts.iter();
            hosts.map(move |host| (vec![("host", host.name.as_str())], value(host) as f64))
        };
        metric(
            out,
            ("zsr_host_ring", "Memory of the rings at the host", Some(Unit::Bytes)),
            Kind::Gauge,
            of(|host| host.ring_bytes),
        )?;
        metric(
            out,
            ("zsr_host_refused_programs", "Programs that were refused a ring", None),
            Kind::Counter,
            of(|host| host.refused_programs),
        )
    }

    fn of_nics(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let bytes = || Some(Unit::Bytes);
        type Of = fn(&proto::NicStats) -> u64;
        for (name, help, unit, of) in [
            ("zsr_nic_received", "Bytes that the NIC received", bytes(), (|nic| nic.received_bytes) as Of),
            ("zsr_nic_received_frames", "Frames that the NIC received", None, |nic| nic.received_frames),
            ("zsr_nic_sent", "Bytes that the NIC sent", bytes(), |nic| nic.sent_bytes),
            ("zsr_nic_sent_frames", "Frames that the NIC sent", None, |nic| nic.sent_frames),
            ("zsr_nic_marked_packets", "Packets that came with an ECN mark", None, |nic| nic.marked_packets),
            ("zsr_nic_cnps_received", "Congestion notifications received", None, |nic| nic.cnps_received),
            ("zsr_nic_cnps_sent", "Congestion notifications sent", None, |nic| nic.cnps_sent),
            ("zsr_nic_rate_cuts", "Times that the rate of a queue pair was cut", None, |nic| nic.rate_cuts),
            ("zsr_nic_naks_sent", "Negative acknowledgements sent", None, |nic| nic.naks_sent),
            ("zsr_nic_repeated_requests", "Requests that came again", None, |nic| nic.repeated_requests),
            ("zsr_nic_kept_requests", "Requests kept until one before them came", None, |nic| {
                nic.kept_requests
            }),
            ("zsr_nic_dropped_frames", "Frames that the NIC dropped", None, |nic| nic.dropped_frames),
            ("zsr_nic_damaged_frames", "Frames dropped because they were damaged", None, |nic| {
                nic.damaged_frames
            }),
        ] {
            let nics =
                self.stats.hosts.iter().filter_map(|host| Some((host.name.as_str(), host.nic.as_ref()?)));
            let samples = nics.map(|(host, nic)| (vec![("host", host)], of(nic) as f64));
            metric(out, (name, help, unit), Kind::Counter, samples)?;
        }
        Ok(())
    }

    fn of_flows(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let states = self.flows.iter().flat_map(|flow| {
            let of = |(state, name)| {
                (vec![("flow", flow.name.as_str()), ("state", name)], truth(flow.state() == state))
            };
            STATES.map(of)
        });
        metric(out, ("zsr_flow_state", "Whether the flow is in this state", None), Kind::Gauge, states)?;
        let settings = |of: fn(&proto::Settings) -> f64| {
            self.flows.iter().map(move |flow| {
                let value = flow.settings.as_ref().map_or(0.0, of);
                (vec![("flow", flow.name.as_str())], value)
            })
        };
        metric(
            out,
            ("zsr_flow_weight", "Share of the flow against others", None),
            Kind::Gauge,
            settings(|settings| settings.weight.unwrap_or(1).into()),
        )?;
        metric(
            out,
            ("zsr_flow_rate_cap_bytes_per_second", "Most bytes per second; 0: no cap", None),
            Kind::Gauge,
            settings(|settings| settings.rate_cap_bps.unwrap_or(0) as f64 / 8.0),
        )?;
        let stats = |of: fn(&proto::FlowStats) -> f64| {
            self.stats.flows.iter().map(move |flow| (vec![("flow", flow.name.as_str())], of(flow)))
        };
        let bytes = Some(Unit::Bytes);
        for (name, help, unit, of) in [
            (
                "zsr_flow_delivered",
                "Bytes delivered into consumer rings",
                bytes,
                (|flow| flow.bytes as f64) as fn(&proto::FlowStats) -> f64,
            ),
            ("zsr_flow_delivered_items", "Items delivered into consumer rings", None, |flow| {
                flow.items as f64
            }),
            ("zsr_flow_transfers", "Transfers", None, |flow| flow.transfers as f64),
            ("zsr_flow_retries", "Transfers that were retried", None, |flow| flow.retries as f64),
            ("zsr_flow_polls", "READs of control words", None, |flow| flow.polls as f64),
        ] {
            metric(out, (name, help, unit), Kind::Counter, stats(of))?;
        }
        metric(
            out,
            ("zsr_flow_figures_age", "How old the oldest of the flow's figures are", Some(Unit::Seconds)),
            Kind::Gauge,
            stats(|flow| flow.old_ms as f64 / 1e3),
        )
    }

    fn of_latencies(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("zsr_ring_push_to_pop", "Time of stamped items from push to pop");
        let mut encoder = out.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for flow in &self.stats.flows {
            let rings = flow.rings.iter().filter_map(|ring| Some((ring, ring.latency.as_ref()?)));
            for (ring, proto::Latency { segments, sum_us }) in rings {
                // A program can write any numbers there.
                let mut left = u64::MAX;
                let bucket = |(at, &segments): (usize, &u64)| {
                    let segments = segments.min(left);
                    left -= segments;
                    (upper_us(at).map_or(f64::MAX, |us| us as f64 / 1e6), segments)
                };
                let all = segments.iter().chain(std::iter::repeat(&0)).take(BUCKETS);
                let buckets: Vec<_> = all.enumerate().map(bucket).collect();
                let (sum, count) = (*sum_us as f64 / 1e6, u64::MAX - left);
                let labels = vec![("flow", flow.name.as_str()), ("ring", &ring.name), ("host", &ring.host)];
                encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }

    fn of_rings(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rings = |of: fn(&proto::RingStats) -> f64| {
            self.stats.flows.iter().flat_map(move |flow| {
                flow.rings.iter().map(move |ring| {
                    let role = if ring.role() == proto::Role::Producer { "producer" } else { "consumer" };
                    let labels = [
                        ("flow", flow.name.as_str()),
                        ("ring", ring.name.as_str()),
                        ("host", ring.host.as_str()),
                        ("role", role),
                    ];
                    (labels.to_vec(), of(ring))
                })
            })
        };
        let bytes = || Some(Unit::Bytes);
        type Of = fn(&proto::RingStats) -> f64;
        for (name, help, unit, kind, of) in [
            (
                "zsr_ring_put",
                "Bytes put into the ring",
                bytes(),
                Kind::Counter,
                (|ring| ring.bytes as f64) as Of,
            ),
            ("zsr_ring_wire", "Bytes of its connections at the switch", bytes(), Kind::Counter, |ring| {
                ring.wire_bytes as f64
            }),
            ("zsr_ring_packets", "Packets of its connections at the switch", None, Kind::Counter, |ring| {
                ring.packets as f64
            }),
            ("zsr_ring_fill", "Bytes in the ring", bytes(), Kind::Gauge, |ring| ring.fill.into()),
            ("zsr_ring_size", "Bytes that the ring takes", bytes(), Kind::Gauge, |ring| ring.size.into()),
            ("zsr_ring_attached", "Whether a program is at the ring", None, Kind::Gauge, |ring| {
                truth(ring.attached)
            }),
            ("zsr_ring_died", "Whether its last program died", None, Kind::Gauge, |ring| truth(ring.died)),
            ("zsr_ring_silent", "Whether its host's NIC is silent", None, Kind::Gauge, |ring| {
                truth(ring.silent)
            }),
        ] {
            metric(out, (name, help, unit), kind, rings(of))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let mut taken = [0; BUCKETS];
        (taken[0], taken[3], taken[BUCKETS - 1]) = (2, 1, 1);
        let ring = proto::RingStats {
            name: "f.h2".into(),
            host: "h2".into(),
            fill: 5,
            size: 64,
            latency: Some(proto::Latency { segments: taken.to_vec(), sum_us: 20_000_007 }),
            ..Default::default()
        };
        let flow = proto::FlowStats {
            name: "f".into(),
            bytes: 1 << 40,
            retries: 3,
            rings: vec![ring],
            ..Default::default()
        };
        let drops = vec![proto::Drops { cause: "stale".into(), packets: 7 }];
        let nic =
            proto::NicStats { sent_bytes: 1 << 30, cnps_sent: 4, marked_packets: 5, ..Default::default() };
        let host = |name: &str, nic| proto::HostStats {
            name: name.into(),
            nic,
            ring_bytes: 4160,
            refused_programs: 6,
            ..Default::default()
        };
        let hosts = vec![host("h1", None), host("h2", Some(nic))];
        let within = |within_us, calls| proto::OperationTime { within_us, calls };
        let created = proto::Operation {
            name: "create-flow".into(),
            calls: 9,
            refused: 2,
            time_ns: 12_500_000_000,
            times: vec![within(1000, 3), within(3000, 5), within(10_000_000, 8)],
        };
        let settings = proto::Settings { rate_cap_bps: Some(8000), ..Default::default() };
        let shown = proto::Flow {
            name: "f".into(),
            state: proto::FlowState::Stalled.into(),
            settings: Some(settings),
            ..Default::default()
        };
        let switch = proto::Switch {
            name: "s1".into(),
            workers: 2,
            workers_max: 16,
            producer_rings_max: 32,
            queue_pairs_max: 64,
            ..Default::default()
        };
        let system = proto::System {
            name: "s".into(),
            switch: Some(switch),
            journal_trouble: "full".into(),
            ..Default::default()
        };
        Snapshot {
            system,
            flows: vec![shown],
            stats: proto::Stats {
                flows: vec![flow],
                drops,
                hosts,
                operations: vec![created],
                ..Default::default()
            },
        }
    }

    #[test]
    fn figures_are_told_with_their_labels() {
        let text = open_metrics(snapshot());
        for line in [
            "# TYPE zsr_flow_delivered_bytes counter",
            "zsr_flow_delivered_bytes_total{flow=\"f\"} 1099511627776",
            "zsr_flow_state{flow=\"f\",state=\"stalled\"} 1.0",
            "zsr_flow_state{flow=\"f\",state=\"running\"} 0.0",
            "zsr_flow_rate_cap_bytes_per_second{flow=\"f\"} 1000.0",
            "zsr_ring_fill_bytes{flow=\"f\",ring=\"f.h2\",host=\"h2\",role=\"consumer\"} 5.0",
            "zsr_switch_workers{switch=\"s1\"} 2.0",
            "zsr_switch_workers_max{switch=\"s1\"} 16.0",
            "zsr_switch_producer_rings_max{switch=\"s1\"} 32.0",
            "zsr_switch_queue_pairs_max{switch=\"s1\"} 64.0",
            "zsr_switch_dropped_packets_total{cause=\"stale\"} 7",
            "zsr_host_ring_bytes{host=\"h1\"} 4160.0",
            "zsr_host_refused_programs_total{host=\"h1\"} 6",
            "# TYPE zsr_nic_sent_bytes counter",
            "zsr_nic_sent_bytes_total{host=\"h2\"} 1073741824",
            "zsr_nic_cnps_sent_total{host=\"h2\"} 4",
            "zsr_nic_cnps_received_total{host=\"h2\"} 0",
            "zsr_nic_marked_packets_total{host=\"h2\"} 5",
            "# TYPE zsr_ring_push_to_pop_seconds histogram",
            "zsr_ring_push_to_pop_seconds_sum{flow=\"f\",ring=\"f.h2\",host=\"h2\"} 20.000007",
            "zsr_ring_push_to_pop_seconds_count{flow=\"f\",ring=\"f.h2\",host=\"h2\"} 4",
            "zsr_ring_push_to_pop_seconds_bucket{le=\"0.000001\",flow=\"f\",ring=\"f.h2\",host=\"h2\"} 2",
            "zsr_ring_push_to_pop_seconds_bucket{le=\"0.000004\",flow=\"f\",ring=\"f.h2\",host=\"h2\"} 2",
            "zsr_ring_push_to_pop_seconds_bucket{le=\"0.000008\",flow=\"f\",ring=\"f.h2\",host=\"h2\"} 3",
            "zsr_ring_push_to_pop_seconds_bucket{le=\"8.388608\",flow=\"f\",ring=\"f.h2\",host=\"h2\"} 3",
            "zsr_ring_push_to_pop_seconds_bucket{le=\"+Inf\",flow=\"f\",ring=\"f.h2\",host=\"h2\"} 4",
            "# TYPE zsr_controller_operation_seconds histogram",
            "zsr_controller_operation_seconds_sum{operation=\"create-flow\"} 12.5",
            "zsr_controller_operation_seconds_count{operation=\"create-flow\"} 9",
            "zsr_controller_operation_seconds_bucket{le=\"0.001\",operation=\"create-flow\"} 3",
            "zsr_controller_operation_seconds_bucket{le=\"0.003\",operation=\"create-flow\"} 5",
            "zsr_controller_operation_seconds_bucket{le=\"10.0\",operation=\"create-flow\"} 8",
            "zsr_controller_operation_seconds_bucket{le=\"+Inf\",operation=\"create-flow\"} 9",
            "zsr_controller_refused_operations_total{operation=\"create-flow\"} 2",
            "zsr_controller_journal_writable{} 0.0",
        ] {
            assert!(text.lines().any(|got| got == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("zsr_nic_cnps_sent_total{host=\"h1\"}"), "a NIC that does not count");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn plain_text_names_counters_as_their_samples_are_named() {
        let (open, plain) = (open_metrics(snapshot()), plain_text(snapshot()));
        let samples = |text: &str| {
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(samples(&open), samples(&plain));
        for line in plain.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().expect("a name");
            let of_histogram = ["_sum", "_count", "_bucket"].iter().find_map(|end| name.strip_suffix(end));
            let name = of_histogram.unwrap_or(name);
            for said in [format!("# HELP {name} "), format!("# TYPE {name} ")] {
                assert_eq!(plain.lines().filter(|line| line.starts_with(&said)).count(), 1, "{said}");
            }
        }
        assert!(!plain.contains("# UNIT") && !plain.contains("# EOF"));
    }
}
