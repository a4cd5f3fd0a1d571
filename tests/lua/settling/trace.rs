//! A history of requests and of settlements: what the vectors hold, and how a failure is printed.

use serde::{Deserialize, Serialize};

use super::super::rows::History;
use super::super::trace::{Cost, PAST_MS, Step as Asked, is_default};

/// Time 0.
pub const BASE_MS: u64 = PAST_MS;

/// A history.
pub type Trace = History<Step>;

/// One request or one settlement, and what happens just before it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// True time in ms since time 0.
    #[serde(default)]
    pub at: u64,
    /// By how many ms the store's clock is ahead of that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub store: i64,
    /// By how many ms the caller's is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock: i64,
    /// The caller leaves the clock to the store.
    #[serde(default, skip_serializing_if = "is_default")]
    pub store_clock: bool,
    /// The limits from here on, where they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<String>>,
    /// Overrides set or taken away, by the limit's index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<(usize, Option<String>)>,
    /// The store has forgotten all states.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flushed: bool,
    /// What is done.
    #[serde(rename = "do")]
    pub act: Act,
    /// The script's reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Vec<i64>>,
    /// Time to live in ms set for each limit's key; 0: the key was not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Vec<u64>>,
}

/// What a step does.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    /// A request of these costs.
    Ask(Vec<u64>),
    /// Settles the request of that number, of those that passed, at what it really cost in each limit.
    Settle(usize, Vec<u64>),
}

impl Default for Act {
    fn default() -> Self {
        Self::Ask(Vec::new())
    }
}

impl Step {
    /// The store's clock.
    pub fn store_ms(&self) -> u64 {
        (BASE_MS + self.at).saturating_add_signed(self.store)
    }

    /// The clock that decides.
    pub fn now_ms(&self) -> u64 {
        if self.store_clock {
            return self.store_ms();
        }
        (BASE_MS + self.at).saturating_add_signed(self.clock)
    }

    /// The step as the model of requests knows it.
    pub fn asked(&self) -> Asked {
        let costs = if let Act::Ask(costs) = &self.act { costs.clone() } else { Vec::new() };
        let cost = Some(Cost::Each(costs));
        let Self { at, clock, store_clock, limits, overrides, .. } = self.clone();
        Asked { at, clock, store_clock, limits, overrides, cost, ..Asked::default() }
    }
}
