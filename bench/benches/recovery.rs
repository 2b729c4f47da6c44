//! How long flows stand still when their switch's process is killed, and another one is started at once, or a standby
//! takes over. All times are milliseconds from the kill. Columns: when the controller has noticed it, when the new
//! process was there (a standby is there from the beginning), and when the first and the last flow moved again. The
//! last column is the time without delivery behind the later of the first two, since no flow can go on before that. The
//! argument is the largest number of flows. Figures stand in bench/results/recovery.md.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use zsr_api::controller::{self as proto, EventKind};
use zsr_bench::live::{Live, Stepper};

/// How long flows move before their switch dies.
const BEFORE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(500);
/// How long consumers have for what is in their rings.
const DRAIN: Duration = Duration::from_millis(5);
const ROUNDS: usize = 3;

fn main() {
    println!("{}", zsr_bench::machine());
    // Cargo passes options of its own.
    let most = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(1000);
    println!("another process in its place");
    let live = Live::up(4);
    measure(&live, most, || {
        live.replace_switch();
        None
    });
    drop(live);
    println!("a standby");
    let live = Live::with_standby(4);
    measure(&live, most, || Some(live.kill_switch()));
}

/// Has `replace` kill the switch, under flows that move; the switch that it names is started again afterwards.
fn measure(live: &Live, most: usize, replace: impl Fn() -> Option<String>) {
    let mut flows = Vec::new();
    let header = ["flows", "noticed", "switch", "first", "all", "behind"];
    println!("{}", header.map(|text| format!("{text:>10}")).concat());
    for count in [1, 100, 1000].into_iter().filter(|count| *count <= most) {
        while flows.len() < count {
            let request = proto::CreateFlowRequest { item_size: 1024, ring_size: 8192, ..Default::default() };
            let name = format!("f{}", flows.len());
            flows.push(live.create(&name, &["h1", "h2"], &["h3", "h4"], request));
        }
        // Programs are attached once: thousands of them take their time.
        let stepper = Stepper::start(&flows);
        for _ in 0..ROUNDS {
            std::thread::sleep(BEFORE);
            let (killed, at) = (Instant::now(), SystemTime::now());
            let gone = replace();
            let there = if gone.is_some() { Duration::ZERO } else { killed.elapsed() };
            if gone.is_some() {
                // Rings still give the items that the old switch has delivered.
                noticed(live, at);
                std::thread::sleep(DRAIN);
            }
            // The items that the old switch had delivered have been popped by now.
            let (before, mut first) = (stepper.popped(), None);
            let all = loop {
                let now = stepper.popped();
                let moved = now.iter().zip(&before).filter(|(now, before)| now > before).count();
                if moved > 0 {
                    first.get_or_insert_with(|| killed.elapsed());
                }
                if moved == count {
                    break killed.elapsed();
                }
                std::thread::sleep(PAUSE);
            };
            let noticed = noticed(live, at);
            let figures = [noticed, there, first.unwrap_or(all), all, all.saturating_sub(there.max(noticed))];
            let figures = figures.map(|time| format!("{:>10.0}", time.as_secs_f64() * 1e3));
            println!("{count:>10}{}", figures.concat());
            gone.iter().for_each(|name| live.return_switch(name));
        }
    }
}

/// How long after `at` the controller has noticed that its switch, or its session with it, had gone.
fn noticed(live: &Live, at: SystemTime) -> Duration {
    let at = at.duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let lost = |event: &proto::Event| {
        event.time_ms >= at && matches!(event.kind(), EventKind::SessionLost | EventKind::SwitchLost)
    };
    let events = live.session.events(Some(0), true).expect("events");
    let first = events.filter_map(Result::ok).find(lost).expect("it is told");
    Duration::from_millis(first.time_ms - at)
}
