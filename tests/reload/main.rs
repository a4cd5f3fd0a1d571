//! A policy that changes while requests are under way: what outlives it, what does not, and what is said of it. Time is
//! an argument; the store is played by hand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may fail"
)]

#[path = "../support/random.rs"]
mod random;

mod counts;
mod setup;
mod sources;
mod under_way;
