//! The messages between a system's parts: programs and commands to the controller, the controller to agents, programs
//! to agents. The text is in `proto/`, and says what every call and field means; `cargo xtask proto` makes the code of
//! it.
//!
//! - [`controller`][]: `zsr.controller.v1.Controller`.
//! - [`agent`][]: `zsr.agent.v1.Agent`, and the messages of [`program`].
//! - [`program`][]: between an agent and programs that attach to its rings.
//! - [`machine`][]: which machine somebody is on.
//!
//! Clients are always there, servers' traits with the feature `server`.

#![forbid(unsafe_code)]

pub mod machine;
pub mod program;

/// Messages and client of the service `zsr.controller.v1.Controller`; see `proto/zsr/controller/v1`.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod controller {
    include!("generated/zsr.controller.v1.rs");
}

/// Messages and client of the service `zsr.agent.v1.Agent`; see `proto/zsr/agent/v1/agent.proto`.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod agent {
    include!("generated/zsr.agent.v1.rs");
}

/// A value of an enum as people read it: `EVENT_KIND_FLOW_CREATED` without its prefix is `flow-created`.
pub fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    /// Fields of a .proto text, with the message that they are in: (message, type, name).
    fn fields(text: &str) -> Vec<(&str, &str, &str)> {
        let (mut message, mut found) = ("", Vec::new());
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            if let Some(name) = line.strip_prefix("message ") {
                message = name.trim_end_matches(" {");
            } else if let Some((field, _)) = line.split_once(" = ")
                && let [.., of, name] = field.split(' ').collect::<Vec<_>>()[..]
            {
                found.push((message, of, name));
            }
        }
        found
    }

    /// Messages with a field whose name has `part`.
    fn with<'t>(text: &'t str, part: &str) -> Vec<&'t str> {
        fields(text)
            .into_iter()
            .filter(|(_, _, name)| name.contains(part))
            .map(|(message, ..)| message)
            .collect()
    }

    /// An agent learns no other's keys, and a client of the controller nobody's: there is no field for one.
    #[test]
    fn keys_go_from_an_agent_to_the_controller_and_nowhere_else() {
        let [agent, program, controller] = [
            include_str!("../proto/zsr/agent/v1/agent.proto"),
            include_str!("../proto/zsr/agent/v1/program.proto"),
            include_str!("../proto/zsr/controller/v1/controller.proto"),
        ];
        assert_eq!(with(agent, "key"), ["Ring"]);
        // Which is in answers only.
        let holders =
            fields(agent).into_iter().filter(|(_, of, _)| *of == "Ring").map(|(message, ..)| message);
        assert_eq!(
            holders.collect::<Vec<_>>(),
            ["OpenRingsResponse", "SuspendRingsResponse", "ListRingsResponse"]
        );
        assert!(agent.contains(") returns (Ring)") && !agent.contains("(Ring) returns"));
        assert_eq!((with(program, "key"), with(controller, "key")), (vec![], vec![]));
        // A doorbell's secret goes to the ring's agent, which rings.
        assert_eq!(with(agent, "secret"), ["ConnectRingRequest", "OpenRing"]);
        assert_eq!(with(controller, "secret"), [""; 0]);
    }
}
