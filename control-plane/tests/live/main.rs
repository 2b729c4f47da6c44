//! A system of real processes, from `zsr up` to `zsr down`.

#[path = "../../../tests/src/beside.rs"]
mod beside;
#[path = "../../../xtask/src/cargo.rs"]
mod cargo;
mod churn;
mod deaths;
mod elastic;
mod guide;
mod kills;
mod leaving;
mod library;
mod life;
mod lists;
mod many;
mod measure;
mod members;
mod operator;
mod pauses;
mod pcap;
mod programs;
mod remains;
mod replicas;
mod secure;
mod standby;
mod streams;
mod system;
mod terminal;

use cargo::cargo;
