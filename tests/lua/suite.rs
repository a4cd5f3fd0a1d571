//! What the suites have in common. Each has a stage: scripts in a Redis, on which traces of its own are played; rows,
//! random histories and mistakes are tried on all stages alike.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sluicegate::limit::TTL_MARGIN_MS;

use super::rows::Row;

/// No key lives shorter than the TTL's margin; a trace must be over well before.
pub const STALE: Duration = Duration::from_millis(TTL_MARGIN_MS * 3 / 4);
/// How often a trace is tried that the machine did not get through in time.
const TRIES: usize = 5;

/// Why a trace failed.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Another answer, other bytes or another TTL than the model's.
    Wrong(String),
    /// The script did not run.
    Error(String),
    /// It took too long to prove anything.
    Stale,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(text) => out.write_str(text),
            Self::Error(text) => write!(out, "the script fails: {text}"),
            Self::Stale => out.write_str("the machine is too slow to play it in time"),
        }
    }
}

/// What came of random histories.
pub struct Outcome<S: Suite> {
    /// Steps that have proved something.
    pub steps: u64,
    /// What they came to.
    pub tally: S::Tally,
    /// What went wrong, and the history that led there.
    pub fault: Option<(Fault, Row<S>)>,
}

/// The stage of a suite.
pub trait Suite: Sized {
    /// One thing that is done.
    type Step: Clone + Serialize + DeserializeOwned;
    /// Where time 0 of a trace lies.
    type Base: Clone + Default + PartialEq + Serialize + DeserializeOwned;
    /// What comes of a step.
    type Said;
    /// What steps are counted by.
    type Tally;

    /// The folder of its rows.
    const ROWS: &'static str;

    /// Whether a step of a row says what must come of it.
    fn says(step: &Self::Step) -> bool;

    /// Whether others go by a step's place, so that it cannot be taken out.
    fn stays(_step: &Self::Step) -> bool {
        false
    }

    /// Plays a whole trace, once.
    fn once(&mut self, trace: &Row<Self>) -> Result<Vec<Self::Said>, Fault>;

    /// Plays so many steps of random histories, or up to the first fault.
    fn histories(&mut self, seed: u64, steps: u64) -> Outcome<Self>;

    /// Plays a whole trace.
    fn replay(&mut self, trace: &Row<Self>) -> Result<Vec<Self::Said>, Fault> {
        let mut tries = (0..TRIES).map(|_| self.once(trace));
        tries.find(|all| !matches!(all, Err(Fault::Stale))).unwrap_or(Err(Fault::Stale))
    }

    /// A failed trace with every step taken out that the failure does not need, as a vector.
    fn shrunk(&mut self, trace: &Row<Self>) -> String {
        let mut trace = trace.clone();
        for index in (0..trace.steps.len().saturating_sub(1)).rev() {
            let mut shorter = trace.clone();
            let stays = Self::stays(&shorter.steps.remove(index));
            if !stays && matches!(self.replay(&shorter), Err(Fault::Wrong(_) | Fault::Error(_))) {
                trace = shorter;
            }
        }
        serde_json::to_string(&trace).expect("a trace is JSON")
    }

    /// Plays so many steps of random histories: how many proved something, and what they came to. A fault is a panic
    /// that brings the seed and the vector to play it again.
    fn prove(&mut self, seed: u64, steps: u64) -> (u64, Self::Tally) {
        let Outcome { steps, tally, fault } = self.histories(seed, steps);
        if let Some((fault, trace)) = fault {
            let vector = self.shrunk(&trace);
            panic!("SLUICEGATE_SEED={seed}, step {steps}: {fault}\nas a vector: {vector}");
        }
        (steps, tally)
    }
}
