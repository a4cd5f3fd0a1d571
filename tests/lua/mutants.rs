//! Mistakes made on purpose in `lua/check.lua`: the vectors and a short run of random histories must notice each, by
//! a wrong answer, wrong bytes or a wrong TTL, not by the script's refusal to run.
//!
//! `SLUICEGATE_MUTANT` runs those alone whose name contains it.

use super::kill;
use super::play::Stage;
use super::property;
use super::support::redis::Server;
use super::trace::Trace;
use super::vectors;

/// Steps of random histories that a mutant must not survive.
const STEPS: u64 = 12_000;
/// Where they begin: a mutant found once is found always.
const SEED: u64 = 20;

const SCRIPT: &str = include_str!("../../lua/check.lua");

fn noticed(script: &str, server: &Server) -> Result<String, String> {
    let stage = &mut Stage::with(server.client(), script);
    let history = |stage: &mut Stage| {
        let outcome = property::play(stage, SEED, STEPS);
        (outcome.steps, outcome.fault.map(|(fault, _)| fault))
    };
    let replay = |stage: &mut Stage, trace: &Trace| stage.replay(trace).map(drop);
    kill::noticed(stage, vectors::all(), |trace| &trace.name, replay, history)
}

#[test]
fn the_script_as_it_is_survives() {
    assert_eq!(noticed(SCRIPT, &Server::start()), Err("it lives ".to_owned()));
}

#[test]
fn every_mistake_is_noticed() {
    kill::every_edit(SCRIPT, include_str!("mutants.json"), noticed);
}
