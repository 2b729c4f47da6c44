//! A counter that three replicas keep, in a system that was brought up with
//!
//! ```text
//! zsr up topologies/shuffle-2x2.yaml --no-flows
//! ```

use std::time::Duration;

use zsr::{Cancel, Place};
use zsr_replicated_log::{Log, LogError, Party, StateMachine};

#[derive(Default)]
struct Counter(i64);

impl StateMachine for Counter {
    fn apply(&mut self, command: &[u8]) -> Vec<u8> {
        let by = std::str::from_utf8(command).ok().and_then(|text| text.parse().ok());
        self.0 = self.0.wrapping_add(by.unwrap_or(0));
        self.0.to_string().into_bytes()
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), String> {
        self.0 = i64::from_le_bytes(snapshot.try_into().map_err(|_| "a counter has 8 bytes")?);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = Place::find(None)?;
    let at = |name, host| Party { name, host };
    let replicas = [at("r1", "h2"), at("r2", "h3"), at("r3", "h4")];
    let log = Log::create(&place, "count", &replicas, &[at("c1", "h1")])?;
    // Each replica and each client may be a program of its own.
    std::thread::scope(|threads| -> Result<(), LogError> {
        for replica in replicas {
            let mut replica = log.begin(replica.name, Counter::default(), Cancel::new())?;
            threads.spawn(move || replica.run().expect("the log goes on"));
        }
        let mut client = log.client(Some("c1"), Cancel::new())?;
        for command in ["1", "2", "39"] {
            let answer = client.call(command.as_bytes(), Duration::from_secs(5))?;
            println!("+{command} makes {}", String::from_utf8_lossy(&answer));
        }
        client.close()
    })?;
    log.delete()?;
    Ok(())
}
