//! The pure core against a store that fails by script, with no clock but the simulation's.
//!
//! `world` plays N isolates, M clients and one store as events in time; `scenario` draws all of it from a seed,
//! `faults` is the weather, `store` does what `lua/check.lua` promises. What must hold is in `isolate` (breaker,
//! bulkhead, deadline, retry budget, log, counters), `verdicts` (what each request may come to) and `law` (what a
//! limit lets pass, for the store and for each isolate's share). `breaker` holds the breaker against a model of its
//! own; `warm`, `flood` and `permits` are single promises, each over many seeds.
//!
//! `SLUICEGATE_SEEDS` is how many seeds are played (2,000), `SLUICEGATE_SEED` plays one alone. A failure prints its
//! seed. Nothing sleeps.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a test may fail"
)]

#[path = "../support/random.rs"]
mod generator;
#[path = "../support/redis.rs"]
#[allow(dead_code, reason = "other tests speak more of its protocol")]
mod redis;

mod breaker;
mod clock;
mod command;
mod faults;
mod flood;
mod isolate;
mod law;
mod leased;
mod permits;
mod random;
mod scenario;
mod seeds;
mod store;
mod verdicts;
mod warm;
mod world;

use world::{Tally, World};

#[test]
fn every_seed_keeps_the_promises() {
    let tallies = seeds::each(2_000, |seed| World::of(seed).play());
    let total = tallies.iter().fold(Tally::default(), |sum, tally| sum.plus(tally));
    println!("{} seeds: {total:?}", tallies.len());
    if tallies.len() >= 1_000 {
        total.assert_nothing_is_vacuous();
    }
}
