//! Present troubles of a process's links. The threads of its ports report them, and the controller follows them over
//! the socket for captures, which every owner of ports has.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::watch;
use zsr_link::LinkError;

use super::captures::{Answer, Request};

/// By port, the reason why frames are lost there and the remedy. Ports that work are left out.
pub type Troubled = BTreeMap<u32, String>;

/// The state of a process' links. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Troubles(Arc<watch::Sender<Troubled>>);

impl Default for Troubles {
    fn default() -> Self {
        Troubles(Arc::new(watch::channel(Troubled::new()).0))
    }
}

impl Troubles {
    /// A callback for [`zsr_link::PortLoop::on_trouble`]: notes the trouble, and writes it to the log.
    pub(super) fn teller(&self) -> impl Fn(u16, Option<&LinkError>) + Send + Sync + 'static {
        let own = self.clone();
        move |port, trouble| {
            match trouble {
                Some(e) => tracing::warn!("port {port}: {e}"),
                None => tracing::warn!("port {port}: frames pass again"),
            }
            own.0.send_modify(|ports| {
                match trouble {
                    Some(e) => ports.insert(port.into(), e.to_string()),
                    None => ports.remove(&port.into()),
                };
            });
        }
    }

    /// Sends the present troubles, and then every change, until the client goes or the process ends.
    pub(super) async fn serve(&self, stream: &mut tokio::net::UnixStream) -> io::Result<()> {
        let mut now = self.0.subscribe();
        let (mut from_client, mut to_client) = stream.split();
        loop {
            let troubled = now.borrow_and_update().clone();
            let mut line = serde_json::to_string(&Answer { troubled, ..Answer::default() })?;
            line.push('\n');
            to_client.write_all(line.as_bytes()).await?;
            let mut byte = [0];
            tokio::select! {
                changed = now.changed() => if changed.is_err() { return Ok(()) },
                // A client sends nothing more, so this is its end.
                _ = tokio::io::AsyncReadExt::read(&mut from_client, &mut byte) => return Ok(()),
            }
        }
    }
}

/// Follows the troubles of the process whose socket is `socket`, until it ends.
///
/// # Errors
/// Nobody answers there, or not as expected.
pub async fn follow(socket: &Path, mut tell: impl FnMut(Troubled)) -> io::Result<()> {
    let mut stream = BufReader::new(UnixStream::connect(socket).await?);
    let mut line = serde_json::to_string(&Request { troubles: true, ..Request::default() })?;
    line.push('\n');
    stream.write_all(line.as_bytes()).await?;
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let answer: Answer = serde_json::from_str(&line)?;
        tell(answer.troubled);
    }
}
