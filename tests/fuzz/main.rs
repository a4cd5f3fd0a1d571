//! What clients, stores and operators may send, at random: real inputs from `corpus/`, mutated.
//!
//! A target for each kind of input, each with what must hold of every answer, and not only that there is one. Targets
//! play their kept seeds from `seeds.txt` first, then new ones: `SLUICEGATE_CASES` in each target (a few thousand, for a
//! few seconds in all), beginning at a seed that differs each run. A failure prints the seed that brings it back:
//! `SLUICEGATE_SEED` plays that one alone. Seeds that found something are kept.

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

mod address;
mod attributes;
mod cost;
mod drive;
mod fields;
mod json;
mod mutate;
mod outcomes;
mod path;
mod policy;
mod question;
mod reply;
mod request;
mod url;
