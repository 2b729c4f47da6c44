//! The switch: its program, its ports, its server, until a signal.

use std::fmt::Display;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use p4runtime_proto::Address;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use zsr_bmv2_runtime::{Host, Served, State, serve};
use zsr_link::{LinkError, LoopConfig, PortLoop, Waker};
use zsr_p4runtime_server::{Listener, P4RuntimeServer, bind, bind_free_unix, empty_program};
use zsr_soft_switch::{FailedAssert, Program, Switch, SwitchConfig, SwitchNode, control_queue};
use zsr_tls::Identity;

use crate::args::{Args, Interface, OnAssert, Target};
use crate::helpers::Helpers;
use crate::ports::{SwitchPorts, lock};
use crate::{commands, metrics, say};

/// How long controllers may take to let go when the switch ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why the switch does not run, or does not run any more.
pub(crate) enum Error {
    /// The command line asks for something that can't be had.
    Usage(String),
    /// Something failed.
    Failed(String),
}

pub(crate) fn usage(e: impl Display) -> Error {
    Error::Usage(e.to_string())
}

pub(crate) fn failed(e: impl Display) -> Error {
    Error::Failed(e.to_string())
}

/// Runs the switch until a signal.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let target = args.target();
    let program = match &args.program {
        Some(path) => load(path, args.trace.is_some())?,
        None => empty_program().map_err(failed)?,
    };
    let config = SwitchConfig {
        cpu_port: target.cpu_port,
        drop_port: target.drop_port,
        priority_queues: target.priority_queues,
        failed_assert: match args.assert {
            OnAssert::Count => FailedAssert::Count,
            OnAssert::Drop => FailedAssert::Drop,
        },
        trace: args.trace.is_some(),
        ..SwitchConfig::default()
    };
    let waker = Waker::new().map_err(failed)?;
    let wake = waker.clone();
    let (handle, control) = control_queue(move || wake.wake());
    let (mut switch, mut state) = (Switch::new(&program, config), State::default());
    if let Some(path) = &args.commands {
        commands::run(path, &mut switch, &mut state).map_err(usage)?;
    }
    let mut node = SwitchNode::new(switch, control);
    if let Some(path) = &args.trace {
        let mut out = trace_to(path)?;
        node.on_trace(move |lines| {
            // A full disk ends no packet; the rest of the trace is lost.
            let _ = lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush());
        });
    }
    node.on_failed_assert(|assert| say(format_args!("{assert}")));
    let mut ports = PortLoop::new(node, &waker, LoopConfig::default()).map_err(failed)?;
    let down = Arc::new(Mutex::new(Vec::new()));
    let troubled = down.clone();
    let trouble = move |port, trouble: Option<&LinkError>| {
        let mut down = lock(&troubled);
        down.retain(|one| *one != port);
        match trouble {
            Some(trouble) => {
                down.push(port);
                say(format_args!("port {port}: {trouble}"));
            }
            None => say(format_args!("port {port}: it works again")),
        }
    };
    ports.on_trouble(trouble.clone());
    let helpers = Helpers::new(usize::from(args.threads) - 1, &waker, trouble).map_err(failed)?;

    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failed)?;
    let _inside = runtime.enter();
    let mut signals = Signals::new().map_err(failed)?;
    let ports = ports.spawn("zsr-switch").map_err(failed)?;
    let open = Arc::new(SwitchPorts::new(ports.handle().clone(), helpers, args.device_id, &target, down));
    for Interface { port, name } in &args.interfaces {
        let refused = |why| usage(format_args!("-i {port}@{name}: {why}"));
        open.add_port(*port, name, args.pcap.as_deref()).map_err(refused)?;
    }
    let thrift = args.thrift_port.map(listen_to_thrift).transpose()?;
    let bind_metrics = |at| {
        let bound = runtime.block_on(metrics::bind(at));
        bound.map_err(|why| usage(format_args!("--metrics {at}: {why}")))
    };
    let metrics = args.metrics.map(bind_metrics).transpose()?;
    let (listener, address) = runtime.block_on(listen(&target))?;
    let _ = writeln!(std::io::stdout(), "P4Runtime at {address}, device {}", args.device_id);
    if let Some(thrift) = thrift {
        let at = thrift.local_addr().map_err(failed)?;
        let served = Served { switch: handle.clone(), host: open.clone() };
        serve(thrift, served, state).map_err(failed)?;
        let _ = writeln!(std::io::stdout(), "simple_switch_CLI at {at}");
    }
    if let Some(listener) = metrics {
        let at = listener.local_addr().map_err(failed)?;
        metrics::serve(listener, handle.clone(), open.clone());
        let _ = writeln!(std::io::stdout(), "metrics at http://{at}/metrics");
    }
    let (tell, told) = oneshot::channel();
    let signal = async move {
        signals.come().await;
        let _ = tell.send(());
    };
    let served = runtime.block_on(async {
        tokio::select! {
            served = P4RuntimeServer::new(handle, args.device_id).serve(listener, signal) => served,
            () = async {
                let _ = told.await;
                tokio::time::sleep(PATIENCE).await;
            } => Ok(()),
        }
    });
    let end = ports.stop();
    if let Address::Unix(path) = &address {
        let _ = std::fs::remove_file(path);
    }
    open.finish().map_err(failed)?;
    served.map_err(failed)?;
    end.error.map_or(Ok(()), |e| Err(failed(e)))
}

pub(crate) fn load(path: &Path, traced: bool) -> Result<Program, Error> {
    let text = std::fs::read_to_string(path).map_err(|e| usage(format_args!("{}: {e}", path.display())))?;
    let program = if traced { Program::traced(&text) } else { Program::from_json(&text) };
    program.map_err(|e| usage(format_args!("{}: {e}", path.display())))
}

/// Where the trace goes: a file, or standard error.
fn trace_to(path: &Path) -> Result<Box<dyn Write + Send>, Error> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::BufWriter::new(std::io::stderr())));
    }
    let file =
        std::fs::File::create(path).map_err(|e| usage(format_args!("--trace {}: {e}", path.display())))?;
    Ok(Box::new(std::io::BufWriter::new(file)))
}

/// Opens the port of simple_switch_CLI. bmv2 opens it at all addresses, and this switch on loopback only.
fn listen_to_thrift(port: u16) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    listener.map_err(|e| usage(format_args!("--thrift-port {port}: {e}")))
}

async fn listen(target: &Target) -> Result<(Listener, Address), Error> {
    match (&target.grpc_server_addr, &target.certificate) {
        (Address::Tcp(at), certificate) => {
            let identity = certificate.as_deref().map(Identity::open).transpose().map_err(usage)?;
            let listener = bind(*at).await.map_err(usage)?;
            let address = listener.local_addr().map_err(failed)?.into();
            let listener = match identity {
                Some(identity) => Listener::Tls(listener, identity),
                None => listener.into(),
            };
            Ok((listener, address))
        }
        (Address::Unix(path), None) => {
            Ok((bind_free_unix(path).map_err(usage)?.into(), target.grpc_server_addr.clone()))
        }
        (Address::Unix(_), Some(_)) => Err(usage("--certificate: a UNIX socket has no TLS")),
        (other, _) => Err(usage(format_args!("--grpc-server-addr {other}: nobody can listen there"))),
    }
}

/// SIGINT and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for one.
    async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
