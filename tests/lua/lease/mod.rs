//! Concurrency limits: both scripts on a real Redis, held against `sluicegate::limit::{concurrency, waiting}`.
//!
//! Here the store's clock is an argument too: the scripts run with `TIME` replaced by a key that the tests set, and are
//! otherwise as they are built in. So leases end without anybody sleeping, and callers' and store's clocks can differ
//! at will. `history` runs them unchanged, with many clients at once and leases that end in earnest.

mod commands;
mod fairness;
mod generate;
mod history;
mod model;
mod mutants;
mod play;
mod property;
mod stored;
mod subject;
mod trace;
mod vectors;
