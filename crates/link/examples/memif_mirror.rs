//! Sends frames to a memif peer that sends all of them back, and checks what comes: `memif_mirror listen|connect SOCKET
//! BYTES`. VPP's and DPDK's are such peers (tests/memif/run).

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use zsr_link::{MemifPort, Port};
use zsr_wire::{Frame, FramePool};

const FRAMES: u32 = 100_000;
/// Frames on their way at a time, fewer than the smaller of the peers' rings holds.
const UNDER_WAY: u32 = 128;
const PATIENCE: Duration = Duration::from_secs(30);

/// Frame number `n`, of an EtherType for experiments.
fn frame(n: u32, bytes: usize) -> Frame {
    let mut frame = FramePool::default().take();
    frame.append(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    frame.append(&n.to_be_bytes());
    frame.append(&vec![n as u8; bytes.saturating_sub(18)]);
    frame
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [role, socket, bytes] = &args[..] else {
        eprintln!("memif_mirror listen|connect SOCKET BYTES");
        return ExitCode::from(2);
    };
    let (socket, Ok(bytes)) = (Path::new(socket), bytes.parse()) else { return ExitCode::from(2) };
    let made = if role == "listen" { MemifPort::listen(socket) } else { MemifPort::connect(socket) };
    let mut port = match made {
        Ok(port) => port,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let (begun, mut pool) = (Instant::now(), FramePool::default());
    let (mut sent, mut came) = (0, 0);
    while came < FRAMES {
        if begun.elapsed() > PATIENCE {
            eprintln!("{came} of {sent} frames came back, connected: {}", port.is_connected());
            return ExitCode::FAILURE;
        }
        let now = begun.elapsed().as_nanos() as u64;
        port.attend(now);
        if let Some(trouble) = port.trouble() {
            eprintln!("{trouble}");
        }
        if port.is_connected() && sent < FRAMES && sent - came < UNDER_WAY {
            sent += u32::from(port.send(now, frame(sent, bytes), &mut pool).is_ok());
        }
        port.flush(now, &mut pool);
        while let Some(back) = port.recv(now, &mut pool) {
            if back.bytes() != frame(came, bytes).bytes() {
                eprintln!("frame {came} came back as {} other bytes", back.len());
                return ExitCode::FAILURE;
            }
            came += 1;
            pool.put(back);
        }
    }
    println!("{came} frames of {bytes} bytes came back as they were sent, {} were lost here", port.lost());
    if port.lost() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
