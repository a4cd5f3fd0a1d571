//! How limits are computed: pure arithmetic on integers, one file an algorithm.
//!
//! Written once and used three times: for decisions inside the isolate, as the model that `lua/check.lua` is held
//! against case by case, and for explanations. Time is an argument in milliseconds since the Unix epoch; nothing
//! here reads a clock. The bounds that keep every product below 2^53 (so that Lua's doubles agree exactly) are
//! checked in `policy::bounds`; the arithmetic here saturates all the same.

pub mod concurrency;
pub mod fixed_window;
pub mod settlement;
pub mod sliding_log;
pub mod sliding_window;
pub mod state;
pub mod token_bucket;
pub mod waiting;
pub mod windows;

use std::rc::Rc;

pub use state::State;

use crate::policy::{Algorithm, Capacity};

/// A stored time that is further ahead of a caller's clock than this is put to the arbiter, the store's clock.
pub const CLOCK_SLACK_MS: u64 = 60_000;

/// How long a key outlives the moment from which its absence means the same as its presence.
pub const TTL_MARGIN_MS: u64 = 2_000;

/// What one subject may use of one limit, and by which algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// How it counts.
    pub algorithm: Algorithm,
    /// Units per window, or slots, ≥ 1.
    pub limit: u64,
    /// Units at once from idle, ≥ 1; equal to `limit` but for the token bucket.
    pub burst: u64,
    /// Window, or lease, in milliseconds, ≥ 1.
    pub window_ms: u64,
}

impl Quota {
    /// The quota of a validated limit.
    pub fn new(algorithm: Algorithm, window_ms: u64, capacity: Capacity) -> Self {
        Self { algorithm, limit: capacity.limit.get(), burst: capacity.burst.get(), window_ms }
    }

    /// The same rate for another limit, the burst in proportion (rounded up): what an override or a share does.
    pub fn with_limit(self, limit: u64) -> Self {
        let limit = limit.max(1);
        let burst = self.burst.saturating_mul(limit).div_ceil(self.limit.max(1)).max(1);
        Self { limit, burst, ..self }
    }

    /// The most that can be had at once: the burst of a token bucket, the limit of the others.
    pub fn capacity(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket => self.burst,
            _ => self.limit,
        }
    }

    /// Whether units can be charged now and used later: a log would hold them by the wrong moment, a slot is not used up.
    pub fn lends(&self) -> bool {
        !matches!(self.algorithm, Algorithm::SlidingLog | Algorithm::Concurrency)
    }

    /// For how many milliseconds from the charge on a permit may be spent: `ttl_ms`, and of a window no later than the
    /// end of the one that it was charged in. `reset_ms` is the reset of the charge's own verdict.
    pub fn permit_life_ms(&self, reset_ms: u64, ttl_ms: u64) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket => ttl_ms,
            Algorithm::FixedWindow => ttl_ms.min(reset_ms),
            // Nothing of what was just charged counts any more two windows after its window began.
            Algorithm::SlidingWindow => ttl_ms.min(reset_ms.saturating_sub(self.window_ms)),
            Algorithm::SlidingLog | Algorithm::Concurrency => 0,
        }
    }

    /// Time to live of a key in milliseconds: from that long after the last charge on, no key and the key mean the
    /// same, however much was charged.
    pub fn ttl_ms(&self) -> u64 {
        let meaningful = match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingLog | Algorithm::Concurrency => self.window_ms,
            Algorithm::SlidingWindow => self.window_ms.saturating_mul(2),
            Algorithm::TokenBucket => self.burst.saturating_mul(self.window_ms).div_ceil(self.limit.max(1)),
        };
        meaningful.saturating_add(TTL_MARGIN_MS)
    }
}

/// When a request that was not let through would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It passes now.
    None,
    /// After this many milliseconds, if nobody else uses the limit meanwhile.
    Ms(u64),
    /// Never: its cost is above the capacity, or the subject is banned for good.
    Never,
}

/// What one limit says of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Units per window, or slots, that this subject has (after plans and overrides).
    pub limit: u64,
    /// Whole units or slots left, after the charge where there was one.
    pub remaining: u64,
    /// Milliseconds until nothing is used any more (of a concurrency limit: until the first lease ends); for a
    /// refusal until the same request passes.
    pub reset_ms: u64,
    /// Whether and when the request passes.
    pub wait: Wait,
}

impl Verdict {
    /// Whether this limit lets the request through.
    pub fn allowed(&self) -> bool {
        self.wait == Wait::None
    }
}

/// One limit of a request, with the state found for its subject.
#[derive(Debug, Clone)]
pub struct Check {
    /// What the subject may use.
    pub quota: Quota,
    /// Units the request asks for; 0 is a look. A concurrency limit gives one slot, whatever the cost, and a look at it
    /// is refused where a request would be.
    pub cost: u64,
    /// Counts and reports, never refuses.
    pub shadow: bool,
    /// What was found.
    pub state: Option<State>,
    /// Under which id a slot of a concurrency limit is taken; without one none is.
    pub holder: Option<Rc<str>>,
    /// Of a token bucket that delays: how many milliseconds ahead of its moment a request may pass, to be held until
    /// then.
    pub ahead_ms: Option<u64>,
    /// Units wanted beyond the cost, as many as there are: permits to spend later.
    pub more: u64,
}

/// The answer to a whole request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether every limit that may refuse let it through.
    pub allowed: bool,
    /// One verdict a limit, in the order asked.
    pub verdicts: Vec<Verdict>,
    /// The states to write, one a limit; `None` leaves what is there.
    pub writes: Vec<Option<State>>,
    /// For each limit that delays, in their order: milliseconds to hold the request, 0 where it is refused.
    pub holds: Vec<u64>,
    /// Units charged beyond the cost, one a limit.
    pub granted: Vec<u64>,
}

/// Decides a request over all its limits, all or nothing: unless every limit lets it through, none is charged. A
/// limit in shadow that would refuse is left out of both. What is charged beyond the costs refuses nobody.
pub fn decide(checks: &[Check], now_ms: u64) -> Decision {
    let mut holds = Vec::new();
    let settled: Vec<(State, Wait)> = checks
        .iter()
        .map(|check| {
            let state = State::settle(check.state.as_ref(), &check.quota, now_ms);
            let wait = match (&state, &check.holder) {
                (State::Holders(holders), Some(id)) => holders.wait(Some(id), check.quota.limit, now_ms),
                _ if check.ahead_ms.is_some() => {
                    let (wait, hold_ms) = state.wait_ahead(check, now_ms);
                    holds.push(hold_ms);
                    wait
                }
                _ => state.wait(&check.quota, check.cost, now_ms),
            };
            (state, wait)
        })
        .collect();
    let allowed = checks.iter().zip(&settled).all(|(check, (_, wait))| check.shadow || *wait == Wait::None);
    if !allowed {
        holds.fill(0);
    }
    let mut verdicts = Vec::with_capacity(checks.len());
    let mut writes = Vec::with_capacity(checks.len());
    let mut granted = Vec::with_capacity(checks.len());
    for (check, (mut state, wait)) in checks.iter().zip(settled) {
        let charge = allowed && wait == Wait::None && check.cost > 0;
        if charge {
            match (&mut state, &check.holder) {
                (State::Holders(holders), Some(id)) => {
                    holders.take(id, check.quota.window_ms, now_ms);
                }
                _ => state.charge(&check.quota, check.cost, now_ms),
            }
        }
        let more = match check.more {
            more if more > 0 && charge && check.quota.lends() => {
                more.min(state.remaining(&check.quota, now_ms))
            }
            _ => 0,
        };
        if more > 0 {
            state.charge(&check.quota, more, now_ms);
        }
        granted.push(more);
        let reset_ms = match wait {
            Wait::Ms(ms) => ms,
            _ => state.reset_ms(&check.quota, now_ms),
        };
        let remaining = state.remaining(&check.quota, now_ms);
        verdicts.push(Verdict { limit: check.quota.limit, remaining, reset_ms, wait });
        writes.push(charge.then_some(state));
    }
    Decision { allowed, verdicts, writes, holds, granted }
}
