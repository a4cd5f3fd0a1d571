//! Mistakes made on purpose in `lua/settle.lua`: the vectors and a short run of random histories must notice each.
//!
//! `SLUICEGATE_MUTANT` runs those alone whose name contains it.

use serde::Deserialize;

use super::super::kill;
use super::super::play::Fault;
use super::super::support::redis::Server;
use super::play::Stage;
use super::{property, vectors};

/// Steps of random histories that a mutant must not survive.
const STEPS: u64 = 12_000;
/// Where they begin: a mutant found once is found always.
const SEED: u64 = 11;

const SCRIPT: &str = include_str!("../../../lua/settle.lua");

/// One mistake: a text that stands in the script exactly once, and what is put in its place.
#[derive(Deserialize)]
struct Mutant {
    name: String,
    from: String,
    to: String,
}

impl kill::Mutant for Mutant {
    fn name(&self) -> &str {
        &self.name
    }

    fn killed_by(&self, server: &Server) -> Result<String, String> {
        match SCRIPT.matches(&self.from).count() {
            1 => noticed(&SCRIPT.replace(&self.from, &self.to), server),
            times => Err(format!("its text stands {times} times in the script")),
        }
    }
}

/// What noticed that a script is wrong; or why nothing did.
fn noticed(script: &str, server: &Server) -> Result<String, String> {
    let mut stage = Stage::with(server.client(), script);
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
fn the_script_as_it_is_survives() {
    assert_eq!(noticed(SCRIPT, &Server::start()), Err("it lives ".to_owned()));
}

#[test]
fn every_mistake_is_noticed() {
    let all: Vec<Mutant> =
        serde_json::from_str(include_str!("../mutants_settling.json")).expect("mutants_settling.json");
    kill::every(all);
}
