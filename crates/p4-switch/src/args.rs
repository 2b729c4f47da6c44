//! The command line, which is that of `simple_switch_grpc`, and what of it has no effect here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use p4runtime_proto::Address;

use crate::trace::Trace;

/// A software switch with a P4Runtime server, for v1model programs that p4c-bm2-ss compiled
///
/// It takes the command line of simple_switch_grpc, and runs until SIGINT or SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "zsr-switch", version = zsr_version::VERSION, max_term_width = 100, after_long_help = include_str!("after.md"))]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) instead: Option<Instead>,
    /// The program: JSON that p4c-bm2-ss made
    #[arg(value_name = "PROGRAM.json", required_unless_present_any = ["no_p4", "man"], conflicts_with = "no_p4")]
    pub(crate) program: Option<PathBuf>,
    /// Start without a program, and drop all packets until a controller sets one
    #[arg(long)]
    pub(crate) no_p4: bool,
    /// A port, and the interface that it is on; can be repeated
    #[arg(short = 'i', long = "interface", value_name = "PORT@INTERFACE")]
    pub(crate) interfaces: Vec<Interface>,
    /// The device_id by which controllers name the switch
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device_id: u64,
    /// Write what passes each port into a file per port, DIR/INTERFACE.pcap
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub(crate) pcap: Option<PathBuf>,
    /// Write what each packet meets into a file, or to standard error: parser states, headers, tables, statements
    ///
    /// The program is interpreted then, which is much slower.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) trace: Option<PathBuf>,
    /// Serve simple_switch_CLI at this port of 127.0.0.1; without the option nobody is served
    #[arg(long, value_name = "PORT")]
    pub(crate) thrift_port: Option<u16>,
    /// How many threads there are: one runs the program, the others receive and send at interfaces
    ///
    /// Packets of a port keep their order, and registers and meters are as with one thread.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: u8,
    /// Answer Prometheus at http://ADDRESS:PORT/metrics, an address of this machine
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Commands of simple_switch_CLI that are carried out before the first packet
    #[arg(long, value_name = "FILE", requires = "program")]
    pub(crate) commands: Option<PathBuf>,
    /// What happens when an assert or assume of the program does not hold
    #[arg(long, value_enum, default_value_t = OnAssert::Count)]
    pub(crate) assert: OnAssert,
    /// Print the manual page
    #[arg(long, hide = true)]
    pub(crate) man: bool,
    #[command(flatten)]
    pub(crate) without_effect: WithoutEffect,
    /// Options of the target, as behind `--` at simple_switch_grpc
    #[arg(last = true, value_name = "TARGET OPTIONS")]
    pub(crate) target: Vec<String>,
}

/// What is done in place of running a switch.
#[derive(Debug, Subcommand)]
pub(crate) enum Instead {
    Trace(Trace),
}

/// What an assert or assume that does not hold does to its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnAssert {
    /// The packet is dropped
    Drop,
    /// The packet goes on
    Count,
}

/// Options of bmv2 that are taken so that scripts need no change.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Options of bmv2 that are taken and have no effect")]
pub(crate) struct WithoutEffect {
    /// Address of bmv2's nanomsg log
    #[arg(long, value_name = "ADDRESS")]
    nanolog: Option<String>,
    /// Address of bmv2's nanomsg notifications
    #[arg(long, value_name = "ADDRESS")]
    notifications_addr: Option<String>,
    /// Log packets to standard output
    #[arg(long)]
    log_console: bool,
    /// Log packets to a file
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// How much is logged
    #[arg(long, short = 'L', value_name = "LEVEL")]
    log_level: Option<String>,
    /// Write each line of the log at once
    #[arg(long)]
    log_flush: bool,
    /// How many bytes of each packet are logged
    #[arg(long, value_name = "BYTES")]
    dump_packet_data: Option<u32>,
    /// bmv2's debugger
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1)]
    debugger: Option<Option<String>>,
    /// Highest number of ports
    #[arg(long, value_name = "N")]
    max_port_count: Option<u32>,
}

/// The options behind `--`.
#[derive(Debug, Parser)]
#[command(name = "zsr-switch [OPTIONS] PROGRAM.json --", disable_version_flag = true)]
pub(crate) struct Target {
    /// Where controllers connect; without --certificate everybody who reaches the address commands the switch
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559")]
    pub(crate) grpc_server_addr: Address,
    /// The port of packet-ins and packet-outs; 0: none
    #[arg(long, value_name = "PORT", default_value_t = 510)]
    pub(crate) cpu_port: u16,
    /// The value of egress_spec that drops a packet
    #[arg(long, value_name = "PORT", default_value_t = 511)]
    pub(crate) drop_port: u16,
    /// Queues of different priority per port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) priority_queues: u32,
    /// Serve controllers with TLS: FILE.pem, with FILE.key and ca.pem beside it
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
}

/// A port on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) port: u16,
    pub(crate) name: String,
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (port, name) = text
            .split_once('@')
            .filter(|(_, name)| !name.is_empty())
            .ok_or("expected PORT@INTERFACE, such as 0@veth0")?;
        let number = port.parse().ok().filter(|port| *port < 511);
        let number = number.ok_or_else(|| format!("port `{port}`: expected a number from 0 to 510"))?;
        Ok(Interface { port: number, name: name.to_owned() })
    }
}

impl Args {
    /// The options behind `--`.
    pub(crate) fn target(&self) -> Target {
        Target::parse_from(std::iter::once("zsr-switch").chain(self.target.iter().map(String::as_str)))
    }

    /// What of the command line has no effect, and what to use in its place.
    pub(crate) fn notes(&self) -> Vec<String> {
        let WithoutEffect {
            nanolog,
            notifications_addr,
            log_console,
            log_file,
            log_level,
            log_flush,
            dump_packet_data,
            debugger,
            max_port_count: _,
        } = &self.without_effect;
        let logs = *log_console
            || log_file.is_some()
            || log_level.is_some()
            || *log_flush
            || dump_packet_data.is_some();
        let all = [
            (nanolog.is_some(), "--nanolog: there is no nanomsg log"),
            (
                notifications_addr.is_some(),
                "--notifications-addr: learning and ageing are told by P4Runtime only",
            ),
            (
                logs,
                "packets are not logged so; --trace writes what they meet, and --pcap what passes the ports",
            ),
            (debugger.is_some(), "--debugger: there is none"),
        ];
        all.into_iter()
            .filter(|(is_given, _)| *is_given)
            .map(|(_, note)| format!("{note} (no effect)"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::try_parse_from(std::iter::once("zsr-switch").chain(line.split_whitespace()))
            .unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// As the scripts of p4lang/tutorials, of p4lang/p4c and of p4-utils start a switch.
    #[test]
    fn command_lines_of_others_are_taken() {
        let mininet = args(
            "-i 1@s1-eth1 -i 2@s1-eth2 --pcap pcaps --nanolog ipc:///tmp/bm-0-log.ipc --device-id 3 build/basic.json \
             --log-console --thrift-port 9090 -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 255",
        );
        assert_eq!(mininet.interfaces[1], Interface { port: 2, name: "s1-eth2".into() });
        assert_eq!((mininet.device_id, mininet.pcap), (3, Some("pcaps".into())));
        let target = Args::target(&args("x.json -- --grpc-server-addr 127.0.0.1:50051 --cpu-port 255"));
        assert_eq!((target.cpu_port, target.drop_port), (255, 511));
        let bare = args("--no-p4 --interface 0@veth0 --pcap");
        assert!(bare.program.is_none() && bare.pcap == Some(".".into()) && bare.notes().is_empty());
        assert_eq!(args("x.json --log-console -L debug --thrift-port 9090").notes().len(), 1);
        assert_eq!(args("--trace x.json").trace, Some("-".into()), "a program is no file of a trace");
        assert_eq!(args("--trace=y x.json").trace, Some("y".into()));
    }

    #[test]
    fn ports_that_are_none_are_refused_in_words() {
        for (text, words) in [
            ("veth0", "PORT@INTERFACE"),
            ("1@", "PORT@INTERFACE"),
            ("x@veth0", "`x`"),
            ("511@veth0", "0 to 510"),
        ] {
            let why = text.parse::<Interface>().unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
        assert!(Args::try_parse_from(["zsr-switch"]).is_err());
    }
}
