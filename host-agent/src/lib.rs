//! Rings, memory backends, NIC backends and the agent daemon.
