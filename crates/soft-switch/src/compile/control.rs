//! Compiles ingress and egress: tables, conditions and direct action calls, laid out so that the usual next node
//! follows without a jump.

use std::collections::HashMap;

use super::action::{self, Names};
use super::asm::Label;
use super::expr::{Args, Cx};
use super::tables::{ActionDef, TableDraft};
use crate::load::big::Big;
use crate::load::node::{Node, Result};
use crate::op::Op;

/// A node of a control's graph.
enum Kind {
    Table(usize),
    Condition,
    Call(usize),
}

struct GraphNode<'a> {
    json: Node<'a>,
    kind: Kind,
    label: Label,
    /// Nodes that may follow, by name; `None` ends the control.
    next: Vec<Option<String>>,
}

/// Compiles one control and returns where it starts.
pub(crate) fn compile(
    cx: &mut Cx,
    names: &Names,
    pipeline: &Node,
    tables: &mut [TableDraft],
    table_numbers: &HashMap<String, usize>,
    actions: &[ActionDef],
) -> Result<Label> {
    let mut graph = HashMap::new();
    for t in pipeline.list("tables")? {
        let name = t.get("name")?.str()?;
        let number = table_numbers[name];
        let next = tables[number].next_names();
        add(&mut graph, cx, name, t, Kind::Table(number), next)?;
    }
    for c in pipeline.list("conditionals")? {
        c.allow(&["name", "id", "expression", "true_next", "false_next"])?;
        let side = |k: &str| c.opt(k).map(|n| n.str().map(str::to_string)).transpose();
        let next = vec![side("true_next")?, side("false_next")?];
        add(&mut graph, cx, c.get("name")?.str()?, c, Kind::Condition, next)?;
    }
    for a in pipeline.list("action_calls")? {
        a.allow(&["name", "id", "action_id", "next_node"])?;
        let id = a.get("action_id")?;
        let Some(action) = actions.iter().position(|d| Ok(d.id) == id.int()) else {
            return id.err("there is no such action");
        };
        if !actions[action].params.is_empty() {
            return a.err("an action with parameters cannot be called directly");
        }
        let next = vec![a.opt("next_node").map(|n| n.str().map(str::to_string)).transpose()?];
        add(&mut graph, cx, a.get("name")?.str()?, a, Kind::Call(action), next)?;
    }
    for node in graph.values() {
        for next in node.next.iter().flatten() {
            if !graph.contains_key(next) {
                return node.json.err(format!("there is no node '{next}' to go on to"));
            }
        }
    }
    let init = pipeline.opt("init_table").map(|n| n.str().map(str::to_string)).transpose()?;
    if let Some(i) = &init
        && !graph.contains_key(i)
    {
        return pipeline.err(format!("there is no node '{i}' to start with"));
    }
    refuse_cycles(pipeline, &graph)?;

    let end = cx.asm.label();
    let label_of = |n: &Option<String>| n.as_ref().map_or(end, |n| graph[n].label);
    let start = label_of(&init);
    cx.asm.pin(start);
    let mut done: HashMap<&str, ()> = HashMap::new();
    let mut todo: Vec<&str> = init.iter().map(String::as_str).collect();
    while let Some(first) = todo.pop() {
        let mut at = Some(first);
        while let Some(name) = at.take() {
            if done.contains_key(name) {
                break;
            }
            done.insert(name, ());
            let node = &graph[name];
            cx.asm.bind(node.label);
            let follow = emit(cx, names, node, tables, actions, end, &label_of)?;
            todo.extend(node.next.iter().flatten().map(String::as_str).filter(|n| !done.contains_key(n)));
            if let Some(follow) = follow {
                match follow {
                    Some(n) if !done.contains_key(n.as_str()) => at = Some(n),
                    other => cx.asm.jump(label_of(other)),
                }
            }
        }
    }
    cx.asm.bind(end);
    cx.asm.emit(Op::End);
    for node in graph.values() {
        if let Kind::Table(t) = node.kind {
            tables[t].resolve(&label_of);
            if tables[t].always(actions)?.is_none() {
                tables[t].labels().for_each(|l| cx.asm.pin(l));
            }
        }
    }
    Ok(start)
}

fn add<'a>(
    graph: &mut HashMap<String, GraphNode<'a>>,
    cx: &mut Cx,
    name: &str,
    json: Node<'a>,
    kind: Kind,
    next: Vec<Option<String>>,
) -> Result<()> {
    let node = GraphNode { json, kind, label: cx.asm.label(), next };
    match graph.insert(name.to_string(), node) {
        None => Ok(()),
        Some(old) => old.json.err("another node has the same name"),
    }
}

/// Emits a node. Returns the node that should follow directly, `None` if control never falls through.
fn emit<'n>(
    cx: &mut Cx,
    names: &Names,
    node: &'n GraphNode,
    tables: &mut [TableDraft],
    actions: &[ActionDef],
    end: Label,
    label_of: &dyn Fn(&Option<String>) -> Label,
) -> Result<Option<&'n Option<String>>> {
    match node.kind {
        Kind::Condition => {
            let test = cx.layout.test(&node.json.get("expression")?)?;
            let text = condition(&node.json);
            match cx.asm.notes {
                None => cx.branch_unless(&test, label_of(&node.next[1]))?,
                Some(_) => {
                    let (no, yes) = (cx.asm.label(), cx.asm.label());
                    cx.branch_unless(&test, no)?;
                    cx.asm.note(|| format!("  if {text}: yes"), &[]);
                    cx.asm.jump(yes);
                    cx.asm.bind(no);
                    cx.asm.note(|| format!("  if {text}: no"), &[]);
                    cx.asm.jump(label_of(&node.next[1]));
                    cx.asm.bind(yes);
                }
            }
            cx.asm.reset_temps();
            Ok(Some(&node.next[0]))
        }
        Kind::Call(a) => {
            let name = actions[a].name()?;
            cx.asm.note(|| format!("  action {name}"), &[]);
            inline(cx, names, &actions[a], Vec::new(), end)?;
            Ok(Some(&node.next[0]))
        }
        Kind::Table(t) => {
            if let Some((action, args, next)) = tables[t].always(actions)? {
                let name = actions[action].name()?;
                cx.asm.note(|| format!("  table {}: always {name}", tables[t].info.name), &[]);
                inline(cx, names, &actions[action], args, end)?;
                let follow = node.next.iter().find(|n| **n == next);
                return Ok(Some(follow.unwrap_or(&node.next[0])));
            }
            for (place, e) in &tables[t].computed {
                cx.assign(*place, e)?;
            }
            cx.asm.emit(Op::Apply { t: t as u16 });
            Ok(None)
        }
    }
}

/// A condition as its line begins in the source, or else its name.
fn condition(json: &Node) -> String {
    const MOST: usize = 60;
    let source = json.opt("source_info").and_then(|s| s.opt("source_fragment"));
    let text = source.as_ref().and_then(|text| text.str().ok());
    let text = text.or(json.get("name").ok().and_then(|n| n.str().ok())).unwrap_or_default().trim();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Compiles an action in place, its arguments being known.
fn inline(cx: &mut Cx, names: &Names, action: &ActionDef, args: Vec<Big>, end: Label) -> Result<()> {
    let primitives = action.primitives()?;
    cx.args = Args::Known(args);
    action::body(cx, names, &primitives)?;
    cx.args = Args::None;
    if action::has_exit(&primitives)? {
        cx.asm.emit(Op::BrExit { t: end.0 });
    }
    Ok(())
}

fn refuse_cycles(pipeline: &Node, graph: &HashMap<String, GraphNode>) -> Result<()> {
    // Kahn's algorithm: what remains after taking away nodes without predecessor is on or behind a cycle.
    let mut incoming: HashMap<&str, usize> = graph.keys().map(|k| (k.as_str(), 0)).collect();
    for next in graph.values().flat_map(|n| n.next.iter().flatten()) {
        if let Some(c) = incoming.get_mut(next.as_str()) {
            *c += 1;
        }
    }
    let mut free: Vec<&str> = incoming.iter().filter(|(_, c)| **c == 0).map(|(k, _)| *k).collect();
    let mut left = graph.len();
    while let Some(n) = free.pop() {
        left -= 1;
        for next in graph[n].next.iter().flatten() {
            if let Some(c) = incoming.get_mut(next.as_str()) {
                *c -= 1;
                if *c == 0 {
                    free.push(next);
                }
            }
        }
    }
    if left > 0 {
        return pipeline.err("its nodes form a cycle");
    }
    Ok(())
}
