//! Mistakes made on purpose, each tried on a Redis by one of a few threads: those that nothing notices are the failure.

use std::env;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Deserialize;

use super::rows;
use super::suite::{Fault, Outcome, Suite};
use super::support::redis::Server;

/// Each has a Redis of its own.
const THREADS: usize = 2;

/// A mistake.
pub trait Mutant: Sync {
    /// What it is called; `SLUICEGATE_MUTANT` picks those whose name contains it.
    fn name(&self) -> &str;
    /// What notices it, or why nothing does.
    fn killed_by(&self, server: &Server) -> Result<String, String>;
}

/// Tries all of them.
pub fn every<M: Mutant>(all: Vec<M>) {
    let only = env::var("SLUICEGATE_MUTANT").unwrap_or_default();
    let all: Vec<M> = all.into_iter().filter(|mutant| mutant.name().contains(&only)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let server = Server::start();
        let (mut killed, mut alive) = (String::new(), String::new());
        while let Some(mutant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            match mutant.killed_by(&server) {
                Ok(by) => writeln!(killed, "{}: killed by {by}", mutant.name()).unwrap(),
                Err(why) => writeln!(alive, "{}: {why}", mutant.name()).unwrap(),
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

/// A mistake in a script that is tried alone.
struct Alone<'a> {
    edit: Edit,
    script: &'a str,
    noticed: fn(&str, &Server) -> Result<String, String>,
}

#[derive(Deserialize)]
struct Edit {
    name: String,
    from: String,
    to: String,
}

impl Mutant for Alone<'_> {
    fn name(&self) -> &str {
        &self.edit.name
    }

    fn killed_by(&self, server: &Server) -> Result<String, String> {
        (self.noticed)(&mistaken(self.script, &self.edit.from, &self.edit.to)?, server)
    }
}

/// Tries all edits of one script, a list in JSON; `noticed` says what notices that a text of it is wrong.
pub fn every_edit(script: &str, edits: &str, noticed: fn(&str, &Server) -> Result<String, String>) {
    let edits: Vec<Edit> = serde_json::from_str(edits).expect("a list of mutants");
    every(edits.into_iter().map(|edit| Alone { edit, script, noticed }).collect());
}

/// A script with a mistake: a text that stands in it exactly once, and what is put in its place.
pub fn mistaken(script: &str, from: &str, to: &str) -> Result<String, String> {
    match script.matches(from).count() {
        1 => Ok(script.replace(from, to)),
        times => Err(format!("its text stands {times} times in the script")),
    }
}

/// What noticed that the scripts of a stage are wrong, by what they answer or store and not by their refusal to run: the
/// vectors, by their names, or else so many steps of random histories, by the step. Or why nothing did.
pub fn noticed<S: Suite>(stage: &mut S, seed: u64, steps: u64) -> Result<String, String> {
    let mut errors = String::new();
    for trace in rows::all::<S>() {
        match stage.replay(&trace) {
            Err(Fault::Wrong(_)) => return Ok(format!("\"{}\"", trace.name)),
            Err(Fault::Error(text)) => errors = text,
            Ok(_) | Err(Fault::Stale) => {}
        }
    }
    let Outcome { steps, fault, .. } = stage.histories(seed, steps);
    match fault {
        Some((Fault::Wrong(_), _)) => Ok(format!("step {steps} of the random histories")),
        Some((Fault::Error(text), _)) => Err(format!("it does not run: {text}")),
        _ => Err(format!("it lives {errors}")),
    }
}
