//! The clients of a log, which have commands carried out.

use std::time::{Duration, Instant};

use zsr::{Cancel, FlowConsumer, FlowProducer, Options, Popped, To, Wait};

use crate::error::LogError;
use crate::message::{Answer, Entry};
use crate::setup::Log;

/// A client of a log, which has one command under way at a time.
///
/// A client that is dropped is taken out of the log; [`leave`](Self::leave) does not.
pub struct LogClient {
    log: String,
    member: String,
    orders: FlowProducer,
    answers: FlowConsumer,
    incarnation: u64,
    next: u64,
}

impl Log {
    /// Becomes the client `member`; `None`: the first whose rings are free and which is no replica. `cancel` ends calls that wait.
    ///
    /// # Errors
    /// No such log or member, rings taken by others.
    pub fn client(&self, member: Option<&str>, cancel: Cancel) -> Result<LogClient, LogError> {
        let options = |member: Option<&str>| Options {
            member: member.map(str::to_owned),
            cancel: cancel.clone(),
            ..Options::default()
        };
        let orders = FlowProducer::attach(&self.contact, &self.name, &options(member))?;
        let member = orders.member().to_owned();
        let answers = FlowConsumer::attach(&self.contact, &self.answers(), &options(Some(&member)))?;
        Ok(LogClient { log: self.name.clone(), member, orders, answers, incarnation: incarnation(), next: 0 })
    }
}

/// A random number.
pub(crate) fn incarnation() -> u64 {
    // There is no system without random numbers that zsr runs on.
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}

impl LogClient {
    /// The member that it is.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Has `command` carried out by all replicas, and gives the answer of the first of them. Waits for `time`, for room
    /// and answer together.
    ///
    /// # Errors
    /// [`LogError::TooLong`]. [`LogError::NoAnswer`], after which the command may be carried out all the same. The
    /// flows have failed, this client was taken out of them, or the call was cancelled.
    pub fn call(&mut self, command: &[u8], time: Duration) -> Result<Vec<u8>, LogError> {
        let most = Log::MAX_MESSAGE;
        if command.len() > most {
            return Err(LogError::TooLong {
                log: self.log.clone(),
                what: "the command",
                bytes: command.len(),
                most,
            });
        }
        let (incarnation, number) = (self.incarnation, self.next);
        let entry = Entry::Command { incarnation, number, client: &self.member, command }.write();
        let begun = Instant::now();
        let late = || LogError::NoAnswer { log: self.log.clone(), after: time };
        if !self.orders.push_to(&entry, To::Key, Wait::For(time))? {
            return Err(late());
        }
        self.next += 1;
        self.orders.flush()?;
        loop {
            let left = time.checked_sub(begun.elapsed()).ok_or_else(late)?;
            match self.answers.pop_timeout(left)? {
                Popped::Nothing => return Err(late()),
                Popped::End => return Err(LogError::NobodyLeft { log: self.log.clone() }),
                Popped::Batch(batch) => {
                    if let Some(answer) = answer_in(&self.log, &batch, incarnation, number)? {
                        return Ok(answer);
                    }
                }
            }
        }
    }
}

/// The first answer to this command among records. The others are of other replicas, to commands that were answered before.
fn answer_in(
    log: &str,
    batch: &zsr::Batch<'_>,
    incarnation: u64,
    number: u64,
) -> Result<Option<Vec<u8>>, LogError> {
    for record in batch.records() {
        let record = record?;
        let foreign =
            || LogError::Foreign { log: log.to_owned(), flow: format!("{log}-answers"), bytes: record.len() };
        match Answer::read(record).ok_or_else(foreign)? {
            Answer::Said { incarnation: of, number: to, answer } if (of, to) == (incarnation, number) => {
                return Ok(Some(answer.to_vec()));
            }
            Answer::TooLong { incarnation: of, number: to, bytes } if (of, to) == (incarnation, number) => {
                return Err(LogError::TooLong {
                    log: log.to_owned(),
                    what: "the answer",
                    bytes: bytes as usize,
                    most: Log::MAX_MESSAGE,
                });
            }
            _ => {}
        }
    }
    Ok(None)
}

impl LogClient {
    /// Ends this client's stream: no other program can push as this member. Replicas end when all clients have closed.
    ///
    /// # Errors
    /// The flow has failed.
    pub fn close(self) -> Result<(), LogError> {
        // Replicas may still be answering what has been answered: a member that is there takes that, and the flow of answers goes on.
        self.answers.leave();
        Ok(self.orders.close()?)
    }

    /// Leaves; another program can go on as this member.
    ///
    /// # Errors
    /// The flow has failed.
    pub fn leave(self) -> Result<(), LogError> {
        self.answers.leave();
        Ok(self.orders.leave()?)
    }
}
