//! The ports of the running switch: those of the command line, and those that come and go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zsr_bmv2_runtime::{Host, PortInfo, QueueChange};
use zsr_link::{AnyPort, Capture, LoopHandle, PacketPort, PcapSink, QueueSettings, Queued};

use crate::args::Target;
use crate::helpers::{Helpers, INNER};

/// Bytes of an IP packet that each interface has to carry.
const MTU: u32 = 68;

struct Open {
    interface: String,
    capture: Option<PcapSink>,
    queue: Arc<QueueSettings>,
}

/// All ports, by number.
pub(crate) struct SwitchPorts {
    handle: LoopHandle,
    helpers: Helpers,
    device_id: u64,
    cpu_port: u16,
    drop_port: u16,
    open: Mutex<BTreeMap<u16, Open>>,
    /// Ports with trouble.
    down: Arc<Mutex<Vec<u16>>>,
    /// What holds for the queues of ports that come.
    queues: Mutex<Vec<QueueChange>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SwitchPorts {
    /// No ports yet, of the loop that `handle` reaches. `down` has the numbers of those with trouble.
    pub(crate) fn new(
        handle: LoopHandle,
        helpers: Helpers,
        device_id: u64,
        target: &Target,
        down: Arc<Mutex<Vec<u16>>>,
    ) -> SwitchPorts {
        SwitchPorts {
            handle,
            helpers,
            device_id,
            cpu_port: target.cpu_port,
            drop_port: target.drop_port,
            open: Mutex::default(),
            down,
            queues: Mutex::default(),
        }
    }

    /// Frames that were lost behind the program, by port: at a full queue, or by the interface.
    pub(crate) fn lost(&self) -> BTreeMap<u16, u64> {
        let mut all = BTreeMap::new();
        for stats in self.helpers.stats().into_iter().chain([self.handle.stats()]) {
            for report in stats.ports {
                let lost = report.stats.refused + report.lost + report.faults;
                *all.entry(report.port & (INNER - 1)).or_default() += lost;
            }
        }
        all
    }

    /// Completes the files of all captures, and ends the threads that help.
    pub(crate) fn finish(&self) -> Result<(), String> {
        self.helpers.stop();
        let sinks: Vec<_> = lock(&self.open).values_mut().filter_map(|port| port.capture.take()).collect();
        sinks.iter().try_for_each(|sink| sink.finish().map(drop).map_err(|e| e.to_string()))
    }
}

fn apply(queue: &QueueSettings, change: QueueChange) {
    match change {
        QueueChange::Depth(packets) => queue.set_depth(packets),
        QueueChange::Rate(per_s) => queue.set_rate(per_s),
    }
}

impl Host for SwitchPorts {
    fn device_id(&self) -> u64 {
        self.device_id
    }

    fn ports(&self) -> Vec<PortInfo> {
        let down = lock(&self.down).clone();
        let info = |(number, port): (&u16, &Open)| PortInfo {
            number: *number,
            interface: port.interface.clone(),
            is_up: !down.contains(number),
        };
        lock(&self.open).iter().map(info).collect()
    }

    fn add_port(&self, number: u16, interface: &str, pcap: Option<&Path>) -> Result<(), String> {
        let mut open = lock(&self.open);
        if open.contains_key(&number) || open.values().any(|port| port.interface == interface) {
            return Err("a port has one interface, and an interface one port".into());
        }
        for (special, option) in [(self.cpu_port, "--cpu-port"), (self.drop_port, "--drop-port")] {
            if number == special {
                return Err(format!("the port is that of {option}: choose another one"));
            }
        }
        let link = PacketPort::open(interface, MTU).map_err(|e| e.to_string())?;
        let (link, capture): (AnyPort, _) = match pcap {
            Some(folder) => {
                let path: PathBuf = folder.join(format!("{interface}.pcap"));
                let sink = PcapSink::create(&path).map_err(|e| e.to_string())?;
                (Box::new(Capture::new(link, sink.clone())), Some(sink))
            }
            None => (Box::new(link), None),
        };
        let queue = Arc::new(QueueSettings::default());
        lock(&self.queues).iter().for_each(|change| apply(&queue, *change));
        let link: AnyPort = Box::new(Queued::new(link, queue.clone()));
        let added = self.helpers.take(number, link).and_then(|link| {
            let added = self.handle.add_port(number, link).ok_or("the switch has stopped")?;
            added.map_err(|e| e.to_string())
        });
        if let Err(why) = added {
            self.helpers.give_back(number);
            return Err(why);
        }
        open.insert(number, Open { interface: interface.to_owned(), capture, queue });
        Ok(())
    }

    fn remove_port(&self, number: u16) -> Result<(), String> {
        let mut open = lock(&self.open);
        let port = open.remove(&number).ok_or_else(|| format!("there is no port {number}"))?;
        drop(self.handle.remove_port(number));
        self.helpers.give_back(number);
        lock(&self.down).retain(|down| *down != number);
        port.capture.map_or(Ok(()), |sink| sink.finish().map(drop).map_err(|e| e.to_string()))
    }

    fn set_queue(&self, port: Option<u16>, change: QueueChange) -> Result<(), String> {
        let open = lock(&self.open);
        match port {
            Some(number) => {
                let port = open.get(&number).ok_or_else(|| format!("there is no port {number}"))?;
                apply(&port.queue, change);
            }
            None => {
                open.values().for_each(|port| apply(&port.queue, change));
                let mut queues = lock(&self.queues);
                let same =
                    |other: &QueueChange| std::mem::discriminant(other) == std::mem::discriminant(&change);
                queues.retain(|other| !same(other));
                queues.push(change);
            }
        }
        // A queue that let nothing go is looked at again.
        self.handle.wake();
        self.helpers.wake();
        Ok(())
    }
}
