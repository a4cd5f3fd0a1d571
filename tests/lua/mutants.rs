//! Mistakes made on purpose in `lua/check.lua`: the vectors and a short run of random histories must notice each, by
//! a wrong answer, wrong bytes or a wrong TTL, not by the script's refusal to run.
//!
//! `SLUICEGATE_MUTANT` runs those alone whose name contains it.

use super::kill;
use super::play::Stage;
use super::support::redis::Server;

/// Steps of random histories that a mutant must not survive.
const STEPS: u64 = 12_000;
/// Where they begin: a mutant found once is found always.
const SEED: u64 = 20;

const SCRIPT: &str = include_str!("../../lua/check.lua");

fn noticed(script: &str, server: &Server) -> Result<String, String> {
    kill::noticed(&mut Stage::with(server.client(), script), SEED, STEPS)
}

#[test]
fn the_script_as_it_is_survives() {
    assert_eq!(noticed(SCRIPT, &Server::start()), Err("it lives ".to_owned()));
}

#[test]
fn every_mistake_is_noticed() {
    kill::every_edit(SCRIPT, include_str!("mutants.json"), noticed);
}
