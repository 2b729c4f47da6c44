//! Helpers that several test files share.
#![allow(dead_code)]

pub mod stf;
pub mod transport;

use std::path::PathBuf;

use zsr_soft_switch::{Program, Switch, SwitchConfig};
use zsr_wire::frame::{Frame, FramePool};

/// A committed program of `tests/programs`.
pub fn program(name: &str) -> Program {
    Program::from_json(&text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Its JSON.
pub fn text(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A switch with its pool and clock.
pub struct Bench {
    pub switch: Switch,
    pub pool: FramePool,
    pub now: u64,
}

impl Bench {
    pub fn new(name: &str) -> Bench {
        Bench::with(name, SwitchConfig::default())
    }

    pub fn with(name: &str, config: SwitchConfig) -> Bench {
        Bench::of(&program(name), config)
    }

    pub fn of(program: &Program, config: SwitchConfig) -> Bench {
        Bench { switch: Switch::new(program, config), pool: FramePool::with_frames(16), now: 1_000_000 }
    }

    /// Sends bytes in and returns what comes out.
    pub fn send(&mut self, port: u16, bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let frame = Frame::copy_from(bytes).expect("fits");
        let mut out = Vec::new();
        self.switch.process(self.now, port, frame, &mut self.pool, &mut out);
        self.collect(out)
    }

    /// The frames as bytes; gives the frames back.
    pub fn collect(&mut self, out: Vec<(u16, Frame)>) -> Vec<(u16, Vec<u8>)> {
        let copy = |(port, f): (u16, Frame)| {
            let bytes = f.bytes().to_vec();
            self.pool.put(f);
            (port, bytes)
        };
        out.into_iter().map(copy).collect()
    }
}
