//! The calls of bmv2's Thrift interface, by name.

use std::time::{SystemTime, UNIX_EPOCH};

use md5::{Digest, Md5};
use zsr_soft_switch::{ActionCall, CounterValue, CrcParams, EntryAction, MatchField, TableId};

use crate::args::{Args, kind};
use crate::cells::{Rate, rates};
use crate::error::{Error, Result, other, refused, unsupported};
use crate::host::{Host, PortInfo, QueueChange};
use crate::multicast::{MirrorTo, numbers};
use crate::session::Session;
use crate::tables::Shown;
use crate::value::Value;

/// What a call gives; `None`: nothing.
type Reply = Result<Option<Value>>;

fn done(result: Result<()>) -> Reply {
    result.map(|()| None)
}

fn number(value: u32) -> Reply {
    Ok(Some(Value::I32(value as i32)))
}

/// Calls that need the program around the switch. `None`: it is another call.
pub(crate) fn call_host(host: &dyn Host, thrift_port: u16, method: &str, args: &Args<'_>) -> Option<Reply> {
    let at_port =
        |result: std::result::Result<(), String>| done(result.map_err(|why| refused(other::PORT_ERROR, why)));
    let queue = |port: Option<i32>, change: Result<QueueChange>| {
        let port = port.map(port_number).transpose()?;
        host.set_queue(port, change?).map_err(unsupported)?;
        Ok(Some(Value::I32(0)))
    };
    let one = |of: fn(&Args<'_>, i16) -> Result<QueueChange>| match args.i32(1) {
        Ok(port) => queue(Some(port), of(args, 2)),
        Err(e) => Err(e),
    };
    Some(match method {
        "bm_dev_mgr_show_ports" => Ok(Some(Value::List(host.ports().iter().map(port).collect()))),
        "bm_dev_mgr_add_port" => (|| {
            let folder = args.str(3).ok().filter(|path| !path.is_empty());
            let number = port_number(args.i32(2)?)?;
            at_port(host.add_port(number, args.str(1)?, folder.map(std::path::Path::new)))
        })(),
        "bm_dev_mgr_remove_port" => {
            args.i32(1).and_then(port_number).and_then(|port| at_port(host.remove_port(port)))
        }
        "bm_mgmt_get_info" => Ok(Some(Value::Struct(vec![
            (1, Value::I64(host.device_id() as i64)),
            (2, Value::I32(thrift_port.into())),
        ]))),
        "set_egress_queue_depth" => one(depth),
        "set_egress_queue_rate" => one(rate),
        "set_all_egress_queue_depths" => queue(None, depth(args, 1)),
        "set_all_egress_queue_rates" => queue(None, rate(args, 1)),
        "set_egress_priority_queue_depth" | "set_egress_priority_queue_rate" => {
            Err(unsupported("a port has one queue here: name no priority"))
        }
        "get_time_since_epoch_us" => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok(Some(Value::I64(since.as_micros() as i64)))
        }
        _ => return None,
    })
}

fn port_number(port: i32) -> Result<u16> {
    let wrong = || refused(other::PORT_ERROR, format!("port {port}: 0 to 510 are possible"));
    u16::try_from(port).ok().filter(|port| *port < 511).ok_or_else(wrong)
}

fn depth(args: &Args<'_>, id: i16) -> Result<QueueChange> {
    let packets = args.i32(id)?;
    let depth = usize::try_from(packets).map_err(|_| Error::Arguments(format!("depth {packets}")))?;
    Ok(QueueChange::Depth(depth))
}

fn rate(args: &Args<'_>, id: i16) -> Result<QueueChange> {
    let per_s = args.i64(id)?;
    Ok(QueueChange::Rate(u64::try_from(per_s).map_err(|_| Error::Arguments(format!("rate {per_s}")))?))
}

fn port(port: &PortInfo) -> Value {
    Value::Struct(vec![
        (1, Value::I32(port.number.into())),
        (2, Value::from(&*port.interface)),
        (3, Value::Bool(port.is_up)),
        (4, Value::Map(Vec::new())),
    ])
}

/// A call about the switch itself.
pub(crate) fn call(session: &mut Session<'_>, method: &str, args: &Args<'_>) -> Reply {
    match method {
        m if m.starts_with("bm_mt_act_prof_") => profile_call(session, &m["bm_mt_act_prof_".len()..], args),
        m if m.starts_with("bm_mt_") => table_call(session, &m["bm_mt_".len()..], args),
        m if m.starts_with("bm_mc_") => multicast_call(session, &m["bm_mc_".len()..], args),
        m if m.starts_with("mirroring_") => mirroring_call(session, &m["mirroring_".len()..], args),
        m if m.starts_with("bm_parse_vset_") => value_set_call(session, &m["bm_parse_vset_".len()..], args),
        m if ["bm_counter_", "bm_meter_", "bm_register_"].iter().any(|family| m.starts_with(family)) => {
            cell_call(session, m, args)
        }
        "bm_get_config" => Ok(Some(Value::from(session.switch.program().text()))),
        "bm_get_config_md5" => Ok(Some(Value::Bytes(Md5::digest(session.switch.program().text()).to_vec()))),
        "bm_reset_state" => {
            session.reset();
            Ok(None)
        }
        "bm_set_crc16_custom_parameters" => {
            let config = args.fields(3)?;
            let of = |id| config.i16(id).map(|n| u64::from(n as u16));
            done(session.crc(args.str(2)?, 16, crc(of(1)?, of(2)?, of(3)?, &config)?))
        }
        "bm_set_crc32_custom_parameters" => {
            let config = args.fields(3)?;
            let of = |id| config.i32(id).map(|n| u64::from(n as u32));
            done(session.crc(args.str(2)?, 32, crc(of(1)?, of(2)?, of(3)?, &config)?))
        }
        "get_time_elapsed_us" => Ok(Some(Value::I64((session.switch.now_ns() / 1000) as i64))),
        "bm_load_new_config" | "bm_swap_configs" => Err(refused(
            other::SWAP_DISABLED,
            "another program is set through P4Runtime (SetForwardingPipelineConfig)",
        )),
        "bm_serialize_state" => Err(unsupported("the state of the switch can't be written to a file")),
        "bm_set_toeplitz_hash_key" => Err(unsupported("the switch has no Toeplitz hash")),
        m if m.starts_with("bm_learning_") => Err(unsupported("digests are sent by P4Runtime only")),
        _ => Err(unsupported(format!("the switch has no call '{method}'"))),
    }
}

fn crc(polynomial: u64, init: u64, xor_out: u64, config: &Args<'_>) -> Result<CrcParams> {
    Ok(CrcParams { polynomial, init, xor_out, reflect_in: config.bool(4)?, reflect_out: config.bool(5)? })
}

fn table_call(session: &mut Session<'_>, method: &str, args: &Args<'_>) -> Reply {
    let t = session.table(args.str(2)?)?;
    // Arguments that a call may have, in their usual places.
    let called = |session: &Session<'_>, at: i16| {
        Ok::<_, Error>(EntryAction::Call(session.table_call(t, args.str(at)?, args.params(at + 1)?)?))
    };
    let group = |session: &Session<'_>, id: i16| {
        session.group_action(session.info().tables[t.index()].profile, args.i32(id)?)
    };
    let member = |id: i16| args.i32(id).map(|member| EntryAction::Member(member as u32));
    let add = |session: &mut Session<'_>, action: EntryAction, options: i16| {
        let handle = session.entry_add(t, args.key(3)?, args.priority(options)?, action)?;
        number(handle.0)
    };
    match method {
        "get_num_entries" => Ok(Some(Value::I64(session.switch.table_len(t)? as i64))),
        "clear_entries" => done(session.entries_clear(t, args.bool(3)?)),
        "add_entry" => {
            let action = called(session, 4)?;
            add(session, action, 6)
        }
        "indirect_add_entry" => add(session, member(4)?, 5),
        "indirect_ws_add_entry" => {
            let action = group(session, 4)?;
            add(session, action, 5)
        }
        "modify_entry" => {
            let action = called(session, 4)?;
            done(session.entry_modify(t, args.i32(3)?, action))
        }
        "indirect_modify_entry" => done(session.entry_modify(t, args.i32(3)?, member(4)?)),
        "indirect_ws_modify_entry" => {
            let action = group(session, 4)?;
            done(session.entry_modify(t, args.i32(3)?, action))
        }
        "delete_entry" | "indirect_delete_entry" => done(session.entry_delete(t, args.i32(3)?)),
        "set_entry_ttl" | "indirect_set_entry_ttl" => {
            done(session.entry_timeout(t, args.i32(3)?, args.i32(4)?))
        }
        "set_default_action" => {
            let action = called(session, 3)?;
            done(session.default_set(t, action))
        }
        "indirect_set_default_member" => done(session.default_set(t, member(3)?)),
        "indirect_ws_set_default_group" => {
            let action = group(session, 3)?;
            done(session.default_set(t, action))
        }
        "reset_default_entry" | "indirect_reset_default_entry" => {
            Ok(session.switch.reset_default(t).map(|()| None)?)
        }
        "read_counter" => Ok(Some(counter(session.entry_counter(t, args.i32(3)?)?))),
        "write_counter" => done(session.entry_counter_set(t, args.i32(3)?, args.counter(4)?)),
        "reset_counters" => done(session.entry_counters_reset(t)),
        "set_meter_rates" => done(session.entry_meter_set(t, args.i32(3)?, args.meter(4)?)),
        "get_meter_rates" => Ok(Some(meter(rates(session.entry_meter(t, args.i32(3)?)?)))),
        "get_entries" => {
            let all = session.entries(t)?;
            Ok(Some(Value::List(all.iter().map(|one| entry(session, one)).collect())))
        }
        "get_entry" => Ok(Some(entry(session, &session.entry_shown(t, args.i32(3)?)?))),
        "get_entry_from_key" => {
            let found = session.entry_of_key(t, args.key(3)?, args.priority(4)?)?;
            Ok(Some(entry(session, &found)))
        }
        "get_default_entry" => Ok(Some(default_entry(session, t)?)),
        _ => Err(unsupported(format!("the switch has no call 'bm_mt_{method}'"))),
    }
}

fn profile_call(session: &mut Session<'_>, method: &str, args: &Args<'_>) -> Reply {
    let p = session.profile(args.str(2)?)?;
    let member = |session: &Session<'_>, handle: u32, call: &ActionCall| {
        let (name, data) = action(session, call);
        Value::Struct(vec![(1, Value::I32(handle as i32)), (2, name), (3, data)])
    };
    let group = |handle: u32, members: &[u32]| {
        let members = members.iter().map(|member| Value::I32(*member as i32)).collect();
        Value::Struct(vec![(1, Value::I32(handle as i32)), (2, Value::List(members))])
    };
    match method {
        "add_member" => {
            let call = session.profile_call(p, args.str(3)?, args.params(4)?)?;
            number(session.member_add(p, call)?)
        }
        "modify_member" => {
            let call = session.profile_call(p, args.str(4)?, args.params(5)?)?;
            done(session.member_modify(p, args.i32(3)?, call))
        }
        "delete_member" => done(session.member_delete(p, args.i32(3)?)),
        "create_group" => number(session.group_create(p)?),
        "delete_group" => done(session.group_delete(p, args.i32(3)?)),
        "add_member_to_group" => done(session.group_join(p, args.i32(3)?, args.i32(4)?)),
        "remove_member_from_group" => done(session.group_leave(p, args.i32(3)?, args.i32(4)?)),
        "get_members" => {
            let all = session.members(p)?;
            Ok(Some(Value::List(all.iter().map(|(handle, call)| member(session, *handle, call)).collect())))
        }
        "get_member" => {
            let handle = args.i32(3)?;
            Ok(Some(member(session, handle as u32, &session.member(p, handle)?)))
        }
        "get_groups" => {
            let all = session.groups(p)?;
            Ok(Some(Value::List(all.iter().map(|(handle, members)| group(*handle, members)).collect())))
        }
        "get_group" => {
            let handle = args.i32(3)?;
            Ok(Some(group(handle as u32, &session.group(p, handle)?)))
        }
        _ => Err(unsupported(format!("the switch has no call 'bm_mt_act_prof_{method}'"))),
    }
}

fn multicast_call(session: &mut Session<'_>, method: &str, args: &Args<'_>) -> Reply {
    // The map of LAGs is there in calls to `simple_pre_lag` only.
    let lags = |id| args.str(id).map_or(Ok(Vec::new()), numbers);
    match method {
        "mgrp_create" => Ok(Some(Value::I32(session.multicast_create(args.i32(2)?)?))),
        "mgrp_destroy" => done(session.multicast_destroy(args.i32(2)?)),
        "node_create" => number(session.node_create(args.i32(2)?, numbers(args.str(3)?)?, lags(4)?)?),
        "node_update" => done(session.node_update(args.i32(2)?, numbers(args.str(3)?)?, lags(4)?)),
        "node_associate" => done(session.node_associate(args.i32(2)?, args.i32(3)?)),
        "node_dissociate" => done(session.node_dissociate(args.i32(2)?, args.i32(3)?)),
        "node_destroy" => done(session.node_destroy(args.i32(2)?)),
        "set_lag_membership" => done(session.lag_set(args.i32(2)?, numbers(args.str(3)?)?)),
        "get_entries" => Ok(Some(Value::from(&*session.multicast_json()))),
        _ => Err(unsupported(format!("the switch has no call 'bm_mc_{method}'"))),
    }
}

fn mirroring_call(session: &mut Session<'_>, method: &str, args: &Args<'_>) -> Reply {
    let (id, to_port) = (args.i32(1)?, |port| port_number(port).map(Some));
    match method {
        "mapping_add" => {
            session.mirror_set(id, MirrorTo { port: to_port(args.i32(2)?)?, group: None })?;
            number(0)
        }
        "mapping_delete" => number(session.mirror_delete(id).is_err().into()),
        "mapping_get_egress_port" => {
            let port = session.mirror(id).ok().and_then(|to| to.port);
            Ok(Some(Value::I32(port.map_or(-1, i32::from))))
        }
        "session_add" => {
            let config = args.fields(2)?;
            let group = config.i32_if_any(2)?.map(|group| group as u32);
            let port = config.i32_if_any(1)?.map(port_number).transpose()?;
            done(session.mirror_set(id, MirrorTo { port, group }))
        }
        "session_delete" => done(session.mirror_delete(id)),
        "session_get" => {
            let to = session.mirror(id)?;
            let port = to.port.map(|port| (1, Value::I32(port.into())));
            let group = to.group.map(|group| (2, Value::I32(group as i32)));
            Ok(Some(Value::Struct([port, group].into_iter().flatten().collect())))
        }
        _ => Err(unsupported(format!("the switch has no call 'mirroring_{method}'"))),
    }
}

fn cell_call(session: &mut Session<'_>, method: &str, args: &Args<'_>) -> Reply {
    let name = args.str(2)?;
    match method {
        "bm_counter_read" => Ok(Some(counter(session.counter(name, args.i32(3)?)?))),
        "bm_counter_write" => done(session.counter_set(name, args.i32(3)?, args.counter(4)?)),
        "bm_counter_reset_all" => done(session.counter_reset(name)),
        "bm_meter_get_rates" => Ok(Some(meter(session.meter(name, args.i32(3)?)?))),
        "bm_meter_set_rates" => done(session.meter_set(name, Some(args.i32(3)?), args.meter(4)?)),
        "bm_meter_array_set_rates" => done(session.meter_set(name, None, args.meter(3)?)),
        "bm_register_read" => Ok(Some(Value::I64(session.register(name, args.i32(3)?)?))),
        "bm_register_read_all" => {
            Ok(Some(Value::List(session.registers(name)?.into_iter().map(Value::I64).collect())))
        }
        "bm_register_write" => {
            let index = args.i32(3)?;
            done(session.register_set(name, index..index.saturating_add(1), args.i64(4)?))
        }
        "bm_register_write_range" => {
            done(session.register_set(name, args.i32(3)?..args.i32(4)?, args.i64(5)?))
        }
        "bm_register_reset" => done(session.register_reset(name)),
        _ => Err(unsupported(format!("the switch has no call '{method}'"))),
    }
}

fn value_set_call(session: &mut Session<'_>, method: &str, args: &Args<'_>) -> Reply {
    let name = args.str(2)?;
    match method {
        "add" => done(session.value_set_change(name, args.bytes(3)?, true)),
        "remove" => done(session.value_set_change(name, args.bytes(3)?, false)),
        "get" => Ok(Some(Value::List(session.value_set(name)?.into_iter().map(Value::Bytes).collect()))),
        "clear" => done(session.value_set_clear(name)),
        _ => Err(unsupported(format!("the switch has no call 'bm_parse_vset_{method}'"))),
    }
}

fn counter(value: CounterValue) -> Value {
    Value::Struct(vec![(1, Value::I64(value.bytes as i64)), (2, Value::I64(value.packets as i64))])
}

fn meter(rates: Vec<Rate>) -> Value {
    let rate = |r: Rate| Value::Struct(vec![(1, Value::Double(r.per_us)), (2, Value::I32(r.burst))]);
    Value::List(rates.into_iter().map(rate).collect())
}

/// The name and the arguments of an action.
fn action(session: &Session<'_>, call: &ActionCall) -> (Value, Value) {
    let name = &session.info().actions[call.action.index()].name;
    (Value::from(&**name), Value::List(call.params.iter().cloned().map(Value::Bytes).collect()))
}

fn action_entry(session: &Session<'_>, entry: &EntryAction) -> Value {
    Value::Struct(match entry {
        EntryAction::Call(call) => {
            let (name, data) = action(session, call);
            vec![(1, Value::I32(1)), (2, name), (3, data)]
        }
        EntryAction::Member(member) => vec![(1, Value::I32(2)), (4, Value::I32(*member as i32))],
        EntryAction::Group(group) => vec![(1, Value::I32(3)), (5, Value::I32(*group as i32))],
        // Actions in place of a group, which a P4Runtime controller wrote, have no handle.
        EntryAction::Set(_) => vec![(1, Value::I32(0))],
    })
}

fn default_entry(session: &Session<'_>, t: TableId) -> Result<Value> {
    Ok(match session.switch.default_entry(t)? {
        Some(entry) => action_entry(session, &entry),
        None => Value::Struct(vec![(1, Value::I32(0))]),
    })
}

fn entry(session: &Session<'_>, shown: &Shown) -> Value {
    let mut fields = vec![
        (1, Value::List(shown.key.iter().map(key_field).collect())),
        (2, Value::Struct(vec![(1, Value::I32(shown.priority.unwrap_or(-1)))])),
        (3, Value::I32(shown.handle.0 as i32)),
        (4, action_entry(session, &shown.action)),
    ];
    if let Some((timeout, since_hit)) = shown.life {
        fields.push((5, Value::Struct(vec![(1, Value::I32(timeout)), (2, Value::I32(since_hit))])));
    }
    Value::Struct(fields)
}

fn key_field(field: &MatchField) -> Value {
    let bytes = |value: &Vec<u8>| Value::Bytes(value.clone());
    let ((number, at), inner) = match field {
        MatchField::Exact(value) => (kind::EXACT, vec![(1, bytes(value))]),
        MatchField::Lpm { value, prefix_len } => {
            (kind::LPM, vec![(1, bytes(value)), (2, Value::I32(*prefix_len as i32))])
        }
        MatchField::Ternary { value, mask } => (kind::TERNARY, vec![(1, bytes(value)), (2, bytes(mask))]),
        MatchField::Range { low, high } => (kind::RANGE, vec![(1, bytes(low)), (2, bytes(high))]),
        // Shown as ternary ones.
        MatchField::Optional(_) => (kind::TERNARY, Vec::new()),
    };
    Value::Struct(vec![(1, Value::I32(number)), (at, Value::Struct(inner))])
}
