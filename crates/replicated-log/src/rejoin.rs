//! A replica that comes back: it takes part in the log again, and gets its state from another one.

use std::time::{Duration, Instant};

use zsr::api::RemoveMemberRequest;
use zsr::{Cancel, ErrorKind, FlowConsumer, FlowProducer, Options, PoppedFrom, Priority, Session, To, Wait};

use crate::StateMachine;
use crate::client::incarnation;
use crate::error::LogError;
use crate::message::{Answer, Entry};
use crate::replica::{Doing, Replica};
use crate::setup::{End, Log, Party};

/// How long a replica that was asked may send nothing, before another one is asked.
const SILENCE: Duration = Duration::from_secs(3);
/// Between two tries to take rings which a program that died has left, and which the controller is about to take away.
const AGAIN: Duration = Duration::from_millis(50);

/// The known part of another replica's state.
struct Asked {
    incarnation: u64,
    donor: String,
    heard: Instant,
    state: Vec<u8>,
    complete: bool,
    /// Entries that came behind the marker, from when it has come.
    behind: Option<Vec<Vec<u8>>>,
}

impl Log {
    /// The member that takes the state for `replica`, while it comes back.
    pub(crate) fn state_member(replica: &str) -> String {
        format!("{replica}-state")
    }

    /// Becomes the replica `replica` of a log that runs, joining it if it was taken out. `state` becomes what another replica's is. Waits for
    /// `time`, which has to be enough for the controller to notice that a predecessor has died (seconds), and for the state to come.
    ///
    /// # Errors
    /// [`LogError::NoState`]: no other replica has sent its state. [`LogError::BadState`]. No such log; the controller refuses.
    pub fn rejoin<S: StateMachine>(
        &self,
        replica: Party<'_>,
        mut state: S,
        cancel: Cancel,
        time: Duration,
    ) -> Result<Replica<S>, LogError> {
        let session = Session::open(&self.contact)?;
        let end = Instant::now() + time;
        loop {
            let tried = self.try_rejoin(&session, replica, &mut state, &cancel, end);
            self.leave_for_good(&session, replica);
            match tried {
                Ok((orders, answers)) => {
                    let (log, member) = (self.clone(), replica.name.to_owned());
                    return Ok(Replica { log, member, state, orders, answers, numbers: None });
                }
                Err(LogError::Flow(e))
                    if matches!(e.kind(), ErrorKind::Ring | ErrorKind::Ended | ErrorKind::NotFound)
                        && Instant::now() < end
                        && !cancel.sleep(AGAIN) => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn try_rejoin<S: StateMachine>(
        &self,
        session: &Session,
        replica: Party<'_>,
        state: &mut S,
        cancel: &Cancel,
        end: Instant,
    ) -> Result<(FlowConsumer, FlowProducer), LogError> {
        let (taker, marker) = (Log::state_member(replica.name), marker_member(replica.name));
        let answers = self.answers();
        self.add(session, &answers, Party { name: &taker, ..replica }, End::Consumer)?;
        self.add(session, &answers, replica, End::Producer)?;
        self.add(session, &self.name, replica, End::Consumer)?;
        self.add(session, &self.name, Party { name: &marker, ..replica }, End::Producer)?;
        let options = |member: &str| Options {
            member: Some(member.to_owned()),
            cancel: cancel.clone(),
            ..Options::default()
        };
        let orders = FlowConsumer::attach(&self.contact, &self.name, &options(replica.name))?;
        let states = FlowConsumer::attach(&self.contact, &answers, &options(&taker))?;
        let mut says = FlowProducer::attach(&self.contact, &answers, &options(replica.name))?;
        let mut markers = FlowProducer::attach(&self.contact, &self.name, &options(&marker))?;

        // Both at once, the state first.
        let mut both = Priority::new(vec![states, orders]);
        let asked = self.fetch_state(session, replica, &mut both, &mut markers, end)?;
        markers.close()?;
        state.restore(&asked.state).map_err(|why| LogError::BadState {
            log: self.name.clone(),
            from: asked.donor,
            why,
        })?;
        let mut doing = Doing { member: replica.name, state, answers: &mut says };
        for record in asked.behind.iter().flatten() {
            let entry = Entry::read(record).ok_or_else(|| self.foreign(&self.name, record))?;
            doing.carry_out(&entry)?;
        }
        doing.flush()?;
        let orders = both.into_flows().find_map(|(at, flow)| (at == 1).then_some(flow));
        // The stream of commands can't have ended, as the marker's has not.
        let orders = orders.ok_or_else(|| LogError::NobodyLeft { log: self.name.clone() })?;
        Ok((orders, says))
    }

    /// Asks one replica after the other for its state, until one has sent it.
    fn fetch_state(
        &self,
        session: &Session,
        replica: Party<'_>,
        both: &mut Priority,
        markers: &mut FlowProducer,
        end: Instant,
    ) -> Result<Asked, LogError> {
        let mut tried: Vec<String> = Vec::new();
        loop {
            let flow = self.flow(session, &self.name)?;
            let others =
                flow.consumers.iter().filter(|member| member.name != replica.name && !member.leaving);
            // All are asked once before one is asked twice.
            let next = others.min_by_key(|member| tried.iter().filter(|name| **name == member.name).count());
            let none = || LogError::NoState {
                log: self.name.clone(),
                asked: if tried.is_empty() { "there is none".to_owned() } else { tried.join(", ") },
            };
            let donor = next.ok_or_else(none)?.name.clone();
            if Instant::now() >= end {
                return Err(none());
            }
            tried.push(donor.clone());
            let incarnation = incarnation();
            let marker = Entry::Marker { incarnation, replica: replica.name, donor: &donor }.write();
            while !markers.push_to(&marker, To::Key, Wait::No)? {
                // There is room when this replica itself pops.
                both.pop_timeout(AGAIN)?;
            }
            markers.flush()?;
            let heard = Instant::now();
            let mut asked =
                Asked { incarnation, donor, heard, state: Vec::new(), complete: false, behind: None };
            while asked.heard.elapsed() < SILENCE && Instant::now() < end {
                self.take(both, &mut asked)?;
                if asked.complete && asked.behind.is_some() {
                    return Ok(asked);
                }
            }
        }
    }

    /// Takes what has come: pieces of the state, or entries of the log.
    fn take(&self, both: &mut Priority, asked: &mut Asked) -> Result<(), LogError> {
        match both.pop_timeout(AGAIN)? {
            PoppedFrom::Nothing | PoppedFrom::End => {}
            PoppedFrom::Batch(0, batch) => {
                for record in batch.records() {
                    let record = record?;
                    let answer = Answer::read(record).ok_or_else(|| self.foreign(&self.answers(), record))?;
                    asked.add(&answer);
                }
            }
            PoppedFrom::Batch(_, batch) => {
                for record in batch.records() {
                    let record = record?;
                    match Entry::read(record).ok_or_else(|| self.foreign(&self.name, record))? {
                        Entry::Marker { incarnation, .. } if incarnation == asked.incarnation => {
                            asked.behind = Some(Vec::new());
                            asked.heard = Instant::now();
                        }
                        _ => asked.behind.iter_mut().for_each(|behind| behind.push(record.to_vec())),
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the members away that a replica has only while it comes back. A removal that fails now is done when the
    /// replica comes back again.
    fn leave_for_good(&self, session: &Session, replica: Party<'_>) {
        let gone = [
            (self.answers(), Log::state_member(replica.name)),
            (self.name.clone(), marker_member(replica.name)),
        ];
        for (flow, member) in gone {
            let request = RemoveMemberRequest { flow, member, force: true, others: Vec::new() };
            let _ = session.change(|mut c| async move { c.remove_member(request).await });
        }
    }
}

/// The member that pushes the marker for `replica`, while it comes back.
fn marker_member(replica: &str) -> String {
    format!("{replica}-marker")
}

impl Asked {
    fn add(&mut self, answer: &Answer<'_>) {
        let Answer::Piece { incarnation, offset, total, bytes } = *answer else { return };
        if incarnation != self.incarnation || offset != self.state.len() as u64 {
            return;
        }
        self.state.extend_from_slice(bytes);
        self.heard = Instant::now();
        self.complete = self.state.len() as u64 == total;
    }
}
