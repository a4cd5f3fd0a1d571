//! Mistakes made on purpose, each tried on a Redis by one of a few threads: those that nothing notices are the failure.

use std::env;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Deserialize;

use super::rows;
use super::suite::{Fault, Outcome, Suite};
use super::support::redis::{Client, Server};

/// Each has a Redis of its own.
const THREADS: usize = 2;

/// Mistakes in the scripts of a suite, which its rows and a short run of its random histories must notice by what is
/// answered or stored, not by a script's refusal to run.
pub struct Mistakes<S, const N: usize> {
    /// The scripts, each by the name that the list gives it: of one alone, none.
    pub scripts: [(&'static str, &'static str); N],
    /// The list, as JSON. `SLUICEGATE_MUTANT` picks those whose name contains it.
    pub list: &'static str,
    /// A stage with such scripts.
    pub stage: fn(Client, [&str; N]) -> S,
    /// Steps of random histories that a mistake must not survive.
    pub steps: u64,
    /// Where they begin: a mistake found once is found always.
    pub seed: u64,
}

/// A mistake: a text that stands in a script exactly once, and what is put in its place.
#[derive(Deserialize)]
struct Edit {
    name: String,
    #[serde(default)]
    script: String,
    from: String,
    to: String,
}

impl<S: Suite, const N: usize> Mistakes<S, N> {
    /// Fails where something is noticed in the scripts as they are.
    pub fn scripts_survive(&self) {
        let scripts = self.scripts.map(|(_, text)| text);
        assert_eq!(self.noticed(scripts, &Server::start()), Err("it lives ".to_owned()));
    }

    /// Tries all of them.
    pub fn are_noticed(&self) {
        let only = env::var("SLUICEGATE_MUTANT").unwrap_or_default();
        let mut all: Vec<Edit> = serde_json::from_str(self.list).expect("a list of mutants");
        all.retain(|edit| edit.name.contains(&only));
        let next = AtomicUsize::new(0);
        let work = || {
            let server = Server::start();
            let (mut killed, mut alive) = (String::new(), String::new());
            while let Some(edit) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.killed_by(edit, &server) {
                    Ok(by) => writeln!(killed, "{}: killed by {by}", edit.name).unwrap(),
                    Err(why) => writeln!(alive, "{}: {why}", edit.name).unwrap(),
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

    /// What notices a mistake, or why nothing does.
    fn killed_by(&self, edit: &Edit, server: &Server) -> Result<String, String> {
        let Some((_, script)) = self.scripts.iter().find(|(name, _)| *name == edit.script) else {
            return Err(format!("there is no script {:?}", edit.script));
        };
        let times = script.matches(&edit.from).count();
        if times != 1 {
            return Err(format!("its text stands {times} times in the script"));
        }
        let mistaken = script.replace(&edit.from, &edit.to);
        let scripts = self.scripts.map(|(name, text)| if name == edit.script { &mistaken } else { text });
        self.noticed(scripts, server)
    }

    /// What noticed that scripts are wrong: a row, by its name, or a step of the random histories. Or why nothing did.
    fn noticed(&self, scripts: [&str; N], server: &Server) -> Result<String, String> {
        let mut stage = (self.stage)(server.client(), scripts);
        let mut errors = String::new();
        for trace in rows::all::<S>() {
            match stage.replay(&trace) {
                Err(Fault::Wrong(_)) => return Ok(format!("\"{}\"", trace.name)),
                Err(Fault::Error(text)) => errors = text,
                Ok(_) | Err(Fault::Stale) => {}
            }
        }
        let Outcome { steps, fault, .. } = stage.histories(self.seed, self.steps);
        match fault {
            Some((Fault::Wrong(_), _)) => Ok(format!("step {steps} of the random histories")),
            Some((Fault::Error(text), _)) => Err(format!("it does not run: {text}")),
            _ => Err(format!("it lives {errors}")),
        }
    }
}
