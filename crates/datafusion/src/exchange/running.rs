//! How many flows are read or filled here.

use tokio::sync::watch;

/// A count that can be awaited.
pub(crate) struct Running(watch::Sender<usize>);

impl Default for Running {
    fn default() -> Self {
        Running(watch::Sender::new(0))
    }
}

/// One of them, until it is dropped.
pub(crate) struct One(watch::Sender<usize>);

impl Running {
    /// One more.
    pub(crate) fn one(&self) -> One {
        self.0.send_modify(|count| *count += 1);
        One(self.0.clone())
    }

    /// Waits until there is none.
    pub(crate) async fn none(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
