//! Items that a consumer may have consumed, though nobody knows it any more. A switch has died with a transfer under
//! way to the consumer, or has not heard the end of one. The consumer's ring with the commit record is gone, too.
//! [`crate::recovery::resume`] and [`crate::turn::quiesce`] find such items; this module reports them. A producer's
//! next items are not given to another consumer before the consumer in doubt is taken out ([`Flow::held`]).

use crate::Controller;
use crate::api::events::of_flow;
use zsr_api::agent as words;
use zsr_api::controller::{self as proto, EventKind};
use zsr_plan::dataplane::model::{Doubt, Flow, FlowKind, Ring};

/// The doubt that `consumer` has consumed the transfer under way to its ring of `room` bytes, from a producer ring with
/// these `words`. `None`: the producer ring holds nothing.
pub(crate) fn doubt(
    flow: &Flow,
    (consumer, room): (&str, u32),
    producer: &Ring,
    words: &words::Ring,
) -> Option<Doubt> {
    let fill = words.head.wrapping_sub(words.tail);
    let items = flow.most_under_way(producer, words.tail, fill, room);
    (items > 0).then(|| of(flow, consumer, producer, items))
}

/// As [`doubt`], of a producer ring that is gone, too.
pub(crate) fn doubt_of_lost(flow: &Flow, (consumer, room): (&str, u32), producer: &Ring) -> Doubt {
    of(flow, consumer, producer, flow.most_under_way(producer, 0, u32::MAX, room))
}

fn of(flow: &Flow, consumer: &str, producer: &Ring, items: u32) -> Doubt {
    let member = flow.producers.iter().find(|m| m.rings.iter().any(|r| r.name == producer.name));
    Doubt {
        consumer: consumer.to_owned(),
        producer: member.map(|m| m.name.clone()).unwrap_or_default(),
        ring: producer.name.clone(),
        items,
    }
}

/// The items that one transfer may have had, for people; `None`: no items.
fn amounts(doubts: &[&Doubt]) -> Option<String> {
    let one = |doubt: &&Doubt| {
        let items =
            if doubt.items == 1 { "1 item".to_owned() } else { format!("up to {} items", doubt.items) };
        format!("{items} of producer `{}`", doubt.producer)
    };
    let all: Vec<String> = doubts.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(", or "))
}

/// The consumers that doubts are about, each with its own.
fn by_consumer(doubts: &[Doubt]) -> Vec<(&str, Vec<&Doubt>)> {
    let mut out: Vec<(&str, Vec<&Doubt>)> = Vec::new();
    for doubt in doubts {
        match out.iter_mut().find(|(consumer, _)| *consumer == doubt.consumer) {
            Some((_, own)) => own.push(doubt),
            None => out.push((&doubt.consumer, vec![doubt])),
        }
    }
    out
}

/// The items that consumers who are taken out may have consumed, for people; empty: no items.
pub(crate) fn consumed(kind: FlowKind, doubts: &[Doubt]) -> String {
    let what = match kind.copies() {
        true => {
            "the other consumers get it later, perhaps in another order, or never if its producer is gone"
        }
        false => "what it has consumed of that comes once more, to another consumer",
    };
    let of = |(consumer, own): (&str, Vec<&Doubt>)| {
        Some(format!("`{consumer}` may have consumed {} before: {what}", amounts(&own)?))
    };
    by_consumer(doubts).into_iter().filter_map(of).collect::<Vec<_>>().join("; ")
}

/// The members that wait for lost consumers, for people; `None`: no member waits.
pub(crate) fn waiting(flow: &Flow) -> Option<String> {
    let of = |lost: &zsr_plan::dataplane::model::Lost| {
        let member = flow.consumers.iter().find(|m| m.rings.iter().any(|r| r.name == lost.ring))?;
        let doubts: Vec<&Doubt> = lost.doubts.iter().collect();
        let (name, amounts) = (&member.name, amounts(&doubts)?);
        let who = match flow.kind.copies() {
            true => "the flow waits".to_owned(),
            false => {
                let producers: Vec<&str> = doubts.iter().map(|d| d.producer.as_str()).collect();
                let verb = if producers.len() == 1 { "waits" } else { "wait" };
                format!("`{}` {verb}", producers.join("`, `"))
            }
        };
        Some(format!(
            "{who} for host `{}` of member `{name}`, whose ring `{}` is gone: `{name}` may have consumed {amounts}, which nobody else may \
             get before `{name}` is taken out with zsr flow remove-member {} {name} --force",
            member.host, lost.ring, flow.name
        ))
    };
    let all: Vec<String> = flow.lost.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Doubts as an event has them.
pub(crate) fn told(doubts: &[Doubt]) -> Vec<proto::Doubt> {
    let one = |d: &Doubt| proto::Doubt {
        consumer: d.consumer.clone(),
        producer: d.producer.clone(),
        ring: d.ring.clone(),
        items: d.items,
    };
    doubts.iter().map(one).collect()
}

impl Controller {
    /// Reports once more the doubts that an earlier controller may not have reported before it died.
    pub(crate) fn tell_again(&self) {
        for flow in self.list_flows() {
            for (consumer, own) in by_consumer(&flow.told) {
                let own: Vec<Doubt> = own.into_iter().cloned().collect();
                let text = format!("as an earlier controller has found: {}", consumed(flow.kind, &own));
                let (member, doubts) = (consumer.to_owned(), told(&own));
                let event = proto::Event { member, doubts, ..of_flow(&flow.name, text) };
                self.0.events.emit(EventKind::MemberRemoved, event);
            }
        }
    }
}
