//! Programs in other processes. Each gets a ring's memory as a descriptor, and keeps a connection open for as long as
//! the ring is its own ([`zsr_api::program`]).

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::{Agent, AgentError, EventKind, RingInfo, reachable};
use zsr_api::{
    agent as proto,
    program::{
        BEGUN, BELL, FAREWELL, MOST_REGISTERED, VERSION, framed,
        server::{greeting, hand_over},
    },
};
use zsr_ring::doorbell::Doorbell;
use zsr_ring::memory::{DevicePart, Memory, SharedMemory};
use zsr_ring::{AttachError, ByteOrder, Lease, Left, Role};

/// How long a program may take to say what it wants.
const GREETING: Duration = Duration::from_secs(5);
/// How long a program waits for a ring that is held: longer than a hold that nobody renews.
const HELD: Duration = Duration::from_secs(5);
/// Between two attempts at such a ring.
const AGAIN: Duration = Duration::from_millis(20);
/// Characters of a command line that are shown.
const LONGEST_COMMAND: usize = 80;
/// How often rings' counters of 32 bits are looked at, so that they are not missed going round.
const LOOK: Duration = Duration::from_millis(250);

impl Agent {
    /// Lets programs of other processes attach at `listener`, until `shutdown` resolves. Every process that can open
    /// the socket can write the rings: it belongs into a folder of the owner's alone.
    pub async fn serve_programs(&self, listener: UnixListener, shutdown: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                _ = look.tick() => self.note_progress(),
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(self.clone().program(stream));
                    }
                    // Too many open files: those that are open go on, and one of them will end.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
            }
        }
    }

    /// Programs of other processes report nothing: their rings' words are looked at.
    fn note_progress(&self) {
        for info in self.rings().unwrap_or_default() {
            if self.note_trouble(&info) {
                continue;
            }
            info.ring.filled_bytes();
            if info.ring.role() == Role::Producer
                && let Some(layouts) = info.ring.memory().layouts()
            {
                // Programs take rings under this lock, and register memory behind that.
                let _table = self.lock();
                if !info.ring.has_producer() && info.ring.snapshot().fill() == 0 {
                    // No item names memory of a program that has left.
                    layouts.register(Vec::new(), true);
                }
            }
            info.ring.begun().look(|| info.ring.snapshot().tail.counter);
        }
    }

    /// A ring whose memory is gone is as one whose program died, which is told once: nobody pushes or pops there any more. Says whether it is.
    pub(super) fn note_trouble(&self, info: &RingInfo) -> bool {
        let Some(trouble) = info.ring.memory().trouble() else { return false };
        let mut table = self.lock();
        let ring = table.rings.get_mut(&info.name).filter(|ring| ring.id == info.id);
        let Some(ring) = ring.filter(|ring| ring.died.as_ref() != Some(&trouble)) else { return true };
        ring.died = Some(trouble.clone());
        tracing::warn!("ring `{}`: {trouble}", info.name);
        self.emit(EventKind::Died, info, &trouble);
        true
    }

    /// Serves a connection, from its greeting to its end.
    async fn program(self, mut stream: UnixStream) {
        let Ok(Ok((attach, files))) = tokio::time::timeout(GREETING, greeting(&mut stream)).await else {
            return;
        };
        let pid = stream.peer_cred().ok().and_then(|cred| cred.pid());
        let program = pid.map_or_else(|| "a program".to_owned(), |pid| format!("process {pid}"));
        let admitted = match regions(&attach, files) {
            Ok(regions) => self.admit_when_free(&attach, regions, &program).await,
            Err(refusal) => Err((refusal, false)),
        };
        let Admitted { info, lease, file, mut bell, layouts } = match admitted {
            Ok(admitted) => admitted,
            Err((refusal, needs_pass)) => {
                // A program that is to come again with a pass is not refused yet.
                if !needs_pass {
                    self.0.refused.fetch_add(1, Ordering::Relaxed);
                }
                let reply = proto::Attached { refusal, needs_pass, ..Default::default() };
                // A program that has gone away needs no answer.
                let _ = stream.write_all(&framed(&reply)).await;
                return;
            }
        };
        let spec = info.ring.spec();
        let reply = proto::Attached {
            refusal: String::new(),
            needs_pass: false,
            item_size: spec.item_size(),
            ring_size: spec.ring_size(),
            byte_order: match spec.byte_order() {
                ByteOrder::Little => proto::ByteOrder::Little.into(),
                ByteOrder::Big => proto::ByteOrder::Big.into(),
            },
            epoch: info.ring.epoch().into(),
            doorbell: bell.is_some(),
            begun: (info.ring.role() == Role::Consumer)
                .then(|| info.ring.begun().at(info.ring.snapshot().tail.counter)),
            window: info.ring.memory().part().map(|DevicePart { offset, combining }| {
                let what = info.ring.memory().describe();
                proto::Window { offset, combining, what }
            }),
            layouts,
            gpu: info.ring.memory().gpu().map(|gpu| proto::Gpu { uuid: gpu.uuid.into(), mapped: gpu.mapped }),
        };
        let handed_over = hand_over(&mut stream, &framed(&reply), &file).await.is_ok();
        let (mut from, to) = stream.into_split();
        let held = self.0.holders.add(info.id, to, named(&program, pid));
        let left_well =
            handed_over && listen(&mut from, &mut bell, &info).await.is_ok_and(|farewell| farewell);
        self.ended(&info, lease, left_well, &program);
        drop(held);
    }

    /// As [`admit`](Self::admit), once a program is noted to be gone that had the ring, and the ring is not held, for which the program
    /// waits a moment. A refusal says whether it is for want of a pass.
    async fn admit_when_free(
        &self,
        attach: &proto::Attach,
        mut regions: Vec<Arc<dyn Memory>>,
        program: &str,
    ) -> Result<Admitted, (String, bool)> {
        let begun = tokio::time::Instant::now();
        loop {
            let info = self.ring(&attach.ring).ok();
            if info.as_ref().is_some_and(|info| !self.0.passes.fits(info.id, &attach.pass)) {
                return Err((no_pass(attach), true));
            }
            let leaving = info.and_then(|info| self.0.holders.is_leaving(info.id));
            // Asked behind a refusal: the hold may have begun meanwhile.
            let is_held = || self.ring(&attach.ring).is_ok_and(|info| info.open().is_err());
            match (self.admit(attach, &mut regions, program), leaving) {
                // Ends with an error, since nothing is sent.
                (Err(_), Some(mut leaving)) => drop(leaving.changed().await),
                // The ring goes, or it stays.
                (Err(_), None) if is_held() && begun.elapsed() < HELD => tokio::time::sleep(AGAIN).await,
                (done, _) => return done.map_err(|refusal| (refusal, false)),
            }
        }
    }

    /// The ring, if the program may have it, and a descriptor of its memory.
    /// `regions` are taken if it is.
    fn admit(
        &self,
        attach: &proto::Attach,
        regions: &mut Vec<Arc<dyn Memory>>,
        program: &str,
    ) -> Result<Admitted, String> {
        if attach.version != VERSION {
            return Err(format!(
                "the program speaks version {} of the protocol, this agent {VERSION}: use programs and agents of one release",
                attach.version
            ));
        }
        let name = &attach.ring;
        let wanted = match attach.role() {
            proto::Role::Producer => Role::Producer,
            proto::Role::Consumer => Role::Consumer,
            proto::Role::Unspecified => return Err(format!("ring `{name}`: the program names no role")),
        };
        let info = self.ring(name).map_err(|e| e.to_string())?;
        if info.ring.role() != wanted {
            return Err(format!(
                "ring `{name}`: a {wanted} handle cannot be attached to a {} ring",
                info.ring.role()
            ));
        }
        reachable(name, &info.ring).map_err(|e| e.to_string())?;
        let layouts = info.ring.memory().layouts();
        if layouts.is_none() && !regions.is_empty() {
            return Err(format!(
                "ring `{name}` has no layouts, so no memory can be registered there: its host or member takes `memory: layouts` in the \
                 topology"
            ));
        }
        // Of a consumer that has ended no layout is left in the ring.
        let drained = || wanted == Role::Consumer || info.ring.snapshot().fill() == 0;
        if let Some(layouts) = layouts {
            self.room_for(regions)
                .and_then(|()| layouts.accepts(regions, drained()))
                .map_err(|why| format!("ring `{name}`: {why}"))?;
        }
        let file = info.ring.memory().file();
        let file =
            file.ok_or_else(|| format!("ring `{name}` lies in memory that only its agent can reach"))?;
        let file = file.try_clone_to_owned().map_err(|e| format!("ring `{name}`: its descriptor: {e}"))?;
        let bell = self.bell_of(&info);
        let (info, lease) = self.lease(name, program).map_err(|e| self.refusal(&info, &e))?;
        self.0.passes.used(info.id, &attach.pass);
        let drained = drained();
        let layouts = info.ring.memory().layouts();
        let layouts = layouts.map(|layouts| layouts.register(std::mem::take(regions), drained));
        Ok(Admitted { info, lease, file, bell, layouts })
    }

    /// Whether a program may register so much memory here: at most what rings have left of the agent's limit.
    fn room_for(&self, regions: &[Arc<dyn Memory>]) -> Result<(), String> {
        let Some(limit) = self.0.memory_limit else { return Ok(()) };
        let wanted: u64 = regions.iter().map(|memory| memory.len() as u64).sum();
        let left = limit.saturating_sub(self.lock().bytes);
        match wanted <= left {
            true => Ok(()),
            false => Err(format!(
                "{wanted} B of memory are too much to register: of this agent's limit of {limit} B, {left} B are left"
            )),
        }
    }

    /// Why a program can't have the ring, and what to do.
    fn refusal(&self, info: &RingInfo, error: &AgentError) -> String {
        let AgentError::Attach { source, .. } = error else { return error.to_string() };
        let role = match source {
            AttachError::Attached(role) => role,
            AttachError::Closed => {
                return format!(
                    "ring `{}`: its stream has ended, and nothing can be pushed behind that: delete the flow and create it again; a \
                     program that others are to follow is started with --keep-open",
                    info.name
                );
            }
            _ => return error.to_string(),
        };
        let holder = self.0.holders.program(info.id).unwrap_or_else(|| "another program".to_owned());
        format!(
            "ring `{}` has its {role} already, {holder}: end that one first, or choose another member of the flow",
            info.name
        )
    }

    /// Tells how a program has left. The side is free again before anybody can hear of it.
    fn ended(&self, info: &RingInfo, lease: Lease, left_well: bool, program: &str) {
        let left = lease.left();
        let (kind, detail) = match (left, left_well) {
            (Left::GaveUp, _) => (EventKind::Died, format!("{program} gave up")),
            (Left::Finished, _) => (EventKind::Left, format!("{program} has finished")),
            (Left::Open, true) => (EventKind::Left, format!("{program} has left")),
            (Left::Open, false) => (EventKind::Died, format!("{program} died")),
        };
        // Of what is gone it was said already, and nothing can be read.
        let (kind, detail) = match info.ring.memory().trouble() {
            Some(_) => (EventKind::Left, format!("{program} has left")),
            None => (kind, detail),
        };
        if let Some(layouts) = info.ring.memory().layouts() {
            layouts.retire();
        }
        // At one moment for whoever comes next, of whom is heard behind this.
        let mut table = self.lock();
        drop(lease);
        // For who is not there to hear of it.
        if let Some(ring) = table.rings.get_mut(&info.name).filter(|ring| ring.id == info.id) {
            ring.finished = left == Left::Finished;
            if kind == EventKind::Died {
                ring.died = Some(detail.clone());
            }
        }
        self.emit(kind, info, &detail);
        // The program waits for this.
        self.0.holders.remove(info.id);
    }
}

/// The parts that a program gets.
struct Admitted {
    info: RingInfo,
    lease: Lease,
    /// Of the ring's memory.
    file: OwnedFd,
    bell: Option<Box<dyn Doorbell>>,
    /// The number of its first region, if the ring's items may be layouts.
    layouts: Option<u32>,
}

/// The memory that a program registers.
fn regions(attach: &proto::Attach, files: Vec<OwnedFd>) -> Result<Vec<Arc<dyn Memory>>, String> {
    let (name, registered) = (&attach.ring, &attach.registered);
    if registered.len() != files.len() {
        return Err(format!(
            "ring `{name}`: the program registers {} regions, and {} descriptors came: expected {MOST_REGISTERED} at most",
            registered.len(),
            files.len()
        ));
    }
    let open = |(bytes, file): (&u64, OwnedFd)| {
        // The NIC must not be the one that makes its pages.
        let there = rustix::fs::fstat(&file).map_or(0, |stat| stat.st_blocks as u64 * 512);
        if there < *bytes {
            return Err(format!(
                "ring `{name}`: {bytes} B of memory are to be registered, of which only {there} B have pages (fallocate)"
            ));
        }
        let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
        let memory = SharedMemory::open(file, bytes, ByteOrder::NATIVE);
        memory.map(|memory| Arc::new(memory) as Arc<dyn Memory>).map_err(|e| format!("ring `{name}`: {e}"))
    };
    registered.iter().zip(files).map(open).collect()
}

/// Why a program without leave of the controller can't have a ring, and what to do.
fn no_pass(attach: &proto::Attach) -> String {
    let has = if attach.pass.is_empty() { "has none" } else { "shows one that is not good, or no more" };
    format!(
        "ring `{}`: programs of this system, which has certificates, attach by a pass from the controller, and this one {has}: attach by \
         the flow's name, with a certificate of the role program or operator",
        attach.ring
    )
}

/// `program` with its command line, as far as the system tells it.
fn named(program: &str, pid: Option<i32>) -> String {
    let said = pid.and_then(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok()).unwrap_or_default();
    let words: Vec<_> =
        said.split(|b| *b == 0).filter(|w| !w.is_empty()).map(String::from_utf8_lossy).collect();
    let Some(first) = words.first() else { return program.to_owned() };
    let command = [&[first.rsplit('/').next().unwrap_or(first).into()], &words[1..]].concat().join(" ");
    let shown: String = command.chars().filter(|c| !c.is_control()).take(LONGEST_COMMAND).collect();
    format!("{program} ({shown})")
}

/// Rings as often as the program asks for it, until it leaves. Says whether it did so in good order.
async fn listen(
    stream: &mut OwnedReadHalf,
    bell: &mut Option<Box<dyn Doorbell>>,
    info: &RingInfo,
) -> io::Result<bool> {
    loop {
        match stream.read_u8().await? {
            FAREWELL => return Ok(true),
            BELL => {
                let (head, flags) = (stream.read_u32_le().await?, stream.read_u32_le().await?);
                if let Some(bell) = bell {
                    bell.ring(head, flags);
                }
            }
            BEGUN => {
                let (tail, records) = (stream.read_u32_le().await?, stream.read_u32_le().await?);
                info.ring.begun().set(tail, records);
            }
            _ => return Ok(false),
        }
    }
}
