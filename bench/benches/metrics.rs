//! `cargo bench -p zsr-bench --bench metrics`: a scrape of `zsr metrics` with many idle flows, which have two rings each:
//! all of it, from the question to the text, and the text alone. `FLOWS` sets their number (default 10000). Figures
//! stand in bench/results/processes.md.

use std::time::Instant;
use zsr_api::controller as proto;
use zsr_bench::Times;
use zsr_bench::live::Live;

const ROUNDS: usize = 9;
const POLL_IDLE_US: u64 = 1_000_000;

fn main() {
    let flows: usize = std::env::var("FLOWS").map_or(10_000, |n| n.parse().expect("FLOWS is a number"));
    println!("{}", zsr_bench::machine());
    let live = Live::up(4);
    let hosts = ["h1", "h2", "h3", "h4"];
    let settings = proto::Settings { poll_interval_us: Some(POLL_IDLE_US), ..Default::default() };
    for n in 0..flows {
        let request = proto::CreateFlowRequest {
            item_size: 64,
            ring_size: 4096,
            settings: Some(settings),
            ..Default::default()
        };
        live.create(&format!("f{n}"), &[hosts[n % 4]], &[hosts[(n + 1) % 4]], request);
    }
    let (mut all, mut text, mut bytes, mut oldest) = (Vec::new(), Vec::new(), 0, 0.0);
    for _ in 0..=ROUNDS {
        let begun = Instant::now();
        let answers = zsr_cli::metrics::look(&live.session).unwrap_or_else(|e| panic!("{e}"));
        let answered = Instant::now();
        let scrape = zsr_cli::metrics::open_metrics(answers);
        all.push(begun.elapsed().as_secs_f64() * 1e3);
        text.push(answered.elapsed().as_secs_f64() * 1e3);
        let states = scrape.lines().filter(|l| l.starts_with("zsr_flow_state{") && l.ends_with(" 1.0"));
        assert_eq!(states.count(), flows, "each flow is in a state");
        let rings = scrape.lines().filter(|line| line.starts_with("zsr_ring_fill_bytes{"));
        assert_eq!(rings.count(), 2 * flows, "each flow has two rings");
        bytes = scrape.len();
        let ages = scrape.lines().filter(|line| line.starts_with("zsr_flow_figures_age_seconds{"));
        let ages = ages.filter_map(|line| line.rsplit(' ').next()?.parse().ok());
        oldest = ages.fold(oldest, f64::max);
    }
    println!(
        "{flows} flows, {:.1} MB of text, {ROUNDS} scrapes behind a first one, ms (min median max)",
        bytes as f64 / 1e6
    );
    for (what, times) in [("a whole scrape", all), ("its text", text)] {
        let Times { min, median, max } = Times::of(times[1..].to_vec());
        println!("{what:16} {min:>8.1} {median:>8.1} {max:>8.1}");
    }
    println!("oldest figure: {oldest:.1} s (0: the switch and all agents answered in time)");
}
