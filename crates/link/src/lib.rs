//! Links between nodes: in-memory queues and wrappers for capture, tracing and faults.
