//! `zsr bw` and `zsr lat` on a running system.

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
