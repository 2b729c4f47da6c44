//! Reads back what the switch holds, and compares it with what it should hold. Entries may be missing or differ after a
//! change that was broken off, or because another client of the switch has changed them.

use crate::Controller;
use crate::recovery::start::StartError;
use crate::times::reconcile::RECONCILE;
use p4runtime_proto::p4::v1 as rt;
use std::collections::{BTreeMap, BTreeSet};
use zsr_plan::dataplane::diff::Diff;
use zsr_plan::dataplane::flow::{DataPlane, Ticks, base, replication};
use zsr_plan::dataplane::model::Flow;
use zsr_plan::dataplane::{is_base_group, ticks};
use zsr_plan::p4::names::{digest::REPORT_T, table};
use zsr_plan::p4::{Artifacts, OPTIONAL};
use zsr_plan::surroundings::Surroundings;
use zsr_switch::ClientError;
use zsr_switch::SwitchClient;
use zsr_switch::patience::within;
use zsr_topology::Topology;

/// Workers that run, by the multicast group that makes them tick.
type Ticking = BTreeMap<u32, BTreeSet<u16>>;

/// A cookie for a program that is about to be given to a switch: by it the controller knows later whether the same
/// pipeline still runs, registers included. The cookie's upper half identifies the program.
pub(crate) fn program_cookie(client: &SwitchClient, artifacts: &Artifacts) -> u64 {
    u64::from(client.fingerprint(artifacts)) << 32 | u64::from(zsr_plan::dataplane::secret())
}

/// Workers of `flows` that run.
pub(crate) fn ticking<'f>(plane: &DataPlane, flows: impl Iterator<Item = &'f Flow>) -> Ticking {
    let mut out = Ticking::new();
    for flow in flows {
        for (worker, group) in plane.tick_groups(flow) {
            out.entry(group).or_default().insert(worker);
        }
    }
    out
}

/// Workers of `flows` that the switch `holds` in the groups of idle workers. They stay there, and are moved in
/// `ticking`.
fn idle<'f>(
    plane: &DataPlane,
    flows: impl Iterator<Item = &'f Flow>,
    held: &[rt::Entity],
    ticking: &mut Ticking,
) -> Ticks {
    use rt::packet_replication_engine_entry::Type::MulticastGroupEntry;
    let group = |e: &rt::Entity| match &e.entity {
        Some(rt::entity::Entity::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
            Some(MulticastGroupEntry(group)) => {
                let copies = group.replicas.iter().map(|r| r.instance).collect::<BTreeSet<u32>>();
                Some((group.multicast_group_id, copies))
            }
            _ => None,
        },
        _ => None,
    };
    let held: BTreeMap<u32, BTreeSet<u32>> = held.iter().filter_map(group).collect();
    let is_there =
        |(worker, group): (&u16, &u32)| held.get(group).is_some_and(|g| g.contains(&(*worker).into()));
    let mut out = Ticks::new();
    for flow in flows.filter(|f| f.failed.is_none() && !f.is_adrift()) {
        let mut rare = [plane.idle_groups(flow), plane.new_groups(flow)].into_iter().flatten();
        let Some(idle) = rare.find(|groups| groups.iter().all(is_there)) else { continue };
        for (worker, group) in plane.tick_groups(flow) {
            ticking.entry(group).or_default().remove(&worker);
        }
        for (worker, group) in &idle {
            ticking.entry(*group).or_default().insert(*worker);
        }
        out.extend(idle);
    }
    ticking.retain(|_, workers| !workers.is_empty());
    out
}

/// Brings the switch to what `flows` say; flows with `true` begin no transfer. Returns the difference that was set
/// right and the workers that run. Those are `ticking` without the idle workers, which follow separately.
pub(crate) async fn reconcile<'f>(
    client: &mut SwitchClient,
    plane: &DataPlane,
    topology: &Topology,
    flows: impl Iterator<Item = (&'f Flow, bool)> + Clone,
    (around, mut ticking): (&Surroundings, Ticking),
) -> Result<(Diff, Ticking, Ticks), StartError> {
    let reader = client.reader();
    let schema = plane.schema();
    // Entries that do not depend on flows are set right, too, where they can be read.
    let all = client.tells_all();
    let names = if all {
        table::ALL.iter().map(|(table, _)| *table).filter(|table| !OPTIONAL.contains(table)).collect()
    } else {
        DataPlane::flow_tables().to_vec()
    };
    let tables: BTreeSet<u32> = names.into_iter().map(|t| schema.table(t)).collect::<Result<_, _>>()?;
    let mut held = reader.entities(tables.into_iter(), |group| all || !is_base_group(group)).await?;
    let sessions = reader.sessions().await?;
    let tells_sessions = !sessions.is_empty();
    held.extend(sessions);

    let idle = idle(plane, flows.clone().map(|(flow, _)| flow), &held, &mut ticking);
    let mut wanted = Vec::new();
    if all {
        let is_session = |e: &rt::Entity| {
            use rt::packet_replication_engine_entry::Type::CloneSessionEntry;
            let Some(rt::entity::Entity::PacketReplicationEngineEntry(entry)) = &e.entity else {
                return false;
            };
            matches!(entry.r#type, Some(CloneSessionEntry(_)))
        };
        wanted.extend(base(topology, schema)?.into_iter().filter(|e| tells_sessions || !is_session(e)));
    }
    wanted.push(plane.probe()?);
    for (flow, hold) in flows {
        wanted.extend(plane.entities(flow, &around.context(hold))?);
    }
    // Workers run when everything that they need is there.
    let groups =
        ticking.iter().map(|(group, workers)| ticks::group(*group, workers.iter().copied(), plane.pipes()));
    wanted.extend(groups.map(replication));
    let difference = Diff::between(held, wanted);
    client.update(difference.additions().into_iter()).await?;
    client.update(difference.removals().into_iter()).await?;
    client.enable_digest(schema.digest(REPORT_T)?).await?;
    Ok((difference, ticking, idle))
}

impl Controller {
    /// Takes up a switch that has kept its flows; the caller holds `work`. Emits an event about the differences that
    /// were set right.
    pub(crate) async fn take_up(&self, client: &mut SwitchClient) -> Result<String, StartError> {
        let topology = &self.0.base.choice().topology;
        let flows = self.list_flows();
        let ticking = ticking(&self.0.plane, flows.iter());
        let around = Surroundings::of(&self.state());
        let done = async {
            let flows = flows.iter().map(|f| (f, false));
            let done = reconcile(client, &self.0.plane, topology, flows, (&around, ticking)).await?;
            client.set_up(topology).await?;
            Ok::<_, StartError>(done)
        };
        let silent =
            |_| ClientError::Silent { switch: self.switch_name().to_owned(), seconds: RECONCILE.as_secs() };
        let (difference, ticking, idle) = within(RECONCILE, done).await.map_err(silent)??;
        {
            let mut state = self.state();
            (state.ticking, state.idle) = (ticking, idle);
        }
        let went_on = match flows.len() {
            0 => String::new(),
            1 => ", and its flow went on".to_owned(),
            n => format!(", and its {n} flows went on"),
        };
        Ok(format!(
            "the session with switch `{}` is there again{went_on}; {}",
            self.switch_name(),
            set_right(&difference)
        ))
    }
}

/// The differences that were set right, for people.
pub(crate) fn set_right(difference: &Diff) -> String {
    let (more, less) = (difference.inserts.len() + difference.modifies.len(), difference.deletes.len());
    format!("{more} entries set right, {less} taken away")
}
