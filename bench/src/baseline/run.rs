//! Nodes over a cluster: all in one thread, step by step, or each in a thread of its own.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::valgrind::counted;

/// Tuples that a node pushes before the others have their turn.
pub const PUSHES: usize = 4096;
/// Virtual time between two turns of a stepped run, in nanoseconds.
const STEP_NS: u64 = 20_000;

/// Such steps until the hardware has done all that it will do by itself.
const QUIET_STEPS: usize = 10;

/// A program of a node, in steps.
pub trait Program: Send {
    /// Pushes as much as there is room for. Returns the number of steps.
    fn push(&mut self) -> usize;

    /// Takes everything that has come. Returns the number of steps.
    fn consume(&mut self) -> usize;

    /// Computes with tuples that have come; this is no part of the communication.
    fn compute(&mut self) {}

    /// Whether everything is done.
    fn is_done(&self) -> bool;
}

/// Times of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// By the clock; of a stepped run, its processor time.
    pub wall: Duration,
    /// Processor time of all nodes' programs.
    pub programs: Duration,
    /// Processor time of NICs, links and switch.
    pub hardware: Duration,
}

/// The part of a run that callgrind counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// None.
    Nothing,
    /// The work of nodes to push.
    Push,
    /// The work of nodes to consume.
    Consume,
}

/// Runs all programs in this thread until they are done: each has its turn, then the hardware does all work that is
/// left.
pub fn stepped<P: Program>(cluster: &mut Option<Cluster>, programs: &mut [P], count: Count) -> Spent {
    let begun = thread_time();
    let (mut now, mut spent, mut idle) = (1_000_000, Spent::default(), 0);
    while !programs.iter().all(P::is_done) {
        let mut steps = 0;
        let start = thread_time();
        for program in programs.iter_mut() {
            steps += if count == Count::Push { counted(|| program.push()) } else { program.push() };
            steps += if count == Count::Consume { counted(|| program.consume()) } else { program.consume() };
            program.compute();
        }
        let between = thread_time();
        spent.programs += between - start;
        if let Some(cluster) = cluster {
            // Only useful work is counted: programs run again when everything has arrived.
            for _ in 0..if count == Count::Nothing { 1 } else { QUIET_STEPS } {
                cluster.settle(now);
                now += STEP_NS;
            }
        }
        spent.hardware += thread_time() - between;
        idle = if steps == 0 { idle + 1 } else { 0 };
        assert!(idle < 100_000, "nothing moves any more");
    }
    spent.wall = thread_time() - begun;
    spent
}

/// Runs each program in a thread of its own, and the hardware in another one.
pub fn threaded<P: Program>(mut cluster: Cluster, programs: &mut [P]) -> (Spent, Cluster) {
    let (done, barrier) = (AtomicUsize::new(0), Barrier::new(programs.len() + 1));
    let (all, stop) = (programs.len(), AtomicBool::new(false));
    let mut spent = Spent::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = programs
            .iter_mut()
            .map(|program| {
                let (done, barrier) = (&done, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let begun = thread_time();
                    while !program.is_done() {
                        if program.push() + program.consume() == 0 {
                            std::thread::yield_now();
                        }
                        program.compute();
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                    thread_time() - begun
                })
            })
            .collect();
        let (hardware, stop) = (&mut cluster, &stop);
        let barrier = &barrier;
        let fabric = scope.spawn(move || {
            barrier.wait();
            let (start, begun) = (Instant::now(), thread_time());
            while !stop.load(Ordering::Relaxed) {
                if hardware.round(start.elapsed().as_nanos() as u64) == 0 {
                    std::thread::yield_now();
                }
            }
            (thread_time() - begun, start)
        });
        spent.programs = threads.into_iter().map(|t| t.join().expect("a program")).sum();
        let end = Instant::now();
        assert_eq!(done.load(Ordering::Relaxed), all);
        stop.store(true, Ordering::Relaxed);
        let (hardware, start) = fabric.join().expect("the hardware");
        (spent.hardware, spent.wall) = (hardware, end - start);
    });
    (spent, cluster)
}

/// Processor time of the calling thread.
fn thread_time() -> Duration {
    // SAFETY: the call writes a plain structure of ours.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}
