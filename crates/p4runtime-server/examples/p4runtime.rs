//! A software switch with its P4Runtime server, for controllers to try: no program until one of them sets it.
//!
//!     cargo run --release --example p4runtime -- [ADDRESS [DEVICE]]

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use p4runtime_proto::Address;
use tokio::signal::unix::{SignalKind, signal};
use zsr_p4runtime_server::{Listener, P4RuntimeServer, bind, bind_free_unix, empty_program};
use zsr_soft_switch::{FailedAssert, Switch, SwitchConfig, control_queue};
use zsr_wire::frame::{Frame, FramePool};

/// A software switch with its P4Runtime server: what bmv2's simple_switch_grpc is, for v1model programs that p4c-bm2-ss compiled
///
/// It has no program until a controller sets one, and runs until SIGINT or SIGTERM. It prints `listening on ADDRESS`. A line `PORT HEX`
/// on standard input is a frame that comes in at a port; frames that leave are printed in the same way.
#[derive(Parser)]
#[command(name = "p4runtime", max_term_width = 100)]
struct Arguments {
    /// Where controllers connect: IP:PORT (port 0: any that is free), or unix:/PATH
    #[arg(default_value = "127.0.0.1:9559")]
    address: Address,
    /// The device_id by which controllers name the switch; bmv2's is 0 unless it is told otherwise
    #[arg(default_value_t = 1)]
    device: u64,
    /// The port of packet-ins and packet-outs
    #[arg(long, value_name = "PORT", default_value_t = SwitchConfig::default().cpu_port)]
    cpu_port: u16,
    /// The consequence of an assert or assume that does not hold
    #[arg(long, value_enum, default_value_t = OnAssert::Count)]
    assert: OnAssert,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnAssert {
    /// The switch ends at once, as bmv2 does
    Abort,
    /// The packet is dropped
    Drop,
    /// The packet goes on; a line on standard error says which, and how often, as with drop
    Count,
}

fn parse(line: &str) -> Option<(u16, Frame)> {
    let (port, hex) = line.trim().split_once(' ')?;
    let digit = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(digit).collect();
    Some((port.parse().ok()?, Frame::copy_from(&bytes?)?))
}

/// Removes the socket in the end.
struct Socket<'a>(&'a Path);

impl Drop for Socket<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

fn main() -> std::process::ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let failed_assert = match arguments.assert {
        OnAssert::Count => FailedAssert::Count,
        OnAssert::Drop | OnAssert::Abort => FailedAssert::Drop,
    };
    let config = SwitchConfig { cpu_port: arguments.cpu_port, failed_assert, ..SwitchConfig::default() };
    let mut switch = Switch::new(&empty_program()?, config);
    let main_thread = std::thread::current();
    let (handle, queue) = control_queue(move || main_thread.unpark());

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _inside = runtime.enter();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (listener, address, _socket): (Listener, Address, _) = match &arguments.address {
        Address::Unix(path) => (bind_free_unix(path)?.into(), arguments.address.clone(), Some(Socket(path))),
        Address::Tcp(address) => {
            let listener = runtime.block_on(bind(*address))?;
            let address = listener.local_addr()?;
            (listener.into(), address.into(), None)
        }
        other => return Err(format!("nobody can listen at {other}").into()),
    };
    let (ended, main_thread) = (Arc::new(AtomicBool::new(false)), std::thread::current());
    let end = ended.clone();
    let device = arguments.device;
    let server = runtime.spawn(async move {
        let told = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        let served = P4RuntimeServer::new(handle, device).serve(listener, told).await;
        end.store(true, Ordering::Release);
        main_thread.unpark();
        served
    });

    let incoming = frames();
    let mut output = Some(std::io::stdout());
    output = output.filter(|mut output| writeln!(output, "listening on {address}").is_ok());
    let start = Instant::now();
    let clock = || 1 + start.elapsed().as_nanos() as u64;
    let (mut pool, mut out) = (FramePool::with_frames(64), Vec::new());
    while !ended.load(Ordering::Acquire) {
        let mut work = queue.drain(&mut switch, clock());
        work += switch.run_pending(clock(), 64, &mut pool, &mut out);
        switch.fire_timers(clock(), &mut pool, &mut out);
        for (port, frame) in incoming.try_iter().take(64) {
            switch.process(clock(), port, frame, &mut pool, &mut out);
            work += 1;
        }
        for (port, frame) in out.drain(..) {
            let hex: String = frame.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            // A reader that does not listen any more does not end the switch.
            output = output.filter(|mut output| writeln!(output, "{port} {hex}").is_ok());
            pool.put(frame);
        }
        for failed in switch.failed_asserts(clock()) {
            if arguments.assert == OnAssert::Abort {
                return Err(failed.to_string().into());
            }
            eprintln!("{failed}");
        }
        if work == 0 {
            let due = [switch.next_timer(), switch.next_assert_report()].into_iter().flatten().min();
            match due {
                Some(due) => std::thread::park_timeout(Duration::from_nanos(due.saturating_sub(clock()))),
                None => std::thread::park(),
            }
        }
    }
    for failed in switch.failed_asserts(u64::MAX) {
        eprintln!("{failed}");
    }
    runtime.block_on(server)??;
    Ok(())
}

/// Frames that come in on standard input, until its end.
fn frames() -> mpsc::Receiver<(u16, Frame)> {
    let (frames, incoming) = mpsc::channel();
    let main_thread = std::thread::current();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Some(frame) = parse(&line) else {
                eprintln!("not PORT HEX: {line}");
                continue;
            };
            if frames.send(frame).is_err() {
                break;
            }
            main_thread.unpark();
        }
    });
    incoming
}
