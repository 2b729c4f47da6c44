//! Runs v1model programs that p4c compiled to bmv2 JSON, and serves P4Runtime. Knows nothing of RDMA.
