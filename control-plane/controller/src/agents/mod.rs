//! The hosts' agents, as the controller calls them: few calls, each for many rings, and none waits for ever.

pub(crate) mod call;
pub(crate) mod program_sockets;

use crate::agents::call::{PATIENCE, Questions, Whom, ask, refused};
use crate::times::agents::{ASK, CONNECT, FRESH, SAY};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use tracing::Instrument;
use zsr_api::{agent as proto, agent::agent_client::AgentClient};
use zsr_plan::dataplane::flow::{DataPlane, Hosts};
use zsr_plan::dataplane::model::{Flow, Ring};
use zsr_plan::dataplane::{Qp, RingAddress, SwitchAddress};
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_switch::patience::within;
use zsr_topology::{ByteOrder, MemoryKind};

/// In a ring's flags: nothing comes behind `head` (ring ABI version 1).
pub(crate) const CLOSED: u32 = zsr_ring::Flags::CLOSED.0;
/// Lists of all rings of a host may be long.
const MAX_MESSAGE: usize = 64 << 20;

/// Clients of all agents; they connect when they are used, and again when a connection is lost.
#[derive(Clone, Debug)]
pub struct Agents(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// By host: the client, and the URI.
    clients: HashMap<String, (AgentClient<Channel>, String)>,
    questions: Questions,
    /// By host: ends when its agent has been told all that it is to be told without anybody waiting for it.
    farewells: Mutex<HashMap<String, watch::Receiver<()>>>,
    /// By host: when its agent has answered last.
    heard: Mutex<HashMap<String, Instant>>,
}

impl Agents {
    /// Clients of the agents of `hosts`.
    ///
    /// # Errors
    /// When a host's agent has no sound URI.
    pub fn new(hosts: &Hosts) -> Result<Self, ControllerError> {
        let client = |(name, host): (&String, &zsr_plan::dataplane::model::Host)| {
            let settings = |endpoint: Endpoint| {
                endpoint
                    .connect_timeout(CONNECT)
                    .http2_keep_alive_interval(ASK)
                    .keep_alive_timeout(SAY)
                    .keep_alive_while_idle(true)
            };
            let channel = host.agent.connect_lazy(settings).map_err(|e| {
                ControllerError::new(
                    ErrorKind::Invalid,
                    format!("host `{name}`: agent `{}`: {e}", host.agent),
                )
            })?;
            let client = AgentClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
            Ok((name.clone(), (client, host.agent.uri())))
        };
        let clients = hosts.iter().map(client).collect::<Result<_, ControllerError>>()?;
        let (farewells, heard) = (Mutex::default(), Mutex::default());
        Ok(Agents(Arc::new(Inner { clients, questions: Questions::default(), farewells, heard })))
    }

    /// Questions to agents that have been open for a while.
    pub(crate) fn unanswered(&self) -> Vec<String> {
        self.0.questions.unanswered()
    }

    /// Questions that agents have not answered yet, and for how long.
    pub(crate) fn asked(&self) -> Vec<(String, Duration)> {
        self.0.questions.open()
    }

    /// Asks a host's agent to do `what`, again while the connection breaks.
    async fn ask<T, F>(
        &self,
        host: &str,
        what: &str,
        mut call: impl FnMut(AgentClient<Channel>) -> F,
    ) -> Result<T, ControllerError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let client = self.of(host)?;
        let uri = self.0.clients.get(host).map_or("", |(_, uri)| uri);
        let answer = ask(&self.0.questions, Whom { host, uri }, what, || call(client.clone())).await;
        if answer.is_ok() {
            lock(&self.0.heard).insert(host.to_owned(), Instant::now());
        }
        answer
    }

    /// The hosts in `hosts` whose agents answer within `time`.
    pub(crate) async fn answering(&self, hosts: BTreeSet<String>, time: Duration) -> BTreeSet<String> {
        let mut calls = JoinSet::new();
        for host in hosts {
            let Ok(mut client) = self.of(&host) else { continue };
            calls.spawn(async move {
                let asked = client.get_info(proto::GetInfoRequest {});
                matches!(within(time, asked).await, Ok(Ok(_))).then_some(host)
            });
        }
        let mut out = BTreeSet::new();
        while let Some(done) = calls.join_next().await {
            out.extend(done.ok().flatten());
        }
        out
    }

    /// Waits until the agents of `hosts` answer and have carried out earlier requests. Call this before a change has
    /// its turn: the change then does not wait for an agent that hangs while others wait for the change.
    ///
    /// # Errors
    /// The first that does not answer in time.
    pub(crate) async fn ready(&self, hosts: BTreeSet<String>) -> Result<(), ControllerError> {
        let mut calls = JoinSet::new();
        for host in hosts {
            let heard = lock(&self.0.heard).get(&host).is_some_and(|at| at.elapsed() < FRESH);
            if self.of(&host).is_err() || heard && self.farewell_of(&host).is_none() {
                continue;
            }
            let own = self.clone();
            let asking = async move {
                let what = "say that it is there";
                let say = |mut client: AgentClient<Channel>| async move {
                    client.get_info(proto::GetInfoRequest {}).await
                };
                own.ask(&host, what, say).await?;
                own.told(BTreeSet::from([host])).await;
                Ok(())
            };
            calls.spawn(asking.in_current_span());
        }
        let mut result = Ok(());
        while let Some(done) = calls.join_next().await {
            let internal =
                |e: tokio::task::JoinError| ControllerError::new(ErrorKind::Internal, e.to_string());
            result = result.and(done.unwrap_or_else(|e| Err(internal(e))));
        }
        result
    }

    /// Tells a host's agent something for which nobody waits, behind all that it was to be told before.
    fn tell(&self, host: &str, telling: impl Future<Output = ()> + Send + 'static) {
        let (telling_ends, told) = watch::channel(());
        let before = lock(&self.0.farewells).insert(host.to_owned(), told);
        let later = async move {
            if let Some(mut before) = before {
                // An error: nothing is ever sent, and its sender is gone.
                let _ = before.changed().await;
            }
            telling.await;
            drop(telling_ends);
        };
        tokio::spawn(later.in_current_span());
    }

    fn farewell_of(&self, host: &str) -> Option<watch::Receiver<()>> {
        let mut farewells = lock(&self.0.farewells);
        let told = farewells.get(host)?;
        if told.has_changed().is_err() {
            farewells.remove(host);
        }
        farewells.get(host).cloned()
    }

    /// Waits until agents have got all earlier requests, but no longer than an agent may take to answer.
    pub(crate) async fn told(&self, hosts: BTreeSet<String>) {
        let until = Instant::now() + PATIENCE;
        for host in hosts {
            if let Some(mut told) = self.farewell_of(&host) {
                // As above; and those who take longer are not waited for.
                let _ = tokio::time::timeout_at(until, told.changed()).await;
            }
        }
    }

    /// The client of a host's agent.
    pub fn of(&self, host: &str) -> Result<AgentClient<Channel>, ControllerError> {
        let missing = || ControllerError::new(ErrorKind::NotFound, format!("no host is called `{host}`"));
        self.0.clients.get(host).map(|(client, _)| client.clone()).ok_or_else(missing)
    }

    /// Names of all hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &String> {
        self.0.clients.keys()
    }

    /// Has the agents make and connect those rings of `flows` that have no address yet, and notes their addresses.
    ///
    /// # Errors
    /// The first refusal; then no ring is left of those that were made.
    pub async fn open(
        &self,
        flows: &mut [&mut Flow],
        plane: &DataPlane,
        hosts: &Hosts,
    ) -> Result<(), ControllerError> {
        let mut calls = JoinSet::new();
        let missing = flows.iter().map(|flow| &**flow);
        let missing = missing.flat_map(|flow| flow.rings().map(move |ring| (flow, ring)));
        let missing = missing.filter(|(_, ring)| ring.address.is_none());
        for (host, rings) in grouped(missing.map(|(flow, ring)| (ring.host.as_str(), (flow, ring)))) {
            let (order, memory) = hosts
                .get(host)
                .map_or((ByteOrder::Little, MemoryKind::Host), |h| (h.station.byte_order, h.memory));
            let open = |(flow, ring): &(&Flow, &Ring)| open_ring(ring, flow, plane, order, memory);
            let request = proto::OpenRingsRequest { rings: rings.iter().map(open).collect() };
            let names: Vec<String> = rings.iter().map(|(_, r)| r.name.clone()).collect();
            let (own, host, mut again) = (self.clone(), host.to_owned(), false);
            let opening = async move {
                // Rings of these names may have been there before.
                own.told(BTreeSet::from([host.clone()])).await;
                let what = format!("make {}", count(names.len()));
                let open = |mut client: AgentClient<Channel>| {
                    // The answer to the last attempt may be what was lost.
                    let undo = std::mem::replace(&mut again, true).then(|| names.clone());
                    let request = request.clone();
                    async move {
                        if let Some(names) = undo {
                            client
                                .close_rings(proto::CloseRingsRequest { names, ..Default::default() })
                                .await?;
                        }
                        client.open_rings(request).await
                    }
                };
                let answer = own.ask(&host, &what, open).await;
                (host, answer)
            };
            calls.spawn(opening.in_current_span());
        }
        let mut failure = None;
        let mut silent = BTreeSet::new();
        let mut opened: HashMap<String, RingAddress> = HashMap::new();
        while let Some(done) = calls.join_next().await {
            match done {
                Ok((_, Ok(answer))) => {
                    opened.extend(answer.rings.into_iter().map(|r| (r.name.clone(), address(&r))))
                }
                Ok((host, Err(refusal))) => {
                    if refusal.kind == ErrorKind::Unavailable {
                        silent.insert(host);
                    }
                    failure = failure.or(Some(refusal));
                }
                Err(e) => {
                    failure = failure.or(Some(ControllerError::new(ErrorKind::Internal, e.to_string())))
                }
            }
        }
        if let Some(refusal) = failure {
            // An agent that has not answered may make them when it goes on.
            let made =
                |r: &&Ring| opened.contains_key(&r.name) || r.address.is_none() && silent.contains(&r.host);
            self.close(flows.iter().flat_map(|flow| flow.rings()).filter(made), &refusal.message, false);
            return Err(refusal);
        }
        for ring in flows.iter_mut().flat_map(|flow| flow.rings_mut()) {
            if let Some(address) = opened.remove(&ring.name) {
                ring.address = Some(address);
            }
        }
        Ok(())
    }

    /// Has the agents destroy rings; `told` waits for that. Programs in the rings are told `reason`. If they pop and
    /// the ring has `finished`, they are told that the stream ends behind the items in it. Agents that do not answer
    /// are passed over: their rings are gone with them, or are found when the agents are met again.
    pub fn close<'r>(&self, rings: impl Iterator<Item = &'r Ring>, reason: &str, finished: bool) {
        for (host, rings) in by_host(rings) {
            let names = rings.iter().map(|r| r.name.clone()).collect();
            let request = proto::CloseRingsRequest { names, reason: reason.to_owned(), finished };
            let what = format!("destroy {}", count(rings.len()));
            self.close_as(host, request, what);
        }
    }

    /// Has an agent destroy rings, as [`close`](Self::close) does.
    pub(crate) fn close_as(&self, host: &str, request: proto::CloseRingsRequest, what: String) {
        let (own, whom) = (self.clone(), host.to_owned());
        self.tell(host, async move {
            let close = |mut client: AgentClient<Channel>| {
                let request = request.clone();
                async move { client.close_rings(request).await }
            };
            let _ = own.ask(&whom, &what, close).await;
        });
    }

    /// Has the agents end the streams of producer rings that no program has.
    pub async fn end<'r>(&self, rings: impl Iterator<Item = &'r Ring>) {
        for (host, rings) in by_host(rings) {
            let names: Vec<String> = rings.iter().map(|r| r.name.clone()).collect();
            let end = |mut client: AgentClient<Channel>| {
                let request = proto::EndRingsRequest { names: names.clone() };
                async move { client.end_rings(request).await }
            };
            // A host that is lost has nobody to tell.
            let _ = self.ask(host, "end streams", end).await;
        }
    }

    /// Has a host's agent let whoever shows `pass` attach to a ring.
    ///
    /// # Errors
    /// The agent's refusal.
    pub(crate) async fn admit(&self, host: &str, ring: &str, pass: &[u8]) -> Result<(), ControllerError> {
        let request = proto::AdmitProgramRequest { ring: ring.to_owned(), pass: pass.to_owned() };
        let admit = |mut client: AgentClient<Channel>| {
            let request = request.clone();
            async move { client.admit_program(request).await }
        };
        self.ask(host, &format!("admit a program to ring `{ring}`"), admit).await.map(|_| ())
    }

    /// Connects both connections of a ring anew, from the first PSNs of its numbers. The ring's memory and program
    /// stay.
    ///
    /// # Errors
    /// The agent's refusal.
    pub async fn reconnect(&self, ring: &Ring, mtu: u32, plane: &DataPlane) -> Result<(), ControllerError> {
        let name = ring.name.clone();
        let (data, poll) =
            (Some(target(ring.ids.data, mtu, plane, false)), Some(target(ring.ids.poll, mtu, plane, true)));
        let request = proto::ConnectRingRequest { name, data, poll, doorbell_secret: None };
        let connect = |mut client: AgentClient<Channel>| {
            let request = request.clone();
            async move {
                client.disconnect_ring(proto::DisconnectRingRequest { name: request.name.clone() }).await?;
                client.connect_ring(request).await
            }
        };
        self.ask(&ring.host, &format!("connect ring `{}` anew", ring.name), connect).await.map(|_| ())
    }

    /// Tells the programs of rings that their flow has ended, and disconnects the rings. `told` waits for that.
    pub fn abort<'r>(&self, rings: impl Iterator<Item = &'r Ring>, reason: &str) {
        for (host, rings) in by_host(rings) {
            let names: Vec<String> = rings.iter().map(|r| r.name.clone()).collect();
            let (own, whom, reason) = (self.clone(), host.to_owned(), reason.to_owned());
            self.tell(host, async move {
                for name in names {
                    let request = proto::AbortRingRequest { name, reason: reason.clone() };
                    let abort = |mut client: AgentClient<Channel>| {
                        let request = request.clone();
                        async move { client.abort_ring(request).await }
                    };
                    // An agent that does not answer would not answer for the next ring either; a ring may be gone.
                    let done = own.ask(&whom, "abort rings", abort).await;
                    if done.is_err_and(|e| e.kind == ErrorKind::Unavailable) {
                        break;
                    }
                }
            });
        }
    }

    /// The agents' words about rings, by name. Rings of agents that do not answer are left out, and the refusal is
    /// returned.
    pub async fn look<'r>(
        &self,
        rings: impl Iterator<Item = &'r Ring>,
    ) -> (HashMap<String, proto::Ring>, Option<ControllerError>) {
        self.look_and_hold(rings, None).await
    }

    /// As [`look`](Self::look). No program can take the producer rings among them for the time `hold` from then on. Agents of the version
    /// before only say what is there.
    pub(crate) async fn look_and_hold<'r>(
        &self,
        rings: impl Iterator<Item = &'r Ring>,
        hold: Option<Duration>,
    ) -> (HashMap<String, proto::Ring>, Option<ControllerError>) {
        let seen = self.look_at(by_host(rings), Besides { figures: false, hold }, PATIENCE).await;
        (seen.rings, seen.failure)
    }

    /// The agents' words about rings, and about `hosts`: their figures. Hosts may have none of the rings.
    pub(crate) async fn look_within<'r>(
        &self,
        rings: impl Iterator<Item = &'r Ring>,
        hosts: &'r [String],
        time: Duration,
    ) -> Seen {
        let mut by_host = by_host(rings);
        for host in hosts {
            by_host.entry(host).or_default();
        }
        self.look_at(by_host, Besides { figures: !hosts.is_empty(), hold: None }, time).await
    }

    async fn look_at(&self, at: BTreeMap<&str, Vec<&Ring>>, besides: Besides, time: Duration) -> Seen {
        let Besides { figures, hold } = besides;
        let hold_ms = hold.map(|time| time.as_millis() as u32);
        let mut calls = JoinSet::new();
        for (host, rings) in at {
            let names = rings.iter().map(|r| r.name.clone()).collect();
            let request = proto::ListRingsRequest { names, figures, hold_ms };
            let (own, host) = (self.clone(), host.to_owned());
            let looking = async move {
                let list = |mut client: AgentClient<Channel>| {
                    let request = request.clone();
                    async move { client.list_rings(request).await }
                };
                let asked = own.ask(&host, "say what is in its rings", list);
                let answer = within(time, asked).await.unwrap_or_else(|_| {
                    let seconds = time.as_secs();
                    let message = format!(
                        "host `{host}`: its agent did not say within {seconds} s what is in its rings"
                    );
                    Err(ControllerError::new(ErrorKind::Unavailable, message))
                });
                (host, answer)
            };
            calls.spawn(looking.in_current_span());
        }
        let mut seen = Seen::default();
        while let Some(done) = calls.join_next().await {
            match done {
                Ok((host, Ok(answer))) => {
                    seen.rings.extend(answer.rings.into_iter().map(|r| (r.name.clone(), r)));
                    seen.figures.extend(answer.figures.map(|figures| (host, figures)));
                }
                Ok((_, Err(refusal))) => seen.failure = seen.failure.or(Some(refusal)),
                Err(e) => {
                    let error = ControllerError::new(ErrorKind::Internal, e.to_string());
                    seen.failure = seen.failure.or(Some(error));
                }
            }
        }
        seen
    }
}

/// What a look at rings asks besides.
#[derive(Debug)]
struct Besides {
    /// The figures of their hosts.
    figures: bool,
    /// How long no program can take the rings.
    hold: Option<Duration>,
}

/// What agents have said.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// By the ring's name.
    pub(crate) rings: HashMap<String, proto::Ring>,
    /// By host.
    pub(crate) figures: HashMap<String, proto::HostFigures>,
    /// Why an agent has said nothing.
    failure: Option<ControllerError>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number of rings.
fn count(rings: usize) -> String {
    if rings == 1 { "a ring".to_owned() } else { format!("{rings} rings") }
}

fn by_host<'r>(rings: impl Iterator<Item = &'r Ring>) -> BTreeMap<&'r str, Vec<&'r Ring>> {
    grouped(rings.map(|ring| (ring.host.as_str(), ring)))
}

/// All that has the same key, in order.
pub(crate) fn grouped<K: Ord, T>(all: impl Iterator<Item = (K, T)>) -> BTreeMap<K, Vec<T>> {
    let mut out = BTreeMap::<K, Vec<T>>::new();
    for (key, one) in all {
        out.entry(key).or_default().push(one);
    }
    out
}

fn open_ring(
    ring: &Ring,
    flow: &Flow,
    plane: &DataPlane,
    order: ByteOrder,
    memory: MemoryKind,
) -> proto::OpenRing {
    let role = if ring.ids.is_producer { proto::Role::Producer } else { proto::Role::Consumer };
    proto::OpenRing {
        ring: Some(proto::CreateRingRequest {
            name: ring.name.clone(),
            role: role.into(),
            item_size: flow.item_size.into(),
            ring_size: ring.size.into(),
            byte_order: match order {
                ByteOrder::Little => proto::ByteOrder::Little.into(),
                ByteOrder::Big => proto::ByteOrder::Big.into(),
            },
            start: ring.start,
            memory: ring.memory.unwrap_or(memory).to_string(),
        }),
        data: Some(target(ring.ids.data, flow.mtu, plane, false)),
        poll: Some(target(ring.ids.poll, flow.mtu, plane, true)),
        doorbell_secret: (ring.ids.is_producer && flow.settings.doorbell).then_some(ring.ids.secret),
    }
}

/// The switch's end of a connection.
pub(crate) fn target(qp: Qp, path_mtu: u32, plane: &DataPlane, is_poll: bool) -> proto::QpTarget {
    let SwitchAddress { ip, mac } = plane.address();
    proto::QpTarget {
        qpn: qp.qpn,
        ip: ip.to_string(),
        mac: mac.to_string(),
        rq_psn: qp.psn,
        sq_psn: qp.psn,
        path_mtu,
        traffic_class: plane.traffic().of_host(is_poll).into(),
    }
}

fn address(ring: &proto::Ring) -> RingAddress {
    let qpn = |qp: &Option<proto::QueuePair>| qp.as_ref().map_or(0, |q| q.qpn);
    RingAddress {
        rkey: ring.rkey,
        data_qpn: qpn(&ring.data_qp),
        poll_qpn: qpn(&ring.poll_qp),
        epoch: ring.epoch as u16,
    }
}

/// An agent's answer, in time.
pub(crate) async fn answer<T>(
    host: &str,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, ControllerError> {
    match within(PATIENCE, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(refused(host, &status)),
        Err(_) => {
            let message = format!("host `{host}`: its agent did not answer within {} s", PATIENCE.as_secs());
            Err(ControllerError::new(ErrorKind::Unavailable, message))
        }
    }
}
