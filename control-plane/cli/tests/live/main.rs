//! A system of real processes, from `zsr up` to `zsr down`.

#[path = "../awkward/mod.rs"]
mod awkward;
#[path = "../../../../tests/src/beside.rs"]
mod beside;
#[path = "../../../../xtask/src/cargo.rs"]
mod cargo;
mod churn;
mod dash;
mod deaths;
mod elastic;
mod ends;
mod gpu;
mod guide;
mod journal;
mod kills;
mod layouts;
mod leaving;
mod library;
mod life;
mod lists;
mod logs;
mod many;
mod measure;
mod members;
mod metrics;
mod operator;
mod pauses;
mod pcap;
mod programs;
mod remains;
mod replicas;
mod secure;
mod standby;
#[path = "../../../../tests/gpu/standin.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod standin;
mod streams;
mod system;
mod terminal;

use cargo::cargo;
