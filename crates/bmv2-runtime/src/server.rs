//! Thrift's binary protocol over TCP, a thread per connection.

use std::cell::RefCell;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TMessageIdentifier,
    TMessageType, TOutputProtocol, TStructIdentifier, TType,
};
use thrift::{ApplicationError, ApplicationErrorKind, TConfiguration};
use zsr_soft_switch::SwitchHandle;

use crate::args::Args;
use crate::calls::{call, call_host};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::session::{Session, State};
use crate::value::Value;

/// Most connections at a time. When one more comes, the one whose last call is the oldest is closed.
const CONNECTIONS: usize = 64;
/// Most bytes of a string, and most values of a list.
const LONGEST: usize = 1 << 24;

/// The switch that a server commands, and the program around it.
#[derive(Clone)]
pub struct Served {
    /// The switch.
    pub switch: SwitchHandle,
    /// The program around it.
    pub host: Arc<dyn Host>,
}

/// Serves connections to `listener` in threads of their own, for as long as the process runs. Everybody who reaches the
/// address commands the switch, as with bmv2. `state` is what earlier sessions remembered.
///
/// # Errors
/// The system has no thread left.
pub fn serve(listener: TcpListener, served: Served, state: State) -> io::Result<()> {
    let port = listener.local_addr()?.port();
    let (state, open) = (Arc::new(Mutex::new(state)), Arc::new(Open::default()));
    let accept = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // No descriptor is left, and the next try would fail at once.
                std::thread::sleep(std::time::Duration::from_millis(50));
                continue;
            };
            let peer = stream.peer_addr();
            let listed = Listed::new(&open, stream);
            let one = Connection { served: served.clone(), state: state.clone(), port };
            let thread = std::thread::Builder::new().name("thrift".into()).spawn(move || {
                if let Err(e) = one.run(&listed) {
                    tracing::debug!(?peer, "a Thrift connection ends: {e}");
                }
            });
            if let Err(e) = thread {
                tracing::warn!("a Thrift connection was closed at once: {e}");
            }
        }
    };
    std::thread::Builder::new().name("thrift-accept".into()).spawn(accept).map(drop)
}

/// The connections of a server.
#[derive(Default)]
struct Open {
    all: Mutex<Vec<Arc<One>>>,
    /// Calls of all connections.
    calls: AtomicU64,
}

struct One {
    stream: TcpStream,
    /// How many calls there were when it came or had its last one.
    last: AtomicU64,
}

/// A connection among the others for as long as it is open.
struct Listed {
    open: Arc<Open>,
    one: Arc<One>,
}

impl Listed {
    /// Takes up a connection, in place of another if there are too many.
    fn new(open: &Arc<Open>, stream: TcpStream) -> Self {
        let one = Arc::new(One { stream, last: AtomicU64::new(0) });
        let listed = Listed { open: open.clone(), one };
        listed.note_call();
        let mut all = open.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CONNECTIONS
            && let Some(at) = (0..all.len()).min_by_key(|&at| all[at].last.load(Ordering::Relaxed))
        {
            let oldest = all.swap_remove(at);
            tracing::info!(
                "{CONNECTIONS} Thrift connections are open: the one that was quiet for longest is closed"
            );
            // Its thread reads the end, and goes.
            let _ = oldest.stream.shutdown(Shutdown::Both);
        }
        all.push(listed.one.clone());
        drop(all);
        listed
    }

    /// Notes a call.
    fn note_call(&self) {
        let number = self.open.calls.fetch_add(1, Ordering::Relaxed);
        self.one.last.store(number, Ordering::Relaxed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut all = self.open.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| !Arc::ptr_eq(one, &self.one));
    }
}

struct Connection {
    served: Served,
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Connection {
    fn run(&self, listed: &Listed) -> thrift::Result<()> {
        let stream = listed.one.stream.try_clone()?;
        stream.set_nodelay(true)?;
        let config = TConfiguration::builder()
            .max_string_size(Some(LONGEST))
            .max_container_size(Some(LONGEST))
            .build()?;
        let replies = Replies(Rc::new(RefCell::new(BufWriter::new(stream.try_clone()?))));
        let calls = BufReader::new(Calls { stream, replies: replies.clone() });
        let mut from = TBinaryInputProtocol::with_config(calls, false, config);
        let mut to = TBinaryOutputProtocol::new(replies, true);
        loop {
            let message = match from.read_message_begin() {
                Ok(message) => message,
                Err(thrift::Error::Transport(e)) if e.kind == thrift::TransportErrorKind::EndOfFile => {
                    return Ok(());
                }
                Err(e) => return Err(e),
            };
            listed.note_call();
            let fields = Value::read_fields(&mut from)?;
            from.read_message_end()?;
            // The name of a service stands in front of that of the method, and is not in the reply.
            let method = message.name.split_once(':').map_or(&*message.name, |(_, method)| method).to_owned();
            let reply = self.answer(method.clone(), fields);
            if message.message_type != TMessageType::OneWay {
                write(&mut to, method, message.sequence_number, reply)?;
            }
        }
    }

    /// Carries out a call.
    fn answer(&self, method: String, fields: Vec<(i16, Value)>) -> Result<Option<Value>> {
        if let Some(reply) = call_host(&*self.served.host, self.port, &method, &Args(&fields)) {
            return reply;
        }
        let state = self.state.clone();
        let step = move |switch: &mut zsr_soft_switch::Switch| {
            switch.stir();
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            call(&mut Session::new(switch, &mut state), &method, &Args(&fields))
        };
        self.served.switch.call_blocking(step).map_err(|_| Error::Stopped)?
    }
}

/// The calls of a client. Replies are sent before it waits for more calls, so those to calls that came together leave
/// together.
struct Calls {
    stream: TcpStream,
    replies: Replies,
}

impl Read for Calls {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.replies.flush()?;
        self.stream.read(to)
    }
}

#[derive(Clone)]
struct Replies(Rc<RefCell<BufWriter<TcpStream>>>);

impl Write for Replies {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

/// Writes a reply: what the call gives is field 0 of a structure, and a declared refusal field 1.
fn write(
    to: &mut dyn TOutputProtocol,
    name: String,
    number: i32,
    reply: Result<Option<Value>>,
) -> thrift::Result<()> {
    let kind = match &reply {
        Ok(_) | Err(Error::Refused { .. }) => TMessageType::Reply,
        Err(_) => TMessageType::Exception,
    };
    to.write_message_begin(&TMessageIdentifier::new(name, kind, number))?;
    match reply {
        Ok(value) => Value::Struct(value.map(|value| (0, value)).into_iter().collect()).write(to)?,
        Err(Error::Refused { code, why }) => {
            tracing::info!("refused by Thrift: {why}");
            Value::Struct(vec![(1, Value::Struct(vec![(1, Value::I32(code))]))]).write(to)?;
        }
        Err(e) => {
            let kind = match e {
                Error::Unsupported(_) => ApplicationErrorKind::UnknownMethod,
                Error::Arguments(_) => ApplicationErrorKind::ProtocolError,
                _ => ApplicationErrorKind::InternalError,
            };
            application_error(to, &ApplicationError::new(kind, e.to_string()))?;
        }
    }
    to.write_message_end()
}

fn application_error(to: &mut dyn TOutputProtocol, error: &ApplicationError) -> thrift::Result<()> {
    to.write_struct_begin(&TStructIdentifier::new("TApplicationException"))?;
    to.write_field_begin(&TFieldIdentifier::new("message", TType::String, 1))?;
    to.write_string(&error.message)?;
    to.write_field_begin(&TFieldIdentifier::new("type", TType::I32, 2))?;
    to.write_i32(error.kind as i32)?;
    to.write_field_stop()?;
    to.write_struct_end()
}
