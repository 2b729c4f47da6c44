//! A system of processes (`zsr up`) for a benchmark, and programs at its rings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zsr::{Place, Session, pu};
use zsr_api::controller as proto;
use zsr_ring::{Cancel, Consumer, Producer};

/// A system that is up until this is dropped.
pub struct Live {
    folder: PathBuf,
    zsr: PathBuf,
    /// A session with its controller.
    pub session: Session,
}

impl Live {
    /// Builds `zsr` and brings up `hosts` hosts, called `h1` and so on, on one switch.
    ///
    /// # Panics
    /// When that fails: there is nothing to measure then.
    pub fn up(hosts: usize) -> Live {
        Self::of(hosts, "")
    }

    /// As [`up`](Self::up), with paths of MTU `mtu`.
    ///
    /// # Panics
    /// When that fails.
    pub fn with_mtu(hosts: usize, mtu: u32) -> Live {
        Self::of(hosts, &format!("defaults: {{mtu: {mtu}}}\n"))
    }

    /// As [`up`](Self::up), on a switch that has a standby.
    ///
    /// # Panics
    /// When that fails.
    pub fn with_standby(hosts: usize) -> Live {
        let live = Self::of(hosts, "switches: [{name: s1}, {name: s2, standby: true}]\n");
        live.await_standby();
        live
    }

    fn of(hosts: usize, more: &str) -> Live {
        let zsr = zsr_tests::beside("bin", "zsr");
        let folder = PathBuf::from(format!("/tmp/zsr-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a new folder");
        let names: Vec<String> = (1..=hosts).map(|n| format!("h{n}")).collect();
        let topology = folder.join("bench.yaml");
        let text = format!("name: bench\n{more}hosts: [{}]\nflows: []\n", names.join(", "));
        std::fs::write(&topology, text).expect("written");
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("XDG_RUNTIME_DIR", &folder) };
        let up = Command::new(&zsr).arg("up").arg(&topology).stdout(Stdio::null()).status();
        assert!(up.expect("zsr runs").success(), "zsr up has failed");
        let place = Place::find(Some("bench")).expect("it is up");
        let session = Session::open(&place).expect("it answers");
        Live { folder, zsr, session }
    }

    /// Creates a flow over hosts.
    ///
    /// # Panics
    /// When it is refused.
    pub fn create(
        &self,
        name: &str,
        producers: &[&str],
        consumers: &[&str],
        more: proto::CreateFlowRequest,
    ) -> proto::Flow {
        let members = |hosts: &[&str]| {
            hosts.iter().map(|h| proto::Member { host: (*h).into(), ..Default::default() }).collect()
        };
        let request = proto::CreateFlowRequest {
            name: name.into(),
            producers: members(producers),
            consumers: members(consumers),
            ..more
        };
        self.session
            .change(|mut c| async move { c.create_flow(request).await })
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// Attaches to the first ring of a flow's first producer and of its first consumer.
    ///
    /// # Panics
    /// When a ring can't be attached to.
    pub fn attach(flow: &proto::Flow) -> (Producer, Consumer) {
        let ring = |members: &[proto::FlowMember]| members[0].rings[0].clone();
        let (from, to) = (ring(&flow.producers), ring(&flow.consumers));
        let producer = pu::attach_producer(from.programs.as_ref(), &from.name, Cancel::new());
        let consumer = pu::attach_consumer(to.programs.as_ref(), &to.name, Cancel::new());
        (producer.unwrap_or_else(|e| panic!("{e}")), consumer.unwrap_or_else(|e| panic!("{e}")))
    }

    /// Deletes a flow whose rings are empty.
    ///
    /// # Panics
    /// When it is refused.
    pub fn delete(&self, name: &str) {
        let request = proto::DeleteFlowRequest { name: name.into(), ..Default::default() };
        self.session
            .change(|mut c| async move { c.delete_flow(request).await })
            .unwrap_or_else(|e| panic!("{e}"));
    }

    /// Changes settings of a flow.
    ///
    /// # Panics
    /// When it is refused.
    pub fn set(&self, name: &str, settings: proto::Settings) {
        let request = proto::SetFlowRequest { name: name.into(), settings: Some(settings) };
        self.session
            .change(|mut c| async move { c.set_flow(request).await })
            .unwrap_or_else(|e| panic!("{e}"));
    }

    /// Ends the switch's process as a power cut would, and starts another one, which is there when this returns.
    ///
    /// # Panics
    /// When there is none, or it does not start.
    pub fn replace_switch(&self) {
        self.kill("switch");
        self.start_switch(None);
    }

    /// Ends the process of the switch that moves the flows, as a power cut would, in a system with a standby. Returns
    /// the switch's name.
    ///
    /// # Panics
    /// When there is none.
    pub fn kill_switch(&self) -> String {
        let name = self.system().switch.expect("a switch").name;
        self.kill(if name == "s1" { "switch" } else { "switch.s2" });
        name
    }

    /// Starts a switch that was killed. The switch can take over when this returns.
    ///
    /// # Panics
    /// When it does not start.
    pub fn return_switch(&self, name: &str) {
        self.start_switch((name != "s1").then_some(name));
        self.await_standby();
    }

    fn await_standby(&self) {
        while !self.system().standby.is_some_and(|standby| standby.connected) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn system(&self) -> proto::System {
        let request = proto::GetSystemRequest {};
        self.session
            .call(|mut c| async move { c.get_system(request).await })
            .unwrap_or_else(|e| panic!("{e}"))
    }

    fn kill(&self, process: &str) {
        let pid = std::fs::read_to_string(self.folder.join(format!("zsr/bench/{process}.pid")));
        let pid = pid.expect("a switch");
        let killed = Command::new("kill").args(["-KILL", pid.trim()]).status();
        assert!(killed.expect("kill runs").success(), "the switch can't be killed");
    }

    fn start_switch(&self, standby: Option<&str>) {
        let topology = self.folder.join("bench.yaml");
        while !Command::new(&self.zsr)
            .arg("switch")
            .arg(&topology)
            .args(standby)
            .arg("--daemon")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("zsr runs")
            .success()
        {
            // The operating system holds the old switch's resources until its last thread has ended.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Processor time of all processes of the system so far.
    pub fn processor_time(&self) -> Duration {
        self.processor_times().values().sum()
    }

    /// The same, by the process's name: `controller`, `switch`, `host.h1` and so on.
    pub fn processor_times(&self) -> BTreeMap<String, Duration> {
        let mut times = BTreeMap::new();
        for entry in std::fs::read_dir(self.folder.join("zsr/bench")).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|e| e != "pid") {
                continue;
            }
            let pid = std::fs::read_to_string(&path).unwrap_or_default();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            times.insert(name, processor_time_of(pid.trim()));
        }
        times
    }
}

/// Processor time of a process (`self`: this one) so far, of its own and the kernel's for it.
pub fn processor_time_of(pid: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Processor time of this thread, to the nanosecond.
pub fn thread_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or_default())
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = Command::new(&self.zsr).arg("down").stdout(Stdio::null()).status();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Threads that push and pop as much as the rings of a flow take and give, as fast as they can.
pub struct Pumps {
    cancel: Cancel,
    threads: Vec<JoinHandle<()>>,
    /// Bytes that each consumer, and then each producer, has moved.
    pub consumed: Vec<Arc<AtomicU64>>,
    /// As `consumed`, per producer.
    pub produced: Vec<Arc<AtomicU64>>,
}

impl Pumps {
    /// For all rings of `flow`. Nothing is copied: bytes are passed on as they lie there.
    ///
    /// # Panics
    /// When a ring can't be attached to.
    pub fn start(flow: &proto::Flow) -> Pumps {
        let cancel = Cancel::new();
        let (mut threads, mut consumed, mut produced) = (Vec::new(), Vec::new(), Vec::new());
        for ring in flow.consumers.iter().flat_map(|m| &m.rings) {
            let mut consumer = pu::attach_consumer(ring.programs.as_ref(), &ring.name, cancel.clone())
                .unwrap_or_else(|e| panic!("{e}"));
            let count = Arc::new(AtomicU64::new(0));
            consumed.push(count.clone());
            threads.push(std::thread::spawn(move || {
                while let Ok(mut view) = consumer.wait() {
                    let (items, bytes) = (view.len(), view.bytes().len() as u64);
                    view.advance(items);
                    count.fetch_add(bytes, Ordering::Relaxed);
                }
            }));
        }
        for member in &flow.producers {
            let count = Arc::new(AtomicU64::new(0));
            produced.push(count.clone());
            for ring in &member.rings {
                let mut producer = pu::attach_producer(ring.programs.as_ref(), &ring.name, cancel.clone())
                    .unwrap_or_else(|e| panic!("{e}"));
                let count = count.clone();
                threads.push(std::thread::spawn(move || {
                    while let Ok(mut room) = producer.reserve_wait(usize::MAX) {
                        let (items, bytes) = (room.len(), room.bytes().len() as u64);
                        room.publish(items);
                        count.fetch_add(bytes, Ordering::Relaxed);
                    }
                }));
            }
        }
        Pumps { cancel, threads, consumed, produced }
    }

    /// Bytes popped so far, by all consumers.
    pub fn popped(&self) -> u64 {
        self.consumed.iter().map(|c| c.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Pumps {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.threads.drain(..).for_each(|t| drop(t.join()));
    }
}

/// A thread that pushes and pops as much as the rings of many flows take and give, in turn.
pub struct Stepper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Bytes that the consumers of each flow have popped.
    pub popped: Vec<Arc<AtomicU64>>,
}

impl Stepper {
    /// For all rings of `flows`.
    ///
    /// # Panics
    /// When a ring can't be attached to.
    pub fn start(flows: &[proto::Flow]) -> Stepper {
        let cancel = Cancel::new();
        let (mut producers, mut consumers, mut popped) = (Vec::new(), Vec::new(), Vec::new());
        for flow in flows {
            let count = Arc::new(AtomicU64::new(0));
            for ring in flow.consumers.iter().flat_map(|m| &m.rings) {
                let ring = pu::attach_consumer(ring.programs.as_ref(), &ring.name, cancel.clone());
                consumers.push((ring.unwrap_or_else(|e| panic!("{e}")), count.clone()));
            }
            for ring in flow.producers.iter().flat_map(|m| &m.rings) {
                let ring = pu::attach_producer(ring.programs.as_ref(), &ring.name, cancel.clone());
                producers.push(ring.unwrap_or_else(|e| panic!("{e}")));
            }
            popped.push(count);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for producer in &mut producers {
                    if let Ok(room) = producer.reserve(usize::MAX) {
                        let items = room.len();
                        room.publish(items);
                    }
                }
                for (consumer, count) in &mut consumers {
                    if let Ok(mut view) = consumer.peek() {
                        let (items, bytes) = (view.len(), view.bytes().len() as u64);
                        view.advance(items);
                        count.fetch_add(bytes, Ordering::Relaxed);
                    }
                }
            }
            // So that others can take their places.
            producers.into_iter().for_each(|producer| producer.detach());
            consumers.into_iter().for_each(|(consumer, _)| consumer.detach());
        });
        Stepper { stop, thread: Some(thread), popped }
    }

    /// Bytes popped so far, per flow.
    pub fn popped(&self) -> Vec<u64> {
        self.popped.iter().map(|c| c.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// The increase of `counters` in consecutive windows of `length`, in bytes per second.
pub fn windows(count: usize, length: Duration, counters: &dyn Fn() -> Vec<u64>) -> Vec<Vec<f64>> {
    let mut last = (Instant::now(), counters());
    (0..count)
        .map(|_| {
            std::thread::sleep(length);
            let now = (Instant::now(), counters());
            let seconds = (now.0 - last.0).as_secs_f64();
            let rates = now.1.iter().zip(&last.1).map(|(a, b)| (a - b) as f64 / seconds).collect();
            last = now;
            rates
        })
        .collect()
}
