//! Registers, which P4Runtime does not show on bmv2, over its thrift server: one call of thrift's binary protocol.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::Bmv2Error;

const VERSION_CALL: u32 = 0x8001_0001;
const REPLY: u8 = 2;
const TYPE_STOP: u8 = 0;
const TYPE_I32: u8 = 8;
const TYPE_I64: u8 = 10;
const TYPE_STRING: u8 = 11;
const TYPE_STRUCT: u8 = 12;
const TYPE_LIST: u8 = 15;
/// Longest answer that is believed, in cells of a register.
const MAX_CELLS: u32 = 1 << 24;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the thrift server, for registers. After an error it is of no more use: part of an answer may be left.
#[derive(Debug)]
pub struct Registers {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

impl Registers {
    /// Connects; `None` if nobody listens there, since bmv2 may be built without thrift.
    pub fn connect(address: SocketAddr) -> Option<Registers> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Registers { stream: BufReader::new(stream), address })
    }

    /// All cells of a register array (its full name in P4). bmv2 shows 2^63 - 1 for a cell that holds more.
    ///
    /// # Errors
    /// There is no such register, or the server is gone.
    pub fn read_all(&mut self, name: &str) -> Result<Vec<u64>, Bmv2Error> {
        let mut call = call("bm_register_read_all");
        field(&mut call, TYPE_I32, 1);
        call.extend(0u32.to_be_bytes());
        field(&mut call, TYPE_STRING, 2);
        string(&mut call, name);
        call.push(TYPE_STOP);
        self.ask(&call, name, |r| {
            if r.field()? != Some((TYPE_LIST, 0)) {
                return Err("the register does not exist".into());
            }
            if r.byte()? != TYPE_I64 {
                return Err("cells are not 64-bit integers".into());
            }
            let cells = r.u32()?;
            if cells > MAX_CELLS {
                return Err(format!("{cells} cells"));
            }
            let cells = (0..cells).map(|_| r.u64()).collect::<Result<_, _>>()?;
            r.end().map(|()| cells)
        })
    }

    /// Writes one cell; wider registers than 64 bits can't be written.
    ///
    /// # Errors
    /// There is no such register or cell, or the server is gone.
    pub fn write(&mut self, name: &str, index: u32, value: u64) -> Result<(), Bmv2Error> {
        let mut call = call("bm_register_write");
        field(&mut call, TYPE_I32, 1);
        call.extend(0u32.to_be_bytes());
        field(&mut call, TYPE_STRING, 2);
        string(&mut call, name);
        field(&mut call, TYPE_I32, 3);
        call.extend(index.to_be_bytes());
        field(&mut call, TYPE_I64, 4);
        call.extend(value.to_be_bytes());
        call.push(TYPE_STOP);
        self.ask(&call, name, |r| match r.field()? {
            None => Ok(()),
            Some((TYPE_STRUCT, _)) => Err(format!("no cell {index}, or no such register")),
            Some(other) => Err(format!("unexpected field {other:?}")),
        })
    }

    fn ask<T>(
        &mut self,
        call: &[u8],
        name: &str,
        answer: impl FnOnce(&mut Reader) -> Result<T, String>,
    ) -> Result<T, Bmv2Error> {
        let address = self.address;
        let run = || {
            self.stream.get_mut().write_all(call).map_err(|e| e.to_string())?;
            let mut reader = Reader(&mut self.stream);
            let version = reader.u32()?;
            if version >> 16 != VERSION_CALL >> 16 || version as u8 != REPLY {
                return Err(format!("not a reply: {version:#x}"));
            }
            reader.string()?;
            reader.u32()?;
            answer(&mut reader)
        };
        run().map_err(|e| Bmv2Error::Thrift { address, reason: format!("register `{name}`: {e}") })
    }
}

fn call(method: &str) -> Vec<u8> {
    let mut call = VERSION_CALL.to_be_bytes().to_vec();
    // Several services share the server; the name says which one is meant.
    string(&mut call, &format!("standard:{method}"));
    call.extend(1u32.to_be_bytes());
    call
}

fn field(call: &mut Vec<u8>, kind: u8, id: u16) {
    call.push(kind);
    call.extend(id.to_be_bytes());
}

fn string(call: &mut Vec<u8>, text: &str) {
    call.extend((text.len() as u32).to_be_bytes());
    call.extend(text.as_bytes());
}

struct Reader<'s>(&'s mut BufReader<TcpStream>);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.bytes().map(u8::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.bytes().map(u64::from_be_bytes)
    }

    fn string(&mut self) -> Result<(), String> {
        let length = self.u32()?;
        (0..length).try_for_each(|_| self.byte().map(drop))
    }

    /// The next field's type and number; `None` at the end.
    fn field(&mut self) -> Result<Option<(u8, u16)>, String> {
        match self.byte()? {
            TYPE_STOP => Ok(None),
            kind => Ok(Some((kind, u16::from_be_bytes(self.bytes()?)))),
        }
    }

    /// The end of a struct whose one field was read.
    fn end(&mut self) -> Result<(), String> {
        match self.field()? {
            None => Ok(()),
            Some(other) => Err(format!("unexpected field {other:?}")),
        }
    }
}
