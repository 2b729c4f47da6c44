//! Which flows a plan needs.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    NetworkBoundaryExt, NetworkBroadcastExec, NetworkCoalesceExec, display_plan_ascii,
};

/// The plan by stages, and below it the flows between their tasks. `hosts` are those of tasks 0, 1, and so on.
pub(crate) fn text(plan: &Arc<dyn ExecutionPlan>, head: &str, hosts: &[String]) -> String {
    let mut text = display_plan_ascii(plan.as_ref(), false);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut flows = Vec::new();
    find(plan, &[head.to_owned()], hosts, &mut flows);
    let _ = writeln!(text, "\nflows:{}", if flows.is_empty() { " none, all is at one host" } else { "" });
    for line in flows.iter().rev() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn find(plan: &Arc<dyn ExecutionPlan>, readers: &[String], hosts: &[String], found: &mut Vec<String>) {
    let Some(boundary) = plan.as_network_boundary() else {
        for child in plan.children() {
            find(child, readers, hosts, found);
        }
        return;
    };
    let stage = boundary.input_stage();
    let writers: Vec<String> = hosts.iter().cycle().take(stage.task_count()).cloned().collect();
    let is_coalesce = plan.downcast_ref::<NetworkCoalesceExec>().is_some();
    let kind = if is_coalesce {
        "coalesce"
    } else if plan.downcast_ref::<NetworkBroadcastExec>().is_some() {
        "broadcast"
    } else {
        "shuffle"
    };
    // A coalesce gives each reader a run of the writers, all else all of them.
    let run = writers.len().div_ceil(readers.len()).max(1);
    let mut pairs = Vec::new();
    for (w, writer) in writers.iter().enumerate() {
        for (r, reader) in readers.iter().enumerate() {
            if writer != reader && (!is_coalesce || w / run == r) {
                pairs.push(format!("{writer} -> {reader}"));
            }
        }
    }
    let pairs = if pairs.is_empty() { "none, all is at one host".to_owned() } else { pairs.join(", ") };
    found.push(format!("{kind} of stage {}: {pairs}", stage.num()));
    if let Some(plan) = stage.local_plan() {
        find(plan, &writers, hosts, found);
    }
}
