//! A history of requests: what the vectors hold, what the generator makes up, and how a failure is printed so that
//! it can be kept as a vector.

use std::fmt;

use serde::{Deserialize, Serialize};
use sluicegate::limit::Quota;
use sluicegate::policy::{Algorithm, duration};

use super::rows::History;

/// Midnight of 2025-02-01: windows up to a day begin there, and no store's clock is behind it, so nothing that is
/// stored relative to it is ever taken for a clock gone wrong.
pub const PAST_MS: u64 = 1_738_368_000_000;

/// A limit as the reports write it: `token-bucket(10/20s, 16)`, `fixed-window(5/1m) shadow`, and with the milliseconds
/// that it lets a request wait `token-bucket(10/20s) delay 2000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// What a subject may use.
    pub quota: Quota,
    /// Counts and reports, never refuses.
    pub shadow: bool,
    /// How many ms ahead of its moment a request may pass.
    pub ahead_ms: Option<u64>,
}

const NAMES: [(&str, Algorithm); 5] = [
    ("token-bucket", Algorithm::TokenBucket),
    ("fixed-window", Algorithm::FixedWindow),
    ("sliding-window", Algorithm::SlidingWindow),
    ("sliding-log", Algorithm::SlidingLog),
    ("concurrency", Algorithm::Concurrency),
];

impl Rule {
    /// Reads the notation; without a burst it is the limit.
    pub fn parse(text: &str) -> Self {
        let read = || {
            let (head, tail) = text.split_once(')')?;
            let (name, numbers) = head.split_once('(')?;
            let (rate, burst) = match numbers.split_once(", ") {
                Some((rate, burst)) => (rate, Some(burst)),
                None => (numbers, None),
            };
            let (limit, window) = rate.split_once('/')?;
            let (_, algorithm) = NAMES.into_iter().find(|(known, _)| *known == name)?;
            let limit = limit.parse().ok()?;
            let burst = burst.map_or(Some(limit), |burst| burst.parse().ok())?;
            let quota = Quota { algorithm, limit, burst, window_ms: duration::parse(window).ok()? };
            let ahead_ms = match tail.strip_prefix(" delay ") {
                Some(ms) => Some(ms.parse().ok()?),
                None => None,
            };
            Some(Self { quota, shadow: tail == " shadow", ahead_ms })
        };
        read().unwrap_or_else(|| panic!("not a rule: {text}"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quota { algorithm, limit, burst, window_ms } = self.quota;
        let name = NAMES.iter().find(|(_, known)| *known == algorithm).map_or("", |(name, _)| name);
        write!(out, "{name}({limit}/{}", duration::to_text(window_ms))?;
        if burst != limit {
            write!(out, ", {burst}")?;
        }
        write!(out, "){}", if self.shadow { " shadow" } else { "" })?;
        self.ahead_ms.map_or(Ok(()), |ms| write!(out, " delay {ms}"))
    }
}

/// Where time 0 of a trace lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// At [`PAST_MS`].
    #[default]
    Past,
    /// At the store's present, which stands still meanwhile.
    Now,
    /// At this moment, ms since the Unix epoch.
    At(u64),
}

/// A history of requests.
pub type Trace = History<Step, Base>;

/// One request, what happens just before it, and what must come of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// True time in ms since time 0.
    #[serde(default)]
    pub at: u64,
    /// By how many ms the caller's clock is ahead of that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock: i64,
    /// The caller leaves the clock to the store.
    #[serde(default, skip_serializing_if = "is_default")]
    pub store_clock: bool,
    /// Units asked for, 1 where not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Units wanted beyond the cost, of limits that lend any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Cost>,
    /// The limits from here on, where they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<String>>,
    /// Overrides set or taken away, by the limit's index: `LIMIT UNTIL`, `+5000` being 5 s after time 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<(usize, Option<String>)>,
    /// Somebody has run PERSIST over all the keys.
    #[serde(default, skip_serializing_if = "is_default")]
    pub persist: bool,
    /// The request's charge id and fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<(String, String)>,
    /// The same again: so often in all, so many ms apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Poll>,
    /// The script's reply: 1 or 0; then limit, remaining, reset, wait for each limit; then ms to hold for each that
    /// delays. Just 2: see `charge` there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Vec<i64>>,
    /// Time to live in ms set for each limit's key; 0: the key was not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Vec<u64>>,
    /// Bytes written for each limit, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<Vec<String>>,
}

/// Cost of all limits, or of each.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cost {
    /// The same for all.
    All(u64),
    /// Of each.
    Each(Vec<u64>),
}

/// A step repeated.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// ms between two.
    pub every: u64,
    /// How many, the first included.
    pub times: u64,
    /// How many of them pass.
    pub passes: u64,
}

impl Step {
    /// What it costs in a limit.
    pub fn cost_in(&self, limit: usize) -> u64 {
        match &self.cost {
            None => 1,
            Some(Cost::All(cost)) => *cost,
            Some(Cost::Each(costs)) => costs[limit],
        }
    }

    /// Units wanted beyond the cost in a limit of this rule: one that lends, and does not delay.
    pub fn more_in(&self, limit: usize, rule: &Rule) -> u64 {
        let lends = rule.quota.lends() && rule.ahead_ms.is_none();
        match &self.more {
            Some(Cost::All(more)) if lends => *more,
            Some(Cost::Each(all)) if lends => all[limit],
            _ => 0,
        }
    }

    /// The caller's clock, of a trace whose time 0 is `base_ms`.
    pub fn clock_ms(&self, base_ms: u64) -> u64 {
        (base_ms + self.at).saturating_add_signed(self.clock)
    }
}

impl Trace {
    /// Time 0, at a store whose clock says `store_ms`.
    pub fn base_ms(&self, store_ms: u64) -> u64 {
        match self.base {
            Base::Past => PAST_MS,
            Base::Now => store_ms,
            Base::At(ms) => ms,
        }
    }

    /// All steps, polls written out.
    pub fn unrolled(&self) -> impl Iterator<Item = Step> + '_ {
        self.steps.iter().flat_map(|step| {
            let (every, times) = step.poll.as_ref().map_or((0, 1), |poll| (poll.every, poll.times));
            (0..times).map(move |turn| Step { at: step.at + turn * every, ..step.clone() })
        })
    }
}

/// An override with its `+` taken as from time 0.
pub fn absolute(over: &str, base_ms: u64) -> String {
    match over.split_once(" +") {
        Some((limit, until)) => {
            format!("{limit} {}", base_ms + until.parse::<u64>().expect("a number behind +"))
        }
        None => over.to_owned(),
    }
}

/// Whether a field need not be written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
