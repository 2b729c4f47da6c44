//! What happens in a system, one event after the other.

use zsr_api::controller as proto;

use crate::session::{ClientError, PATIENCE, Session, refused};
use crate::sigpipe;

/// Events of a system, in order; see [`Session::events`].
pub struct Events<'s> {
    session: &'s Session,
    stream: tonic::Streaming<proto::Event>,
}

impl Session {
    /// Events that came behind number `after`, as far as the controller still knows them; `None`: only those from now on. With
    /// `follow`, it goes on with what happens, and [`next`](Iterator::next) waits for that.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn events(&self, after: Option<u64>, follow: bool) -> Result<Events<'_>, ClientError> {
        let mut client = self.client.clone();
        let request = proto::WatchEventsRequest { after, past_only: !follow, ..Default::default() };
        let asked = self.answer(Some(PATIENCE), client.watch_events(request));
        let _quiet = sigpipe::block();
        Ok(Events { session: self, stream: self.runtime.block_on(asked)? })
    }
}

impl Iterator for Events<'_> {
    type Item = Result<proto::Event, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        let _quiet = sigpipe::block();
        let next = self.session.runtime.block_on(self.stream.message());
        next.map_err(|status| refused(&status)).transpose()
    }
}
