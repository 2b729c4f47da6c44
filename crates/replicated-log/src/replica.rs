//! The replicas of a log, which carry commands out.

use std::collections::HashMap;
use std::time::Duration;

use zsr::{Cancel, FlowConsumer, FlowProducer, Options, Popped, ProgramError, Wait};

use crate::StateMachine;
use crate::error::LogError;
use crate::message::{Answer, Entry, HEAD};
use crate::setup::Log;

/// How long a replica that sends its state waits for room for a piece of it. It carries nothing out meanwhile.
const ROOM: Duration = Duration::from_secs(5);

/// A replica of a log. Dropping it takes it out of the log; [`leave`](Self::leave) does not.
pub struct Replica<S> {
    pub(crate) log: Log,
    pub(crate) member: String,
    pub(crate) state: S,
    pub(crate) orders: FlowConsumer,
    pub(crate) answers: FlowProducer,
    /// The next number of each client's program, of a replica that has seen all of the log.
    pub(crate) numbers: Option<HashMap<u64, u64>>,
}

/// The outcome of a [`Replica::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Carried out so many commands.
    CarriedOut(usize),
    /// Nothing came.
    Nothing,
    /// Nothing will come: all clients have closed, and all is carried out.
    End,
}

impl Log {
    /// Becomes the replica `member` of a log that has just been created, with a state that is the same at all of them. `cancel` ends calls that wait.
    ///
    /// # Errors
    /// No such log or member, rings taken by others; [`LogError::NotTheFirst`].
    pub fn begin<S: StateMachine>(
        &self,
        member: &str,
        state: S,
        cancel: Cancel,
    ) -> Result<Replica<S>, LogError> {
        let options = Options { member: Some(member.to_owned()), cancel, ..Options::default() };
        let mut orders = FlowConsumer::attach(&self.contact, &self.name, &options)?;
        if orders.ring().is_none_or(|ring| ring.snapshot().tail.counter != 0) {
            orders.leave();
            return Err(self.not_the_first(member, "another program has popped from its ring before"));
        }
        let answers = match FlowProducer::attach(&self.contact, &self.answers(), &options) {
            Ok(answers) => answers,
            Err(e) => {
                orders.leave();
                return Err(e.into());
            }
        };
        let numbers = Some(HashMap::new());
        Ok(Replica { log: self.clone(), member: member.to_owned(), state, orders, answers, numbers })
    }

    pub(crate) fn not_the_first(&self, replica: &str, why: &'static str) -> LogError {
        LogError::NotTheFirst { log: self.name.clone(), replica: replica.to_owned(), why }
    }

    pub(crate) fn foreign(&self, flow: &str, record: &[u8]) -> LogError {
        LogError::Foreign { log: self.name.clone(), flow: flow.to_owned(), bytes: record.len() }
    }
}

impl<S: StateMachine> Replica<S> {
    /// The member that it is.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// The replica's state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Carries out what has come, and waits for `time` for something to come. Returns after some commands, so that others can be
    /// waited for, too.
    ///
    /// # Errors
    /// The flows have failed, this replica was taken out of them, cancelled: call [`Log::rejoin`] to come back. [`LogError::Foreign`],
    /// [`LogError::NotTheFirst`]: the state is not that of others from there on.
    pub fn step(&mut self, time: Duration) -> Result<Step, LogError> {
        let batch = match self.orders.pop_timeout(time)? {
            Popped::Nothing => return Ok(Step::Nothing),
            Popped::End => return Ok(Step::End),
            Popped::Batch(batch) => batch,
        };
        let mut carried_out = 0;
        let mut doing = Doing { member: &self.member, state: &mut self.state, answers: &mut self.answers };
        for record in batch.records() {
            let record = record?;
            let entry = Entry::read(record).ok_or_else(|| self.log.foreign(&self.log.name, record))?;
            if let (Entry::Command { incarnation, number, .. }, Some(numbers)) = (&entry, &mut self.numbers) {
                let next = numbers.entry(*incarnation).or_default();
                if number != next {
                    return Err(self
                        .log
                        .not_the_first(&self.member, "commands were carried out before it came"));
                }
                *next += 1;
            }
            carried_out += usize::from(doing.carry_out(&entry)?);
        }
        doing.flush()?;
        Ok(Step::CarriedOut(carried_out))
    }

    /// Carries out all that comes, until all clients have closed.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run(&mut self) -> Result<(), LogError> {
        while self.step(Duration::from_secs(1))? != Step::End {}
        Ok(())
    }

    /// Leaves the log as it is, and gives the state: commands wait for a program that goes on. That program has to be
    /// one that [rejoins](Log::rejoin).
    ///
    /// # Errors
    /// The flow of answers has failed.
    pub fn leave(self) -> Result<S, LogError> {
        self.orders.leave();
        self.answers.leave()?;
        Ok(self.state)
    }
}

/// The parts that a replica needs to carry out commands.
pub(crate) struct Doing<'r, S> {
    pub(crate) member: &'r str,
    pub(crate) state: &'r mut S,
    pub(crate) answers: &'r mut FlowProducer,
}

impl<S: StateMachine> Doing<'_, S> {
    /// Carries an entry of the log out, and says whether it was a command.
    pub(crate) fn carry_out(&mut self, entry: &Entry<'_>) -> Result<bool, LogError> {
        match *entry {
            Entry::Command { incarnation, number, client, command } => {
                let answer = self.state.apply(command);
                let message = if answer.len() <= Log::MAX_MESSAGE {
                    Answer::Said { incarnation, number, answer: &answer }
                } else {
                    Answer::TooLong { incarnation, number, bytes: answer.len() as u64 }
                };
                // A client that has no room reads no answers, and others must not wait for it.
                self.say(&message, client, Wait::No)?;
                Ok(true)
            }
            Entry::Marker { incarnation, replica, donor } => {
                if donor == self.member {
                    self.send_state(incarnation, &Log::state_member(replica))?;
                }
                Ok(false)
            }
        }
    }

    /// Gives answers to the switch.
    pub(crate) fn flush(&mut self) -> Result<(), LogError> {
        match self.answers.flush() {
            // Answers to a client that is gone.
            Err(ProgramError::Lost { .. }) => Ok(()),
            flushed => Ok(flushed?),
        }
    }

    /// Says whether there was somebody to take it, and room.
    fn say(&mut self, message: &Answer<'_>, to: &str, wait: Wait) -> Result<bool, LogError> {
        let message = message.write();
        loop {
            match self.answers.push_to_member(&message, to, wait) {
                // Earlier answers, to a client that is gone.
                Err(ProgramError::Lost { .. }) => {}
                Err(ProgramError::NoMember { .. }) => return Ok(false),
                pushed => return Ok(pushed?),
            }
        }
    }

    fn send_state(&mut self, incarnation: u64, to: &str) -> Result<(), LogError> {
        let state = self.state.snapshot();
        let total = state.len() as u64;
        let mut pieces = state.chunks(Log::MAX_MESSAGE - HEAD);
        let (mut offset, mut piece) = (0, pieces.next().unwrap_or_default());
        loop {
            let message = Answer::Piece { incarnation, offset, total, bytes: piece };
            // It is gone, or it does not read: it will ask again.
            if !self.say(&message, to, Wait::For(ROOM))? {
                return Ok(());
            }
            offset += piece.len() as u64;
            match pieces.next() {
                Some(next) => piece = next,
                None => return self.flush(),
            }
        }
    }
}
