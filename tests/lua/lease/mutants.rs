//! Mistakes made on purpose in what both scripts do with leases: the vectors and a short run of random histories must
//! notice each, by a wrong answer, other members or another TTL, not by the script's refusal to run.
//!
//! `SLUICEGATE_MUTANT` runs those alone whose name contains it.

use serde::Deserialize;

use super::super::kill;
use super::super::play::Fault;
use super::super::support::redis::Server;
use super::play::Stage;
use super::{property, vectors};

/// Steps of random histories that a mutant must not survive.
const STEPS: u64 = 15_000;
/// Where they begin: a mutant found once is found always.
const SEED: u64 = 7;

const CHECK: &str = include_str!("../../../lua/check.lua");
const SLOTS: &str = include_str!("../../../lua/slots.lua");

/// One mistake: a text that stands in the script exactly once, and what is put in its place.
#[derive(Deserialize)]
struct Mutant {
    name: String,
    script: Which,
    from: String,
    to: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Which {
    Check,
    Slots,
}

impl kill::Mutant for Mutant {
    fn name(&self) -> &str {
        &self.name
    }

    fn killed_by(&self, server: &Server) -> Result<String, String> {
        let text = match self.script {
            Which::Check => CHECK,
            Which::Slots => SLOTS,
        };
        match text.matches(&self.from).count() {
            1 => {}
            times => return Err(format!("its text stands {times} times in the script")),
        }
        let mistaken = text.replace(&self.from, &self.to);
        match self.script {
            Which::Check => noticed(&mistaken, SLOTS, server),
            Which::Slots => noticed(CHECK, &mistaken, server),
        }
    }
}

/// What noticed that a script is wrong; or why nothing did.
fn noticed(check: &str, slots: &str, server: &Server) -> Result<String, String> {
    let mut stage = Stage::with(server.client(), check, slots);
    let mut errors = String::new();
    for trace in vectors::all() {
        match stage.replay(&trace) {
            Err(Fault::Wrong(_)) => return Ok(format!("\"{}\"", trace.name)),
            Err(Fault::Error(text)) => errors = text,
            Ok(_) | Err(Fault::Stale) => {}
        }
    }
    let outcome = property::play(&mut stage, SEED, STEPS);
    match outcome.fault {
        Some((Fault::Wrong(_), _)) => Ok(format!("step {} of the random histories", outcome.steps)),
        Some((Fault::Error(text), _)) => Err(format!("it does not run: {text}")),
        _ => Err(format!("it lives {errors}")),
    }
}

#[test]
fn the_scripts_as_they_are_survive() {
    assert_eq!(noticed(CHECK, SLOTS, &Server::start()), Err("it lives ".to_owned()));
}

#[test]
fn every_mistake_is_noticed() {
    let all: Vec<Mutant> =
        serde_json::from_str(include_str!("../mutants_leases.json")).expect("mutants_leases.json");
    kill::every(all);
}
