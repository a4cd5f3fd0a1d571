//! `lua/check.lua` on a real Redis, the model in `sluicegate::limit`, and arithmetic on paper, held against each
//! other.
//!
//! `vectors` are rows from field reports; `property` plays random histories on Redis, step by step; `exact` compares
//! the model with rationals of any precision; `invariants` are what must hold of any limiter; `clocks`, `commands`
//! and `hygiene` are about skewed callers, Redis's own counters and the text of the script; `mutants` shows that the
//! rest would notice a mistake. Nothing sleeps: time is an argument. `lease` and `settling` do the same for the other
//! scripts; `suite`, `rows`, `kill` and `clockwork` are what all three have in common.
//!
//! `SLUICEGATE_STEPS` is how many steps `property` plays, `SLUICEGATE_SEED` where it begins.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a test may fail"
)]

#[path = "../support/mod.rs"]
mod support;

mod clocks;
mod clockwork;
mod commands;
mod delay;
mod exact;
mod generate;
mod hygiene;
mod invariants;
mod kill;
mod lease;
mod model;
mod mutants;
mod play;
mod property;
mod random;
mod reference;
mod refusals;
mod rows;
mod settling;
mod suite;
mod trace;
mod vectors;
