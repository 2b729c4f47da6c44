//! The process: started on sockets or free loopback ports, watched, and ended with its owner.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use p4runtime_proto::Address;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{oneshot, watch};

use crate::error::Bmv2Error;
use crate::machine;

/// Lines of its output that are kept for error messages.
const KEPT_LINES: usize = 12;
/// Time between two attempts to reach a server that comes up.
const RETRY: Duration = Duration::from_millis(10);
/// Starts that are tried, since a free port may be taken before it is bound.
const ATTEMPTS: usize = 3;

/// How to start a bmv2.
#[derive(Clone, Debug)]
pub struct Options {
    /// `simple_switch_grpc`.
    pub binary: PathBuf,
    /// P4Runtime's device id.
    pub device_id: u64,
    /// Packets to this port become packet-ins; `None`: there is no packet I/O over P4Runtime.
    pub cpu_port: Option<u16>,
    /// Where its P4Runtime server listens; `None`, or port 0: a free loopback port.
    pub p4runtime: Option<Address>,
    /// Where its data plane listens, as `p4runtime`.
    pub dataplane: Option<Address>,
    /// Value of `egress_spec` that means drop; `None`: bmv2's default, 511.
    pub drop_port: Option<u16>,
    /// Where its log goes, at level `debug`; `None`: it logs errors only.
    pub log: Option<PathBuf>,
    /// How long it may take until it serves.
    pub patience: Duration,
}

impl Options {
    /// The binary, as device 1 without a CPU port.
    pub fn new(binary: impl Into<PathBuf>) -> Options {
        Options {
            binary: binary.into(),
            device_id: 1,
            cpu_port: None,
            p4runtime: None,
            dataplane: None,
            drop_port: None,
            log: None,
            patience: Duration::from_secs(20),
        }
    }

    fn arguments(&self, at: &Addresses) -> Vec<OsString> {
        let mut list: Vec<OsString> = ["--no-p4", "--device-id"].map(Into::into).into();
        list.push(self.device_id.to_string().into());
        match &self.log {
            // Level `trace` has several lines per packet and header.
            Some(file) => {
                list.extend(["--log-level", "debug", "--log-flush", "--log-file"].map(Into::into));
                list.push(file.into());
            }
            None => list.extend(["--log-level", "error", "--log-console"].map(Into::into)),
        }
        // Builds with thrift bind a fixed port unless they are told another; those without only warn.
        list.extend(["--thrift-port".into(), at.thrift.port().to_string().into()]);
        list.extend(["--", "--grpc-server-addr"].map(Into::into));
        list.push(at.p4runtime.to_string().into());
        list.extend(["--dp-grpc-server-addr".into(), at.dataplane.to_string().into()]);
        for (option, port) in [("--cpu-port", self.cpu_port), ("--drop-port", self.drop_port)] {
            if let Some(port) = port {
                list.extend([option.into(), port.to_string().into()]);
            }
        }
        list
    }
}

/// The binary: what the environment variable ZSR_BMV2 names, or else `simple_switch_grpc` on PATH.
///
/// # Errors
/// [`Bmv2Error::NotInstalled`].
pub fn find_binary() -> Result<PathBuf, Bmv2Error> {
    if let Some(named) = std::env::var_os("ZSR_BMV2").filter(|v| !v.is_empty()) {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("simple_switch_grpc"))
        .find(|file| file.is_file())
        .ok_or(Bmv2Error::NotInstalled)
}

#[derive(Clone, Debug)]
struct Addresses {
    p4runtime: Address,
    dataplane: Address,
    thrift: SocketAddr,
}

impl Addresses {
    /// The addresses that `options` ask for, with ports chosen where they leave them open.
    fn free(options: &Options) -> std::io::Result<Addresses> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // All ports are held while they are chosen, so that they differ.
        let mut held = Vec::new();
        let mut hold = |wanted: SocketAddr| {
            let listener = TcpListener::bind(wanted)?;
            let address = listener.local_addr()?;
            held.push(listener);
            Ok::<_, std::io::Error>(address)
        };
        let mut choose = |wanted: &Option<Address>| match wanted {
            Some(Address::Unix(path)) => Ok(Address::Unix(path.clone())),
            Some(Address::Tcp(address)) => hold(*address).map(Address::Tcp),
            // Another process can't be reached inside this one, and is started without certificates.
            Some(Address::Local(_) | Address::Tls(_)) => Err(std::io::ErrorKind::Unsupported.into()),
            None => hold(any).map(Address::Tcp),
        };
        let (p4runtime, dataplane) = (choose(&options.p4runtime)?, choose(&options.dataplane)?);
        Ok(Addresses { p4runtime, dataplane, thrift: hold(any)? })
    }
}

async fn is_served(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => TcpStream::connect(address).await.is_ok(),
        Address::Unix(path) => UnixStream::connect(path).await.is_ok(),
        Address::Local(_) | Address::Tls(_) => false,
    }
}

/// The state that the keeper and the owner share.
#[derive(Default)]
struct Shared {
    child: Mutex<Option<Child>>,
    output: Mutex<VecDeque<String>>,
    ended: watch::Sender<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running `simple_switch_grpc`, without a program until a controller pushes one. It ends when this is dropped, and
/// also when this process is killed.
pub struct Bmv2 {
    addresses: Addresses,
    options: Options,
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

impl Bmv2 {
    /// Starts one, and waits until it serves P4Runtime and its data plane. If that is given up, it
    /// is ended.
    ///
    /// # Errors
    /// The binary is missing, is no simple_switch_grpc, or does not come up in time: [`Bmv2Error`] has its last words.
    pub async fn start(options: Options) -> Result<Bmv2, Bmv2Error> {
        machine::check(&options.binary)?;
        let mut attempt = 1;
        loop {
            let bmv2 = Self::spawn(options.clone()).await?;
            match bmv2.until_it_serves().await {
                // Somebody may have taken a port before it was bound.
                Err(_) if attempt < ATTEMPTS && bmv2.ended().is_some() => attempt += 1,
                result => return result.map(|()| bmv2),
            }
        }
    }

    async fn spawn(options: Options) -> Result<Bmv2, Bmv2Error> {
        let addresses = Addresses::free(&options)
            .map_err(|source| Bmv2Error::Io { what: "looking for free ports for bmv2", source })?;
        let shared = Arc::new(Shared::default());
        let (started, start) = oneshot::channel();
        let (keeper_options, keeper_shared, at) = (options.clone(), shared.clone(), addresses.clone());
        let keeper = std::thread::Builder::new()
            .name("zsr-bmv2".into())
            .spawn(move || keep(&keeper_options, &at, &keeper_shared, started))
            .map_err(|source| Bmv2Error::Io { what: "starting the thread that watches bmv2", source })?;
        let bmv2 = Bmv2 { addresses, options, shared, keeper: Some(keeper) };
        let failed = |source| Bmv2Error::Spawn { binary: bmv2.options.binary.clone(), source };
        start.await.unwrap_or_else(|e| Err(std::io::Error::other(e))).map_err(failed)?;
        Ok(bmv2)
    }

    async fn until_it_serves(&self) -> Result<(), Bmv2Error> {
        let start = Instant::now();
        for address in [&self.addresses.dataplane, &self.addresses.p4runtime] {
            while !is_served(address).await {
                if let Some(end) = self.ended() {
                    return Err(self.failed(end));
                }
                if start.elapsed() > self.options.patience {
                    let seconds = self.options.patience.as_secs();
                    return Err(self.failed(format!(
                        "did not listen on {address} within {seconds} s: is it simple_switch_grpc, 1.15 or newer?"
                    )));
                }
                tokio::time::sleep(RETRY).await;
            }
        }
        Ok(())
    }

    fn failed(&self, what: String) -> Bmv2Error {
        Bmv2Error::Failed { binary: self.options.binary.clone(), what, output: self.last_words() }
    }

    /// Where its P4Runtime server listens.
    pub fn p4runtime(&self) -> &Address {
        &self.addresses.p4runtime
    }

    /// Where its data plane listens.
    pub fn dataplane(&self) -> &Address {
        &self.addresses.dataplane
    }

    /// Where its thrift server listens, if it was built with one.
    pub fn thrift(&self) -> SocketAddr {
        self.addresses.thrift
    }

    /// P4Runtime's device id.
    pub fn device_id(&self) -> u64 {
        self.options.device_id
    }

    /// The last lines that it wrote.
    pub fn last_words(&self) -> String {
        Vec::from_iter(lock(&self.shared.output).iter().cloned()).join("\n")
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<String> {
        self.shared.ended.borrow().clone()
    }

    /// Waits until it ends; the error has its last words.
    pub async fn wait(&self) -> Bmv2Error {
        let mut ended = self.shared.ended.subscribe();
        let what = match ended.wait_for(Option::is_some).await {
            Ok(what) => what.clone().unwrap_or_default(),
            Err(_) => "ended".to_owned(),
        };
        self.failed(what)
    }

    /// Ends it, and waits until it is gone.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(child) = lock(&self.shared.child).as_mut() {
            // An error says that it has ended already.
            let _ = child.kill();
        }
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Drop for Bmv2 {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs the process from its start to its end. The kernel ends it with this thread, and so with this process.
fn keep(options: &Options, at: &Addresses, shared: &Shared, started: oneshot::Sender<std::io::Result<()>>) {
    let end = match spawn(&options.binary, options.arguments(at)) {
        Err(e) => {
            // The owner waits for this; if it is gone, so is the reason to tell.
            let _ = started.send(Err(e));
            return;
        }
        Ok((child, output)) => {
            *lock(&shared.child) = Some(child);
            let _ = started.send(Ok(()));
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let mut kept = lock(&shared.output);
                if kept.len() == KEPT_LINES {
                    kept.pop_front();
                }
                kept.push_back(String::from_utf8_lossy(&line).into_owned());
            }
            match lock(&shared.child).as_mut().map(Child::wait) {
                Some(Ok(status)) => format!("ended ({status})"),
                Some(Err(e)) => format!("ended ({e})"),
                None => "ended".into(),
            }
        }
    };
    shared.ended.send_replace(Some(end));
}

fn spawn(binary: &Path, arguments: Vec<OsString>) -> std::io::Result<(Child, PipeReader)> {
    let (output, sink) = std::io::pipe()?;
    let mut command = Command::new(binary);
    command.args(arguments).stdin(Stdio::null()).stdout(sink.try_clone()?).stderr(sink);
    // SAFETY: prctl is async-signal-safe and touches no memory of ours.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let child = command.spawn()?;
    Ok((child, output))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("simple_switch_grpc");
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, file)
    }

    #[tokio::test]
    async fn a_missing_binary_is_named() {
        let error =
            Bmv2::start(Options::new("/nonexistent/simple_switch_grpc")).await.err().unwrap().to_string();
        assert!(
            error.contains("/nonexistent/simple_switch_grpc") && error.contains("No such file"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_binary_that_ends_is_quoted() {
        let (_folder, file) = script("echo unknown option >&2; exit 3");
        let error = Bmv2::start(Options::new(file)).await.err().unwrap().to_string();
        assert!(error.contains("unknown option") && error.contains("exit status: 3"), "{error}");
    }

    #[tokio::test]
    async fn it_is_told_to_listen_at_sockets() {
        let (folder, file) = script("echo \"$@\" >&2; exit 3");
        let socket = |name: &str| Some(Address::Unix(folder.path().join(name)));
        let options = Options { p4runtime: socket("a"), dataplane: socket("b"), ..Options::new(file) };
        let error = Bmv2::start(options).await.err().unwrap().to_string();
        for (option, name) in [("--grpc-server-addr", "a"), ("--dp-grpc-server-addr", "b")] {
            let told = format!("{option} unix:{}", folder.path().join(name).display());
            assert!(error.contains(&told), "{error}");
        }
    }

    #[tokio::test]
    async fn a_binary_that_never_serves_is_ended() {
        let (folder, file) = script("echo $$ > $(dirname $0)/pid; exec sleep 600");
        let options = Options { patience: Duration::from_millis(50), ..Options::new(file) };
        let error = Bmv2::start(options).await.err().unwrap().to_string();
        assert!(error.contains("did not listen"), "{error}");
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "{pid} still runs");
    }
}
