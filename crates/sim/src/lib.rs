//! Seeded clock, links and faults for deterministic simulation. No product logic.
