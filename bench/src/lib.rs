//! Benchmarks and baselines.
