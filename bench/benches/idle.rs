//! The cost of a system that does nothing: processor time of all its processes (switch, agents, controller), in percent
//! of a core. Measured without a flow, with one idle flow and with a hundred. Figures stand in
//! bench/results/processes.md.

use std::time::{Duration, Instant};
use zsr_api::controller as proto;
use zsr_bench::live::Live;

/// Longer than it takes for polls to become rare.
const SETTLE: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_secs(10);

fn main() {
    println!("{}", zsr_bench::machine());
    let live = Live::up(4);
    let mut made = 0;
    println!("{:>6} {:>10}  {:>12}", "flows", "% of a core", "polls/s each");
    for flows in [0, 1, 100] {
        while made < flows {
            let request =
                proto::CreateFlowRequest { item_size: 4096, ring_size: 65536, ..Default::default() };
            live.create(&format!("f{made}"), &["h1"], &["h3"], request);
            made += 1;
        }
        std::thread::sleep(SETTLE);
        let (before, begun) = (live.processor_time(), Instant::now());
        std::thread::sleep(WINDOW);
        let share = (live.processor_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
        // Asking for the times takes processor time, too, which counts for another window.
        let (before, begun) = (polls(&live), Instant::now());
        std::thread::sleep(SETTLE);
        let each = (polls(&live) - before) as f64 / begun.elapsed().as_secs_f64() / flows.max(1) as f64;
        println!("{flows:>6} {:>10.2}  {each:>12.0}", share * 100.0);
    }
}

fn polls(live: &Live) -> u64 {
    let stats =
        live.session.call(|mut c| async move { c.get_stats(proto::GetStatsRequest::default()).await });
    stats.unwrap_or_else(|e| panic!("{e}")).flows.iter().map(|flow| flow.polls).sum()
}
