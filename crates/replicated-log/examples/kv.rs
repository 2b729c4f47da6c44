//! A store of keys and values that replicas keep, each a process of its own.
//!
//! ```text
//! zsr up topologies/shuffle-2x2.yaml --no-flows
//! kv create h2 h3 h4 -- h1        # replicas r1, r2, r3 on these hosts, and the client c1
//! kv begin r1                     # and so on, in the background
//! kv call c1                      # reads lines `set KEY VALUE`, `get KEY`, prints answers
//! kv rejoin r1 h2                 # after r1 was killed
//! ```
//!
//! A replica prints `here` when it carries commands out, and what it keeps when all clients have closed.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use zsr::{Cancel, Place};
use zsr_replicated_log::{Log, Party, Replica, StateMachine};

const USAGE: &str =
    "kv create HOST... -- HOST... | begin REPLICA | rejoin REPLICA HOST | call CLIENT | delete";

/// Each key's value, and how often it was set.
#[derive(Default)]
struct Store(BTreeMap<String, (String, u64)>);

impl StateMachine for Store {
    fn apply(&mut self, command: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(command);
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["set", key, value] => {
                let entry = self.0.entry(key.to_owned()).or_default();
                *entry = (value.to_owned(), entry.1 + 1);
                b"ok".to_vec()
            }
            ["get", key] => self.0.get(key).map_or(b"none".to_vec(), |(value, _)| value.clone().into_bytes()),
            _ => b"not known: set KEY VALUE, or get KEY".to_vec(),
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        let line = |(key, (value, times)): (&String, &(String, u64))| format!("{key} {value} {times}\n");
        let lines: Vec<String> = self.0.iter().map(line).collect();
        lines.concat().into_bytes()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(snapshot).map_err(|e| e.to_string())?;
        let entry = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
            [key, value, times] => Some((key.to_owned(), (value.to_owned(), times.parse().ok()?))),
            _ => None,
        };
        let entries: Option<_> = text.lines().map(entry).collect();
        self.0 = entries.ok_or("a line is not KEY VALUE TIMES")?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let place = Place::find(None)?;
    let log = Log::named(&place, "kv");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["create", ref hosts @ ..] => create(&place, hosts),
        ["begin", replica] => serve(log.begin(replica, Store::default(), Cancel::new())?),
        ["rejoin", name, host] => {
            let (party, patience) = (Party { name, host }, Duration::from_secs(60));
            serve(log.rejoin(party, Store::default(), Cancel::new(), patience)?)
        }
        ["call", client] => call(&log, client),
        ["delete"] => Ok(log.delete()?),
        _ => Err(USAGE.into()),
    }
}

fn create(place: &Place, hosts: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut sides = hosts.split(|word| *word == "--");
    let (Some(replicas), Some(clients)) = (sides.next(), sides.next()) else { return Err(USAGE.into()) };
    let names = |prefix: &str, hosts: &[&str]| -> Vec<String> {
        (1..=hosts.len()).map(|number| format!("{prefix}{number}")).collect()
    };
    let (r, c) = (names("r", replicas), names("c", clients));
    let replicas: Vec<_> = r.iter().zip(replicas).map(|(name, host)| Party { name, host }).collect();
    let clients: Vec<_> = c.iter().zip(clients).map(|(name, host)| Party { name, host }).collect();
    Log::create(place, "kv", &replicas, &clients)?;
    Ok(())
}

fn serve(mut replica: Replica<Store>) -> Result<(), Box<dyn Error>> {
    println!("here");
    replica.run()?;
    print!("{}", String::from_utf8_lossy(&replica.state().snapshot()));
    Ok(())
}

fn call(log: &Log, client: &str) -> Result<(), Box<dyn Error>> {
    let mut client = log.client(Some(client), Cancel::new())?;
    for line in std::io::stdin().lines() {
        let answer = client.call(line?.as_bytes(), Duration::from_secs(10))?;
        println!("{}", String::from_utf8_lossy(&answer));
    }
    Ok(client.close()?)
}
