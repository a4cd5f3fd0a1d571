//! Settling: `lua/settle.lua` after `lua/check.lua` on a real Redis, held against `sluicegate::limit::settlement`.
//!
//! As with leases, the store's clock is an argument: both scripts run with `TIME` replaced by a key that the tests set.

mod generate;
mod law;
mod model;
mod mutants;
mod play;
mod property;
mod trace;
mod vectors;
