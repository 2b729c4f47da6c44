//! The server, asked by the library's own client side, and by clients that speak nonsense.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use ::thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TListIdentifier,
    TMessageIdentifier, TMessageType, TOutputProtocol, TStructIdentifier, TType,
};
use zsr_bmv2_runtime::{Host, PortInfo, QueueChange, Served, State, serve};
use zsr_soft_switch::{Program, Switch, SwitchConfig, control_queue};

const PROGRAM: &str = include_str!("../../../soft-switch/tests/programs/p4runtime.json");

/// A host with one port, which writes down what is asked of it.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl Host for Asked {
    fn device_id(&self) -> u64 {
        7
    }

    fn ports(&self) -> Vec<PortInfo> {
        vec![PortInfo { number: 3, interface: "veth3".into(), is_up: true }]
    }

    fn add_port(&self, number: u16, interface: &str, pcap: Option<&Path>) -> Result<(), String> {
        self.0.lock().unwrap().push(format!("add {number} {interface} {pcap:?}"));
        Ok(())
    }

    fn remove_port(&self, number: u16) -> Result<(), String> {
        Err(format!("there is no port {number}"))
    }

    fn set_queue(&self, port: Option<u16>, change: QueueChange) -> Result<(), String> {
        self.0.lock().unwrap().push(format!("{port:?} {change:?}"));
        Ok(())
    }
}

/// A server with a switch of its own, and whom it asks for ports.
fn server() -> (SocketAddr, Arc<Asked>) {
    let (handle, queue) = control_queue(|| ());
    std::thread::spawn(move || {
        let mut switch = Switch::new(&Program::from_json(PROGRAM).unwrap(), SwitchConfig::default());
        loop {
            if queue.drain(&mut switch, 0) == 0 {
                std::thread::yield_now();
            }
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, host) = (listener.local_addr().unwrap(), Arc::new(Asked::default()));
    serve(listener, Served { switch: handle, host: host.clone() }, State::default()).unwrap();
    (at, host)
}

/// An argument.
enum Arg<'a> {
    I32(i32),
    I64(i64),
    Str(&'a [u8]),
    List(Vec<Arg<'a>>),
    Struct(Vec<(i16, Arg<'a>)>),
}

use Arg::{I32, I64, List, Str, Struct};

impl Arg<'_> {
    fn kind(&self) -> TType {
        match self {
            I32(_) => TType::I32,
            I64(_) => TType::I64,
            Str(_) => TType::String,
            List(_) => TType::List,
            Struct(_) => TType::Struct,
        }
    }

    fn write(&self, to: &mut dyn TOutputProtocol) -> ::thrift::Result<()> {
        match self {
            I32(n) => to.write_i32(*n),
            I64(n) => to.write_i64(*n),
            Str(bytes) => to.write_bytes(bytes),
            List(all) => {
                let kind = all.first().map_or(TType::I32, Arg::kind);
                to.write_list_begin(&TListIdentifier::new(kind, all.len() as i32))?;
                all.iter().try_for_each(|one| one.write(to))
            }
            Struct(fields) => {
                to.write_struct_begin(&TStructIdentifier::new(""))?;
                for (id, field) in fields {
                    to.write_field_begin(&TFieldIdentifier::new("", field.kind(), *id))?;
                    field.write(to)?;
                }
                to.write_field_stop()
            }
        }
    }
}

/// What a call gave.
#[derive(Debug, PartialEq)]
enum Got {
    Nothing,
    Number(i64),
    Text(Vec<u8>),
    Refused(i32),
    /// An application error, in words.
    Error(String),
}

struct Client(TBinaryInputProtocol<TcpStream>, TBinaryOutputProtocol<TcpStream>);

impl Client {
    fn new(at: SocketAddr) -> Client {
        let stream = TcpStream::connect(at).unwrap();
        let other = stream.try_clone().unwrap();
        Client(TBinaryInputProtocol::new(stream, true), TBinaryOutputProtocol::new(other, true))
    }

    fn call(&mut self, name: &str, args: Vec<(i16, Arg<'_>)>) -> Got {
        self.1.write_message_begin(&TMessageIdentifier::new(name, TMessageType::Call, 5)).unwrap();
        Struct(args).write(&mut self.1).unwrap();
        self.1.write_message_end().unwrap();
        self.1.flush().unwrap();
        let reply = self.0.read_message_begin().expect("an answer");
        let method = name.rsplit(':').next().unwrap();
        assert_eq!((reply.name.as_str(), reply.sequence_number), (method, 5));
        if reply.message_type == TMessageType::Exception {
            return Got::Error(
                ::thrift::Error::read_application_error_from_in_protocol(&mut self.0).unwrap().message,
            );
        }
        self.0.read_struct_begin().unwrap();
        let mut got = Got::Nothing;
        loop {
            let field = self.0.read_field_begin().unwrap();
            match (field.field_type, field.id) {
                (TType::Stop, _) => return got,
                (TType::I32, _) => got = Got::Number(self.0.read_i32().unwrap().into()),
                (TType::I64, _) => got = Got::Number(self.0.read_i64().unwrap()),
                (TType::String, _) => got = Got::Text(self.0.read_bytes().unwrap()),
                (TType::Struct, Some(1)) => {
                    self.0.read_struct_begin().unwrap();
                    self.0.read_field_begin().unwrap();
                    got = Got::Refused(self.0.read_i32().unwrap());
                    self.0.read_field_begin().unwrap();
                }
                (other, _) => self.0.skip(other).unwrap(),
            }
        }
    }
}

fn exact(value: &[u8]) -> Arg<'_> {
    Struct(vec![(1, I32(0)), (2, Struct(vec![(1, Str(value))]))])
}

fn add_l2<'a>(mac: &'a [u8], action: &'a [u8], data: Vec<Arg<'a>>) -> Vec<(i16, Arg<'a>)> {
    let key = List(vec![exact(mac)]);
    let options = Struct(vec![(1, I32(0))]);
    vec![(1, I32(0)), (2, Str(b"In.l2")), (3, key), (4, Str(action)), (5, List(data)), (6, options)]
}

#[test]
fn calls_are_answered_as_bmv2_answers_them() {
    let (at, host) = server();
    let mut client = Client::new(at);
    assert_eq!(client.call("standard:bm_get_config", vec![]), Got::Text(PROGRAM.into()));
    let Got::Text(sum) = client.call("standard:bm_get_config_md5", vec![]) else { panic!("no sum") };
    assert_eq!(sum.len(), 16);
    let add = "standard:bm_mt_add_entry";
    assert_eq!(
        client.call(add, add_l2(&[0, 0, 0, 0, 0, 1], b"In.forward", vec![Str(&[0, 3])])),
        Got::Number(0)
    );
    assert_eq!(client.call(add, add_l2(&[0, 0, 0, 0, 0, 2], b"In.drop", vec![])), Got::Number(1));
    for (refused, args) in [
        (17, add_l2(&[0, 0, 0, 0, 0, 1], b"In.drop", vec![])),
        (8, add_l2(&[3], b"In.nothing", vec![])),
        (26, add_l2(&[3], b"In.forward", vec![Str(&[2, 0])])),
        (26, add_l2(&[3], b"In.forward", vec![])),
        (18, add_l2(&[1, 0, 0, 0, 0, 0, 0], b"In.drop", vec![])),
        (7, vec![(1, I32(0)), (2, Str(b"l2"))]),
    ] {
        assert_eq!(client.call(add, args), Got::Refused(refused));
    }
    let table = || vec![(1, I32(0)), (2, Str(b"In.l2"))];
    assert_eq!(client.call("standard:bm_mt_get_num_entries", table()), Got::Number(2));
    let cell = |n| vec![(1, I32(0)), (2, Str(b"In.seen")), (3, I32(n))];
    let write = [cell(2), vec![(4, I64(-1))]].into_iter().flatten().collect();
    assert_eq!(client.call("standard:bm_register_write", write), Got::Nothing);
    assert_eq!(client.call("standard:bm_register_read", cell(2)), Got::Number(0xffff_ffff));
    assert_eq!(client.call("standard:bm_register_read", cell(16)), Got::Refused(2));
    // A second client sees the same switch, and what the first made of it.
    let mut second = Client::new(at);
    assert_eq!(second.call("simple_pre:bm_mc_mgrp_create", vec![(1, I32(0)), (2, I32(3))]), Got::Number(3));
    let node = vec![(1, I32(0)), (2, I32(1)), (3, Str(b"1010"))];
    assert_eq!(client.call("simple_pre:bm_mc_node_create", node), Got::Number(0));
    let both = vec![(1, I32(0)), (2, I32(3)), (3, I32(0))];
    assert_eq!(second.call("simple_pre_lag:bm_mc_node_associate", both), Got::Nothing);
    let Got::Text(json) = client.call("simple_pre:bm_mc_get_entries", vec![(1, I32(0))]) else { panic!() };
    assert!(String::from_utf8(json).unwrap().contains(r#""ports":[1,3]"#));
    // Ports and queues are the host's.
    let port = vec![(1, Str(b"veth4")), (2, I32(4)), (3, Str(b""))];
    assert_eq!(client.call("standard:bm_dev_mgr_add_port", port), Got::Nothing);
    assert_eq!(client.call("standard:bm_dev_mgr_remove_port", vec![(1, I32(9))]), Got::Refused(1));
    assert_eq!(client.call("standard:bm_dev_mgr_remove_port", vec![(1, I32(-1))]), Got::Refused(1));
    let rate = vec![(1, I32(3)), (2, I64(100))];
    assert_eq!(client.call("simple_switch:set_egress_queue_rate", rate), Got::Number(0));
    assert_eq!(client.call("simple_switch:set_all_egress_queue_depths", vec![(1, I32(64))]), Got::Number(0));
    let asked = ["add 4 veth4 None", "Some(3) Rate(100)", "None Depth(64)"];
    assert_eq!(*host.0.lock().unwrap(), asked);
    // What is not there is an error in words, and the connection goes on.
    for (name, words) in [
        ("standard:bm_nothing", "no call 'bm_nothing'"),
        ("standard:bm_serialize_state", "can't be written"),
        ("standard:bm_mt_add_entry", "field 2: expected a string"),
        ("standard:bm_mt_nothing", "field 2"),
        ("nothing", "no call 'nothing'"),
        ("", "no call ''"),
        ("simple_switch:set_egress_priority_queue_rate", "one queue"),
    ] {
        let Got::Error(why) = client.call(name, vec![]) else { panic!("{name}: no error") };
        assert!(why.contains(words), "{name}: {why}");
    }
    assert_eq!(client.call("standard:bm_load_new_config", vec![(1, Str(b"{}"))]), Got::Refused(1));
}

/// Bytes that are no call end their connection; the server and the others go on.
#[test]
fn nonsense_ends_its_own_connection_only() {
    let (at, _) = server();
    let mut good = Client::new(at);
    let version = [0x80, 1, 0, 1];
    let call = |rest: &[u8]| [&version[..], &[0, 0, 0, 1, b'x', 0, 0, 0, 1], rest].concat();
    let mut nested = call(&[]);
    nested.extend([12, 0, 1].repeat(10_000));
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 64],
        // A name of 2 GiB, a list of 2^31 - 1 numbers, structures within structures.
        [&version[..], &[0x7f, 0xff, 0xff, 0xff]].concat(),
        call(&[15, 0, 1, 8, 0x7f, 0xff, 0xff, 0xff]),
        call(&[15, 0, 1, 8, 0xff, 0xff, 0xff, 0xff]),
        call(&[11, 0, 1, 0x7f, 0xff, 0xff, 0xff]),
        call(&[13, 0, 1, 11, 11, 0, 0, 0, 1]),
        nested,
        call(&[8]),
    ] {
        let mut stream = TcpStream::connect(at).unwrap();
        // It may have ended before all is written.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 200, "{answer:?}");
        assert_eq!(
            good.call("standard:bm_mt_get_num_entries", vec![(1, I32(0)), (2, Str(b"In.l2"))]),
            Got::Number(0)
        );
    }
}

/// A client that comes when the server has as many as it takes gets in, and the one that was quiet for longest goes.
#[test]
fn a_new_connection_takes_the_place_of_the_quietest() {
    let (at, _) = server();
    let config = |client: &mut Client| {
        assert!(matches!(client.call("standard:bm_get_config", vec![]), Got::Text(_)));
    };
    let mut quiet = TcpStream::connect(at).unwrap();
    let mut all: Vec<_> = (0..63).map(|_| Client::new(at)).collect();
    all.iter_mut().for_each(config);
    let mut one_more = Client::new(at);
    config(&mut one_more);
    assert!(matches!(quiet.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
    // The first of the others has called since, and the second one has not.
    config(&mut all[0]);
    let mut another = Client::new(at);
    [&mut another, &mut one_more].into_iter().for_each(config);
    [0, 2, 62].into_iter().for_each(|at| config(&mut all[at]));
    let again = all[1].1.write_message_begin(&TMessageIdentifier::new("x", TMessageType::Call, 5));
    let ended = again.and_then(|()| all[1].1.flush()).is_err() || all[1].0.read_message_begin().is_err();
    assert!(ended, "it is closed");
}
