//! What it costs to create and delete flows on a system that is up, and whether that grows with their number.
//!
//! `bench/setup` starts a system for it.

use std::time::{Duration, Instant};

use zsr_control_plane::cli::client::Session;
use zsr_control_plane::controller::proto;
use zsr_control_plane::process::Place;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flows: usize = std::env::args().nth(1).map_or(Ok(1000), |n| n.parse())?;
    let session = Session::open(&Place::find(None)?)?;
    let hosts = session.call(|mut c| async move { c.get_system(proto::GetSystemRequest {}).await })?.hosts;
    let host = |n: usize| hosts[n % hosts.len()].name.clone();
    let mut created = Vec::with_capacity(flows);
    for n in 0..flows {
        let member = |host| vec![proto::Member { host, ..Default::default() }];
        let request = proto::CreateFlowRequest {
            name: format!("f{n}"),
            producers: member(host(n)),
            consumers: member(host(n + 1)),
            item_size: 64,
            ring_size: 4096,
            settings: Some(proto::Settings { poll_interval_us: Some(10_000), ..Default::default() }),
            ..Default::default()
        };
        created.push(timed(|| session.call(|mut c| async move { c.create_flow(request).await }))?);
    }
    print("create", &created);
    let mut deleted = Vec::with_capacity(flows);
    for n in 0..flows {
        let request = proto::DeleteFlowRequest { name: format!("f{n}"), force: false };
        deleted.push(timed(|| session.call(|mut c| async move { c.delete_flow(request).await }))?);
    }
    print("delete", &deleted);
    Ok(())
}

fn timed<T, E>(f: impl FnOnce() -> Result<T, E>) -> Result<Duration, E> {
    let begun = Instant::now();
    f()?;
    Ok(begun.elapsed())
}

/// Mean and median of each tenth.
fn print(what: &str, times: &[Duration]) {
    println!("{what}: {} flows in {:.2?}", times.len(), times.iter().sum::<Duration>());
    let size = times.len().div_ceil(10).max(1);
    for (n, tenth) in times.chunks(size).enumerate() {
        let mut sorted = tenth.to_vec();
        sorted.sort();
        let mean = tenth.iter().sum::<Duration>() / tenth.len() as u32;
        let (median, worst) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
        println!("  from {:>5}: mean {mean:>8.1?}  median {median:>8.1?}  worst {worst:>8.1?}", n * size);
    }
}
