//! `zsr bw` and `zsr lat` on a running system.

use std::os::unix::process::CommandExt as _;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::system::{HOSTS, System};

#[test]
fn what_is_measured_is_printed_and_nothing_stays() {
    let system = System::up(HOSTS);
    let before = system.switch();

    let bw = system.json(&["bw", "h1", "h2", "--size", "64,4KiB", "-n", "2000"]);
    assert_eq!(bw.iter().map(|row| row["size"].as_u64()).collect::<Vec<_>>(), [Some(64), Some(4096)]);
    for row in &bw {
        let number = |key: &str| row[key].as_f64().expect("a number");
        assert_eq!(number("iterations"), 2000.0);
        assert!(number("average_bytes_per_second") > 0.0, "{row}");
        assert!(number("peak_bytes_per_second") >= number("average_bytes_per_second"), "{row}");
    }

    let csv = system.well(&["lat", "h1", "h3", "-n", "50", "--percentile", "90,99.9", "--csv"]);
    let lines: Vec<Vec<&str>> = csv.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert_eq!(lines[0][..3], ["size", "iterations", "min_us"]);
    assert_eq!(lines[0][7..], ["p90_us", "p99.9_us"]);
    let numbers: Vec<f64> = lines[1].iter().map(|n| n.parse().expect("a number")).collect();
    assert_eq!(numbers[..2], [64.0, 50.0]);
    let [min, max, typical, p90, p999] = [2, 3, 4, 7, 8].map(|column| numbers[column]);
    assert!(0.0 < min && min <= typical && typical <= p90 && p90 <= p999 && p999 <= max, "{csv}");

    assert_eq!(system.well(&["flow", "list", "--json"]), "");
    assert_eq!(system.switch(), before, "numbers of the switch are free again");
    let wrong = system.zsr(&["lat", "h1", "h9"]);
    assert_eq!((wrong.code, wrong.err.contains("h9")), (Some(2), true), "{}", wrong.err);
    let wrong = system.zsr(&["bw", "h1", "h2", "--size", "100"]);
    assert_eq!((wrong.code, wrong.err.contains("power of two")), (Some(2), true), "{}", wrong.err);
    system.down();
}

#[test]
fn links_have_the_latency_and_the_rate_of_the_topology() {
    let link = |n| format!("  - {{from: h{n}, to: s1:{n}, latency: 1ms, rate: 10Mbit}}\n");
    let system = System::up(&format!("name: s\nhosts: [h1, h2]\nlinks:\n{}{}flows: []\n", link(1), link(2)));
    let number = |rows: &[serde_json::Value], key: &str| rows[0][key].as_f64().expect("a number");
    let lat = system.json(&["lat", "h1", "h2", "-n", "20"]);
    // It is asked for, goes to the switch, and from there to its consumer.
    assert!(number(&lat, "min_us") >= 3000.0, "{lat:?}");
    // Transfers that are over before they count as lost.
    let patient = ["--max-batch", "16KiB", "--rto", "200ms"];
    let bw = system.json(&[&["bw", "h1", "h2", "--size", "4KiB", "-n", "100"][..], &patient].concat());
    // Twice what the link takes, as a busy machine may see the first message late; without the rate it is some tens of MB.
    assert!(number(&bw, "average_bytes_per_second") <= 2_500_000.0, "{bw:?}");
    system.down();
}

/// The cores on which the thread of that name may run, as the kernel writes them.
fn cores_of(pid: u64, thread: &str) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let task = tasks.map(|task| task.expect("an entry").path()).find(|task| {
        // Other threads may end meanwhile.
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread)
    });
    let status = std::fs::read_to_string(task.expect("that thread").join("status")).expect("its status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.expect("a list").trim().to_owned()
}

#[test]
fn switch_and_nics_share_no_core_while_much_passes_where_cores_are_few() {
    let all = sched_getaffinity(None).expect("its cores");
    let mut two = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).take(2).for_each(|core| two.set(core));
    if two.count() < 2 {
        println!("SKIPPED: this machine has one core");
        return;
    }
    let system = System::new(HOSTS);
    let mut up = system.command(&["up", system.path()]);
    // SAFETY: between fork and exec nothing but this call is made.
    unsafe { up.pre_exec(move || Ok(sched_setaffinity(None, &two)?)) };
    assert!(up.status().expect("it runs").success());

    let (switch, nics) = (system.pid("switch"), ["h1", "h2"].map(|h| system.pid(&format!("agent.{h}"))));
    let cores = || (cores_of(switch, "zsr-switch"), nics.map(|nic| cores_of(nic, "zsr-nic")));
    let (free, nics) = cores();
    assert_eq!(nics, [free.clone(), free.clone()], "nothing passes");
    let (mut bw, _) = system.start(&["bw", "h1", "h2", "-n", "50000"]);
    loop {
        let (switch, nics) = cores();
        if switch != free && nics.iter().all(|nic| *nic != free) {
            assert!(nics.iter().all(|nic| *nic == nics[0] && *nic != switch), "{switch} {nics:?}");
            break;
        }
        assert!(bw.try_wait().expect("its state").is_none(), "it goes on: {switch} {nics:?}");
        std::thread::yield_now();
    }
    super::system::signal(bw.id().into(), "-INT");
    bw.wait().expect("it ends");
    while cores() != (free.clone(), [free.clone(), free.clone()]) {
        std::thread::yield_now();
    }
    system.down();
}
