//! Mistakes made on purpose in what both scripts do with leases: the vectors and a short run of random histories must
//! notice each, by a wrong answer, other members or another TTL, not by the script's refusal to run.
//!
//! `SLUICEGATE_MUTANT` runs those alone whose name contains it.

use serde::Deserialize;

use super::super::kill;
use super::super::support::redis::Server;
use super::play::Stage;

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
        let mistaken = kill::mistaken(text, &self.from, &self.to)?;
        match self.script {
            Which::Check => noticed(&mistaken, SLOTS, server),
            Which::Slots => noticed(CHECK, &mistaken, server),
        }
    }
}

fn noticed(check: &str, slots: &str, server: &Server) -> Result<String, String> {
    kill::noticed(&mut Stage::with(server.client(), check, slots), SEED, STEPS)
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
