//! Mistakes made on purpose in `lua/check.lua`: the vectors and a short run of random histories must notice each, by
//! a wrong answer, wrong bytes or a wrong TTL, not by the script's refusal to run.
//!
//! `SLUICEGATE_MUTANT` runs those alone whose name contains it.

use std::env;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Deserialize;

use super::play::{Fault, Stage};
use super::property;
use super::support::redis::Server;
use super::vectors;

/// Steps of random histories that a mutant must not survive.
const STEPS: u64 = 12_000;
/// Where they begin: a mutant found once is found always.
const SEED: u64 = 20;
/// Each has a Redis of its own.
const THREADS: usize = 2;

/// One mistake: a text that stands in the script exactly once, and what is put in its place.
#[derive(Deserialize)]
struct Mutant {
    name: String,
    from: String,
    to: String,
}

fn mutants() -> Vec<Mutant> {
    serde_json::from_str(include_str!("mutants.json")).expect("mutants.json")
}

const SCRIPT: &str = include_str!("../../lua/check.lua");

fn killed_by(mutant: &Mutant, server: &Server) -> Result<String, String> {
    match SCRIPT.matches(&mutant.from).count() {
        1 => noticed(&SCRIPT.replace(&mutant.from, &mutant.to), server),
        times => Err(format!("its text stands {times} times in the script")),
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
    let only = env::var("SLUICEGATE_MUTANT").unwrap_or_default();
    let all: Vec<Mutant> = mutants().into_iter().filter(|mutant| mutant.name.contains(&only)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let server = Server::start();
        let (mut killed, mut alive) = (String::new(), String::new());
        while let Some(mutant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            match killed_by(mutant, &server) {
                Ok(by) => writeln!(killed, "{}: killed by {by}", mutant.name).unwrap(),
                Err(why) => writeln!(alive, "{}: {why}", mutant.name).unwrap(),
            }
        }
        (killed, alive)
    };
    let reports: Vec<(String, String)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a report")).collect()
    });
    let alive: String = reports.iter().map(|(_, alive)| alive.as_str()).collect();
    reports.iter().for_each(|(killed, _)| print!("{killed}"));
    assert!(alive.is_empty(), "{alive}");
    assert!(!all.is_empty(), "no mutant of that name");
}
