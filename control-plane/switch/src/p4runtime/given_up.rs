//! A switch that hangs does not answer, for an unlimited time. A caller that gives the switch up ends all requests that
//! wait for it.

use super::client::ClientError;
use std::future::Future;
use tokio::sync::watch;

/// Whether a switch was given up; shared by all that use one connection to the switch.
#[derive(Clone, Debug)]
pub(super) struct GivenUp(watch::Sender<bool>);

impl GivenUp {
    pub(super) fn new() -> Self {
        GivenUp(watch::Sender::new(false))
    }

    /// Ends requests that wait for an answer, now and later.
    pub(super) fn give_up(&self) {
        self.0.send_replace(true);
    }

    /// The answer to `call`.
    ///
    /// # Errors
    /// [`ClientError::Lost`], as soon as `switch` is given up.
    pub(super) async fn unless<T>(
        &self,
        switch: &str,
        call: impl Future<Output = T>,
    ) -> Result<T, ClientError> {
        let mut given_up = self.0.subscribe();
        tokio::select! {
            biased;
            _ = given_up.wait_for(|given_up| *given_up) => Err(ClientError::Lost { switch: switch.into() }),
            answer = call => Ok(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::P4RuntimeReader;
    use super::*;
    use p4runtime_proto::Address;

    #[tokio::test]
    async fn who_waits_for_a_switch_that_hangs_hears_that_it_was_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p4runtime.sock");
        // Connections are accepted there, and nobody answers.
        let _hung = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let reader = P4RuntimeReader::connect("s1", Address::Unix(path), 1).await.unwrap();
        let asking = tokio::spawn({
            let reader = reader.clone();
            async move { reader.cookie().await }
        });
        tokio::task::yield_now().await;
        assert!(!asking.is_finished());
        reader.give_up();
        let lost = |answer| matches!(answer, Err(ClientError::Lost { switch }) if switch == "s1");
        assert!(lost(asking.await.unwrap().map(drop)));
        assert!(lost(reader.groups().await.map(drop)), "whoever asks later hears it, too");
    }
}
