//! The timers of the software switch, whose packets make workers look for something to do. Which numbers and times they
//! have is the planner's choice ([`zsr_plan::dataplane::ticks`]).

use std::time::Duration;
use zsr_plan::dataplane::ticks::{IDLE_TICK, LONGEST_REST, NEW_TICK, NUMBER_IDLE, NUMBER_NEW};
use zsr_plan::dataplane::{FIRST_RESERVED_PORT, PORT_TIMER, admin};
use zsr_soft_switch::{Numbers, Rest, TimerPort};

/// Ticks of a software switch on which nothing moves become rare within a second, and so do polls of empty rings. A
/// doorbell does not wait for ticks. Workers of a capped flow share its rate by the chances of many looks
/// (p4/pipeline/look.p4). Nothing else may move between two of its transfers, so ticks stay frequent for a while.
const REST: Rest = Rest { after_ns: 100_000_000, longest_ns: LONGEST_REST.as_nanos() as u64 };
/// The same for workers that have moved nothing for a while: their ticks only find items whose doorbell was lost.
const IDLE_REST: Rest = Rest { longest_ns: 75_000_000, ..REST };

/// The timers of the software switch. The first is for the workers of busy flows; it comes later when so many are busy
/// that their ticks would keep packets waiting. The others are for the other classes, for workers that wait for a
/// doorbell, and for workers of new flows. All rest while nothing moves.
pub fn timers(tick: Duration) -> [TimerPort; 4] {
    const { assert!(PORT_TIMER as u32 >= FIRST_RESERVED_PORT) };
    let tick_ns = (tick.as_nanos() as u64).max(1);
    let often = TimerPort {
        port: PORT_TIMER,
        interval_ns: tick_ns,
        template: admin::timer_packet(0),
        count: 1,
        numbers: None,
        yields: true,
        rest: Some(REST),
    };
    // Every eighth number is not for busy workers. These numbers come by fours: workers that tick so rarely are not in
    // a hurry.
    let others = TimerPort {
        interval_ns: tick_ns.saturating_mul(32),
        count: 4,
        numbers: Some(Numbers { offset: admin::NEXT, first: 7, step: 8 }),
        yields: false,
        ..often.clone()
    };
    let idle = TimerPort {
        interval_ns: (IDLE_TICK.as_nanos() as u64).max(tick_ns),
        template: admin::timer_packet(NUMBER_IDLE),
        yields: false,
        rest: Some(IDLE_REST),
        ..often.clone()
    };
    let new = TimerPort {
        interval_ns: (NEW_TICK.as_nanos() as u64).max(tick_ns),
        template: admin::timer_packet(NUMBER_NEW),
        rest: Some(REST),
        ..idle.clone()
    };
    [often, others, idle, new]
}
