//! The two switches, each behind P4Runtime and a way to exchange packets with its ports.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use zsr_bmv2::{Bmv2, Dataplane, Options, PortPacket, Registers};
use zsr_p4runtime_server::{P4RuntimeServer, bind, empty_program};
use zsr_soft_switch::{RegisterId, Switch, SwitchConfig, SwitchHandle, control_queue};
use zsr_wire::{Frame, FramePool};

use crate::session::Session;

/// Time from packet to packet, if nobody asks for another.
const STEP: Duration = Duration::from_millis(1);
/// How long bmv2 may take for one packet. It never drops one that goes round and round.
const PATIENCE: Duration = Duration::from_secs(5);
/// A port number that no packet can have: there is no CPU port.
const NO_PORT: u16 = 600;

/// Our switch, in a thread of its own.
pub struct Ours {
    /// The session with it.
    pub controller: Session,
    handle: SwitchHandle,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _server: oneshot::Sender<()>,
    now_ns: u64,
    /// Time that passes from packet to packet.
    pub step: Duration,
}

impl Ours {
    /// Starts one without a program.
    pub async fn start(cpu_port: Option<u16>) -> Result<Ours, String> {
        let config = SwitchConfig { cpu_port: cpu_port.unwrap_or(NO_PORT), ..SwitchConfig::default() };
        let mut switch = Switch::new(&empty_program().map_err(|e| e.to_string())?, config);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (handle_sender, handle) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let me = std::thread::current();
            let (handle, queue) = control_queue(move || me.unpark());
            // Nobody listens only if start() has been given up.
            let _ = handle_sender.send(handle);
            while !stopped.load(Ordering::Relaxed) {
                if queue.drain(&mut switch, 0) == 0 {
                    std::thread::park();
                }
            }
        });
        let handle = handle.await.map_err(|e| e.to_string())?;
        let listener = bind(([127, 0, 0, 1], 0).into()).await.map_err(|e| e.to_string())?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let (server, ended) = oneshot::channel::<()>();
        let serve = P4RuntimeServer::new(handle.clone(), NonZeroU64::MIN).serve(listener, async {
            let _ = ended.await;
        });
        tokio::spawn(serve);
        let controller = Session::connect(address, 1).await?;
        Ok(Ours { controller, handle, stop, thread: Some(thread), _server: server, now_ns: 0, step: STEP })
    }

    /// Runs `f` on the switch, between two packets.
    pub async fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<R, String> {
        self.handle.call(f).await.map_err(|e| e.to_string())
    }

    /// A packet comes in; returns all that leaves.
    pub async fn packet(&mut self, port: u16, bytes: &[u8]) -> Result<Vec<PortPacket>, String> {
        self.now_ns += self.step.as_nanos() as u64;
        let now = self.now_ns;
        let frame = Frame::copy_from(bytes).ok_or("longer than a frame can be")?;
        self.call(move |switch| {
            let (mut pool, mut out) = (FramePool::with_frames(8), Vec::new());
            switch.process(now, port, frame, &mut pool, &mut out);
            out.into_iter().map(|(port, frame)| (port, frame.bytes().to_vec())).collect()
        })
        .await
    }

    /// All registers: name, width in bits, and cells as bmv2 would show them.
    pub async fn registers(&self) -> Result<Vec<(String, u32, Vec<u64>)>, String> {
        self.call(|switch| {
            let registers = &switch.info().registers;
            let cells = |id: usize| {
                let all = switch.register_read_all(RegisterId(id as u32)).unwrap_or_default();
                all.iter().map(|cell| as_shown(cell)).collect()
            };
            registers.iter().enumerate().map(|(id, r)| (r.name.clone(), r.width, cells(id))).collect()
        })
        .await
    }
}

/// A register's cell (big-endian) as bmv2's thrift server shows it: a signed number of 64 bits, the largest of which stands
/// for everything above it.
fn as_shown(cell: &[u8]) -> u64 {
    let wide = |n: u64| n > i64::MAX as u64 >> 8;
    cell.iter().fold(0, |n, &byte| if wide(n) { i64::MAX as u64 } else { n << 8 | u64::from(byte) })
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// bmv2.
pub struct Theirs {
    /// The session with it.
    pub controller: Session,
    dataplane: Dataplane,
    last: Instant,
    /// Least time that passes from packet to packet.
    pub step: Duration,
    /// `None` if it was built without thrift.
    pub registers: Option<Registers>,
    /// The process.
    pub process: Bmv2,
}

impl Theirs {
    /// Starts one without a program.
    pub async fn start(binary: &Path, cpu_port: Option<u16>, log: Option<&Path>) -> Result<Theirs, String> {
        let log = log.map(Path::to_path_buf);
        let options = Options { cpu_port, log, ..Options::new(binary) };
        let process = Bmv2::start(options).await.map_err(|e| e.to_string())?;
        let controller = Session::connect(process.p4runtime(), process.device_id()).await?;
        let dataplane =
            Dataplane::connect(process.dataplane(), process.device_id()).await.map_err(|e| e.to_string())?;
        let registers = Registers::connect(process.thrift());
        Ok(Theirs { controller, dataplane, last: Instant::now(), step: Duration::ZERO, registers, process })
    }

    /// A packet comes in; returns all that leaves.
    pub async fn packet(&mut self, port: u16, bytes: &[u8]) -> Result<Vec<PortPacket>, String> {
        let since = self.last.elapsed();
        if since < self.step {
            std::thread::sleep(self.step - since);
        }
        self.last = Instant::now();
        let packets = [(port, bytes.to_vec())];
        match tokio::time::timeout(PATIENCE, self.dataplane.exchange(&packets)).await {
            Err(_) => Err(format!("not done with it after {} s", PATIENCE.as_secs())),
            Ok(Ok(out)) => Ok(out),
            Ok(Err(e)) => Err(match self.process.ended() {
                Some(end) => format!("bmv2 {end}: {}", self.process.last_words()),
                None => e.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::as_shown;

    #[test]
    fn a_cell_that_thrift_cannot_show_is_the_largest_that_it_can() {
        const MOST: u64 = i64::MAX as u64;
        assert_eq!(as_shown(&[]), 0);
        assert_eq!(as_shown(&[0x12, 0x34]), 0x1234);
        for value in [MOST - 1, MOST] {
            assert_eq!(as_shown(&value.to_be_bytes()), value);
        }
        for value in [MOST + 1, u64::MAX] {
            assert_eq!(as_shown(&value.to_be_bytes()), MOST);
        }
        assert_eq!(as_shown(&(1u128 << 64 | 5).to_be_bytes()), MOST, "more than its low 64 bits");
        assert_eq!(as_shown(&5u128.to_be_bytes()), 5, "a wide register with a small value");
    }
}
