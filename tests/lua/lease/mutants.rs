//! Mistakes made on purpose in what both scripts do with leases: the vectors and a short run of random histories must
//! notice each, by a wrong answer, other members or another TTL, not by the script's refusal to run.
//!
//! `SLUICEGATE_MUTANT` runs those alone whose name contains it.

use std::env;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Deserialize;

use super::super::play::Fault;
use super::super::support::redis::Server;
use super::play::Stage;
use super::{property, vectors};

/// Steps of random histories that a mutant must not survive.
const STEPS: u64 = 15_000;
/// Where they begin: a mutant found once is found always.
const SEED: u64 = 7;
/// Each has a Redis of its own.
const THREADS: usize = 2;

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

fn killed_by(mutant: &Mutant, server: &Server) -> Result<String, String> {
    let text = match mutant.script {
        Which::Check => CHECK,
        Which::Slots => SLOTS,
    };
    match text.matches(&mutant.from).count() {
        1 => {}
        times => return Err(format!("its text stands {times} times in the script")),
    }
    let mistaken = text.replace(&mutant.from, &mutant.to);
    match mutant.script {
        Which::Check => noticed(&mistaken, SLOTS, server),
        Which::Slots => noticed(CHECK, &mistaken, server),
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
    let only = env::var("SLUICEGATE_MUTANT").unwrap_or_default();
    let all: Vec<Mutant> =
        serde_json::from_str(include_str!("../mutants_leases.json")).expect("mutants_leases.json");
    let all: Vec<Mutant> = all.into_iter().filter(|mutant| mutant.name.contains(&only)).collect();
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
