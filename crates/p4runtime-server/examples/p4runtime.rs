//! A software switch with its P4Runtime server, for controllers to try: no program until one of them sets it.
//!
//!     cargo run -p zsr-p4runtime-server --example p4runtime -- [ADDRESS [DEVICE ID]]
//!
//! Prints `listening on ADDRESS`. A line `PORT HEX` on standard input is a frame that comes in; frames that leave are
//! printed the same way. Ends with its input.

use std::io::BufRead;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use zsr_p4runtime_server::{P4RuntimeServer, bind, empty_program};
use zsr_soft_switch::{Switch, SwitchConfig, control_queue};
use zsr_wire::frame::{Frame, FramePool};

fn parse(line: &str) -> Option<(u16, Frame)> {
    let (port, hex) = line.trim().split_once(' ')?;
    let digit = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(digit).collect();
    Some((port.parse().ok()?, Frame::copy_from(&bytes?)?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().as_deref().unwrap_or("127.0.0.1:9559").parse()?;
    let device_id: NonZeroU64 = arguments.next().as_deref().unwrap_or("1").parse()?;

    let (frames, incoming) = std::sync::mpsc::channel();
    let mut switch = Switch::new(&empty_program()?, SwitchConfig::default());
    let main_thread = std::thread::current();
    let (handle, queue) = control_queue(move || main_thread.unpark());
    let main_thread = std::thread::current();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match parse(&line) {
                Some(frame) => match frames.send(frame) {
                    Ok(()) => main_thread.unpark(),
                    Err(_) => break,
                },
                None => eprintln!("not PORT HEX: {line}"),
            }
        }
        drop(frames);
        main_thread.unpark();
    });

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listener = runtime.block_on(bind(address))?;
    println!("listening on {}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = runtime.spawn(P4RuntimeServer::new(handle, device_id).serve(listener, async {
        let _ = stopped.await;
    }));

    let start = Instant::now();
    let (mut pool, mut out) = (FramePool::with_frames(64), Vec::new());
    let mut stop = Some(stop);
    while !server.is_finished() {
        let now = 1 + u64::try_from(start.elapsed().as_nanos())?;
        queue.drain(&mut switch, now);
        switch.run_pending(now, 64, &mut pool, &mut out);
        switch.fire_timers(now, &mut pool, &mut out);
        match incoming.try_recv() {
            Ok((port, frame)) => switch.process(now, port, frame, &mut pool, &mut out),
            Err(std::sync::mpsc::TryRecvError::Empty) => std::thread::park_timeout(Duration::from_millis(10)),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                if let Some(stop) = stop.take() {
                    let _ = stop.send(());
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        for (port, frame) in out.drain(..) {
            let hex: String = frame.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            println!("{port} {hex}");
            pool.put(frame);
        }
    }
    runtime.block_on(server)??;
    Ok(())
}
