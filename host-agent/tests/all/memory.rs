//! Rings in memory that is not the host's own: PCI windows from a folder that looks like sysfs's, and GPUs that a stand-in for the CUDA driver has.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use crate::common::standin::Standin;
use crate::common::{ADDRESS, BAR, Pair, device};
use zsr::pu;
use zsr_host_agent::agent::{Agent, RingRequest};
use zsr_host_agent::memory::Memories;
use zsr_ring::{Cancel, PopError, PushError, Role};

fn agent(pair: &Pair, devices: &Path) -> Agent {
    Agent::with_memories("h1", pair.backend(), None, Memories::with(true, devices, "libno-cuda.so"))
}

fn request(name: &str, role: Role, ring_size: u64, memory: &str) -> RingRequest {
    let memory = memory.parse().expect("a kind of memory");
    RingRequest { memory, ..RingRequest::new(name, role, 64, ring_size) }
}

fn refusal(agent: &Agent, ring_size: u64, memory: &str) -> String {
    let refused = agent.create_ring(request("refused", Role::Producer, ring_size, memory));
    let text = refused.expect_err("no such memory").to_string();
    assert!(text.starts_with("ring `refused`: ") && text.contains(&format!("`{memory}`")), "{text}");
    text
}

fn bar(mapping: &str) -> String {
    format!("pci:{ADDRESS}:2{mapping}")
}

#[test]
fn programs_at_rings_of_one_window_see_what_is_theirs() {
    for (mapping, file) in [("", "resource2"), (":wc", "resource2_wc")] {
        let (pair, devices) = (Pair::start(), tempfile::tempdir().expect("a folder"));
        device(devices.path());
        // The window has bytes from before: a ring is zeroed when it is made.
        let window = File::options().read(true).write(true).open(devices.path().join(ADDRESS).join(file));
        let window = window.expect("the window");
        window.write_all_at(&vec![0xee; BAR as usize], 0).expect("written");
        let agent = agent(&pair, devices.path());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let socket = devices.path().join("programs");
        let listener = {
            let _inside = runtime.enter();
            tokio::net::UnixListener::bind(&socket).expect("a socket")
        };
        let serving = agent.clone();
        runtime.spawn(async move { serving.serve_programs(listener, std::future::pending()).await });

        let rings: Vec<_> = ["a", "b"]
            .map(|name| agent.create_ring(request(name, Role::Producer, 4096, &bar(mapping))).expect("made"))
            .into();
        for (n, name) in ["a", "b"].iter().enumerate() {
            let mut producer = pu::attach_producer(&socket, name, Cancel::new()).expect("attached");
            for item in 0..3 {
                producer.push(&[n as u8 * 16 + item; 64]).expect("pushed");
            }
            producer.close();
        }
        // The device's side of it.
        for (n, info) in rings.iter().enumerate() {
            let place = info.ring.memory().part().expect("a window");
            assert_eq!((place.offset, place.combining), (n as u64 * 8192, mapping == ":wc"));
            let mut seen = [0; 8192];
            window.read_exact_at(&mut seen, place.offset).expect("read");
            assert_eq!(seen[..4], (3u32 * 64).to_le_bytes());
            assert_eq!(seen[4] & 1, 1, "CLOSED");
            assert!(seen[8..4096].iter().enumerate().all(|(at, b)| *b == 0 || (64..72).contains(&(at + 8))));
            for item in 0..3 {
                assert!(seen[4096 + 64 * item..][..64].iter().all(|b| *b == (n * 16 + item) as u8));
            }
            assert!(seen[4096 + 192..].iter().all(|b| *b == 0));
            let says = info.ring.memory().describe();
            assert!(says.contains(ADDRESS) && says.contains(&format!("{:#x}", place.offset)), "{says}");
        }
        let mut rest = [0; 8];
        window.read_exact_at(&mut rest, 2 * 8192).expect("read");
        assert_eq!(rest, [0xee; 8], "nothing is written behind the rings");
        // The agent's own words, which are not written with locked instructions there.
        agent.abort_ring("b", "enough").expect("aborted");
        assert!(rings[1].ring.snapshot().tail.flags.aborted());
    }
}

#[test]
fn a_window_is_divided_without_overlaps_and_given_back() {
    let (pair, devices) = (Pair::start(), tempfile::tempdir().expect("a folder"));
    device(devices.path());
    let agents = [agent(&pair, devices.path()), agent(&pair, devices.path())];
    let create =
        |at: usize, name: &str, size| agents[at].create_ring(request(name, Role::Consumer, size, &bar("")));
    // Two agents of one process, 12 + 20 + 12 + 20 KiB: all of it.
    for (n, size) in [8192, 16384, 8192, 16384].into_iter().enumerate() {
        create(n % 2, &n.to_string(), size).expect("it fits");
    }
    let full = refusal(&agents[0], 4096, &bar(""));
    assert!(full.contains("8192 B") && full.contains("65536 B") && full.contains("piece has 0 B"), "{full}");
    agents[1].destroy_ring("1").expect("gone");
    agents[0].destroy_ring("2").expect("gone");
    let long = refusal(&agents[0], 32768, &bar(""));
    assert!(long.contains("longest free piece has 32768 B"), "{long}");
    create(0, "again", 16384).expect("the gaps are one");
    let mut parts: Vec<_> = agents
        .iter()
        .flat_map(|a| a.rings().expect("rings"))
        .map(|info| (info.ring.memory().part().expect("a window").offset, info.ring.memory().len() as u64))
        .collect();
    parts.sort_unstable();
    assert!(parts.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{parts:?}");
    assert_eq!(parts.len(), 3);
    // A ring of host memory is another matter.
    agents[0].create_ring(RingRequest::new("host", Role::Consumer, 64, 1 << 20)).expect("made");
}

#[test]
fn a_ring_that_is_gone_keeps_its_place_while_a_handle_is_there() {
    let (pair, devices) = (Pair::start(), tempfile::tempdir().expect("a folder"));
    device(devices.path());
    let agent = agent(&pair, devices.path());
    agent.create_ring(request("large", Role::Producer, 32768, &bar(""))).expect("made");
    let producer = agent.attach_producer("large", Cancel::new()).expect("attached");
    agent.destroy_ring("large").expect("gone");
    refusal(&agent, 32768, &bar(""));
    drop(producer);
    agent.create_ring(request("large", Role::Producer, 32768, &bar(""))).expect("made again");
}

#[test]
fn a_device_that_answers_with_ones_ends_both_sides_with_an_error() {
    let (pair, devices) = (Pair::start(), tempfile::tempdir().expect("a folder"));
    device(devices.path());
    let agent = agent(&pair, devices.path());
    agent.create_ring(request("p", Role::Producer, 4096, &bar(""))).expect("made");
    agent.create_ring(request("c", Role::Consumer, 4096, &bar(""))).expect("made");
    let mut producer = agent.attach_producer("p", Cancel::new()).expect("attached");
    let mut consumer = agent.attach_consumer("c", Cancel::new()).expect("attached");
    producer.push(&[1; 64]).expect("room");
    let window = File::options().write(true).open(devices.path().join(ADDRESS).join("resource2"));
    window.expect("the window").write_all_at(&vec![0xff; BAR as usize], 0).expect("written");
    let popped = consumer.try_pop(&mut [0; 64]);
    assert!(matches!(popped, Err(PopError::Corrupt { .. } | PopError::Aborted(_))), "{popped:?}");
    // It looks at the tail once the ring seems full.
    let pushed = (0..=64).find_map(|_| producer.try_push(&[2; 64]).err());
    assert!(matches!(pushed, Some(PushError::Corrupt { .. } | PushError::Aborted(_))), "{pushed:?}");
}

#[test]
fn what_is_no_window_for_rings_is_refused_and_the_agent_goes_on() {
    let (pair, devices) = (Pair::start(), tempfile::tempdir().expect("a folder"));
    device(devices.path());
    let folder = devices.path().join(ADDRESS);
    let agent = agent(&pair, devices.path());
    let refused = |memory: &str, words: &[&str]| {
        let text = refusal(&agent, 4096, memory);
        words.iter().for_each(|word| assert!(text.contains(word), "`{text}` lacks `{word}`"));
    };
    refused("pci:0000:00:06.0:2", &["no PCI device 0000:00:06.0", "lspci"]);
    refused(&format!("pci:{ADDRESS}:0"), &["I/O ports"]);
    refused(&format!("pci:{ADDRESS}:3"), &["has no BAR 3", "64 bits"]);
    assert!(refusal(&agent, 1 << 20, &bar("")).contains("1052672 B"));

    fs::write(folder.join("enable"), "0\n").expect("written");
    refused(&bar(""), &["disabled", "echo 1 >"]);
    fs::write(folder.join("enable"), "1\n").expect("written");

    std::os::unix::fs::symlink("../../bus/pci/drivers/nvme", folder.join("driver")).expect("a link");
    refused(&bar(""), &["driver nvme", "unbind"]);
    fs::remove_file(folder.join("driver")).expect("removed");

    let other = Memories::with(true, devices.path(), "libno-cuda.so");
    let fresh = |memories: Memories| Agent::with_memories("h2", pair.backend(), None, memories);
    drop(agent);
    let again = fresh(other);
    // Another process has it: a lock of its own on the file.
    let held = File::options().read(true).write(true).open(folder.join("resource2")).expect("the window");
    held.lock().expect("locked");
    assert!(refusal(&again, 4096, &bar("")).contains("another process"));
    assert!(refusal(&again, 4096, &bar(":wc")).contains("another process"));
    drop(held);

    File::options().write(true).open(folder.join("resource2")).expect("it").set_len(4096).expect("short");
    assert!(refusal(&again, 4096, &bar("")).contains("has 4096 B"));
    fs::remove_file(folder.join("resource2_wc")).expect("removed");
    assert!(refusal(&again, 4096, &bar(":wc")).contains("prefetchable"));
    File::options().write(true).open(folder.join("resource2")).expect("it").set_len(BAR).expect("long");
    again.create_ring(request("ok", Role::Producer, 4096, &bar(""))).expect("made");
    // Both ways at once.
    assert!(refusal(&again, 4096, &bar(":wc")).contains("uncached"));
}

/// A driver for what `gpu:N:host` asks, and no more: two GPUs.
fn old_driver(folder: &Path) -> std::path::PathBuf {
    let (source, library) = (folder.join("cuda.c"), folder.join("libcuda.so.1"));
    let text = "int cuInit(unsigned flags) { return flags; }\n\
         int cuDeviceGetCount(int *count) { *count = 2; return 0; }\n\
         int cuGetErrorName(int error, const char **name) { return error; }\n";
    fs::write(&source, text).expect("written");
    let cc = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(cc.expect("cc, which links this test, too").success());
    library
}

#[test]
fn rings_of_a_gpu_need_its_driver_and_the_gpu() {
    let (pair, folder) = (Pair::start(), tempfile::tempdir().expect("a folder"));
    let with = |cuda: &Path| {
        Agent::with_memories("h1", pair.backend(), None, Memories::with(true, folder.path(), cuda))
    };
    let none = with(Path::new("libno-cuda.so.1"));
    let broken = Standin::with(&[("INIT", 999)]);
    let empty = Standin::with(&[("INIT", 100)]);
    let two = Standin::new();
    for kind in ["gpu:0", "gpu:0:host"] {
        let text = refusal(&none, 4096, kind);
        assert!(text.contains("libno-cuda.so.1") && text.contains("install"), "{text}");
        let text = refusal(&with(&broken.library()), 4096, kind);
        assert!(text.contains("CUDA_ERROR_OF_TEST") && text.contains("nvidia-smi"), "{text}");
        let text = refusal(&with(&empty.library()), 4096, kind);
        assert!(text.contains("no NVIDIA GPU"), "{text}");
        let text = refusal(&with(&two.library()), 4096, &kind.replace('0', "2"));
        assert!(text.contains("no GPU 2") && text.contains("0 to 1"), "{text}");
    }
    let old = with(&old_driver(folder.path()));
    let made = old.create_ring(request("ok", Role::Consumer, 4096, "gpu:1:host")).expect("made");
    assert!(made.ring.memory().file().is_some(), "programs can map it");
    let text = refusal(&old, 4096, "gpu:1");
    assert!(text.contains("CUDA 12") && text.contains("libcuda.so.1"), "{text}");
    for attribute in [103, 122] {
        let lacks = Standin::with(&[("LACKS", attribute)]);
        let text = refusal(&with(&lacks.library()), 4096, "gpu:1");
        assert!(text.contains("GPU 1 (stand-in 1") && text.contains("`memory: gpu:1:host`"), "{text}");
    }
}

#[test]
fn a_gpus_memory_is_given_back_and_its_end_is_told() {
    let (pair, standin) = (Pair::start(), Standin::with(&[("MEMORY", 6 << 20)]));
    let memories = Memories::with(true, "/nowhere", standin.library());
    let agent = Agent::with_memories("h1", pair.backend(), None, memories);
    for round in 0..3 {
        for name in ["a", "b", "c"] {
            let info = agent.create_ring(request(name, Role::Producer, 4096, "gpu:1")).expect("it fits");
            let memory = info.ring.memory();
            assert!(memory.describe().contains("GPU 1 (stand-in 1, GPU-a0a0"), "{}", memory.describe());
            // The memory had bytes from before: a ring is zeroed when it is made.
            assert_eq!(info.ring.items_at(0, 4096).expect("items"), [0; 4096], "round {round}");
        }
        let full = refusal(&agent, 4096, "gpu:1");
        for word in ["GPU 1", "8192 B", "2097152 B", "0 B of its 6291456 B are free", "gpu:1:host"] {
            assert!(full.contains(word), "`{full}` lacks `{word}`");
        }
        // Another GPU has memory of its own.
        agent.create_ring(request("other", Role::Consumer, 4096, "gpu:0")).expect("it fits");
        ["a", "b", "c", "other"].iter().for_each(|name| agent.destroy_ring(name).expect("gone"));
    }
    let huge = refusal(&agent, 1 << 30, "gpu:0");
    assert!(huge.contains("1073745920 B, which take 1075838976 B"), "{huge}");
}

#[test]
fn handles_of_processors_are_refused_in_a_gpus_memory() {
    let (pair, standin) = (Pair::start(), Standin::new());
    let memories = Memories::with(true, "/nowhere", standin.library());
    let agent = Agent::with_memories("h1", pair.backend(), None, memories);
    agent.create_ring(request("p", Role::Producer, 4096, "gpu:1")).expect("made");
    agent.create_ring(request("c", Role::Consumer, 4096, "gpu:1")).expect("made");
    let refused = [
        agent.attach_producer("p", Cancel::new()).expect_err("no processor gets there").to_string(),
        agent.attach_consumer("c", Cancel::new()).expect_err("no processor gets there").to_string(),
    ];
    for (text, name) in refused.iter().zip(["`p`", "`c`"]) {
        assert!(text.contains(name) && text.contains("GPU 1") && text.contains("zsr_rings"), "{text}");
    }
    // It was not taken.
    assert!(!agent.ring("p").expect("there").ring.has_producer());
}
