//! Token bucket, exact over any rate.
//!
//! What is kept is what was *used*, in units of 1/`window_ms` of a token: each millisecond gives back `limit`
//! units, a token costs `window_ms`, and nothing is ever rounded. Since the used amount does not depend on limit or
//! burst, a change of either keeps it. What passes in any time T is at most burst + T × limit / window.
//!
//! A limit that delays lets a request pass ahead of its moment, on credit: more is used then than the burst, and the
//! request is held until that has come in again. What leaves the gateway in any time T is the same.

use super::{Quota, Wait};

/// State of one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Units of 1/`window_ms` token that are used.
    pub used: u64,
    /// When that was so, in milliseconds since the Unix epoch; never moves back.
    pub at_ms: u64,
}

impl Bucket {
    /// Nothing used.
    pub fn idle(now_ms: u64) -> Self {
        Self { used: 0, at_ms: now_ms }
    }

    /// Gives back what the time since then has earned. A clock behind the stored time earns nothing.
    pub fn settle(self, quota: &Quota, now_ms: u64) -> Self {
        match now_ms.checked_sub(self.at_ms) {
            None => self,
            Some(elapsed) => {
                let earned = elapsed.saturating_mul(quota.limit);
                Self { used: self.used.saturating_sub(earned), at_ms: now_ms }
            }
        }
    }

    /// When `cost` tokens can be had.
    pub fn wait(&self, quota: &Quota, cost: u64, now_ms: u64) -> Wait {
        if cost > quota.burst {
            return Wait::Never;
        }
        match self.due_ms(quota, cost, now_ms) {
            0 => Wait::None,
            _ if cost == 0 => Wait::None,
            due_ms => Wait::Ms(due_ms),
        }
    }

    /// The same where a request may pass up to `ahead_ms` before its moment, to be held until then: when it is let
    /// through, and for how many milliseconds it is held. For a look: for how long those before it are held.
    pub fn wait_ahead(&self, quota: &Quota, cost: u64, now_ms: u64, ahead_ms: u64) -> (Wait, u64) {
        if cost > quota.burst {
            return (Wait::Never, 0);
        }
        let due_ms = self.due_ms(quota, cost, now_ms);
        match due_ms.saturating_sub(ahead_ms) {
            early_ms if early_ms > 0 && cost > 0 => (Wait::Ms(early_ms), 0),
            _ => (Wait::None, due_ms.min(ahead_ms)),
        }
    }

    /// Milliseconds until what the bucket lacks for `cost` tokens has come in; 0 where it lacks nothing.
    fn due_ms(&self, quota: &Quota, cost: u64, now_ms: u64) -> u64 {
        let wanted = self.used.saturating_add(cost.saturating_mul(quota.window_ms));
        let missing = wanted.saturating_sub(quota.burst.saturating_mul(quota.window_ms));
        if missing == 0 {
            return 0;
        }
        self.lead(now_ms).saturating_add(missing.div_ceil(quota.limit.max(1)))
    }

    /// Takes `cost` tokens.
    pub fn charge(&mut self, quota: &Quota, cost: u64) {
        self.used = self.used.saturating_add(cost.saturating_mul(quota.window_ms));
    }

    /// Whole tokens left.
    pub fn remaining(&self, quota: &Quota) -> u64 {
        let left = quota.burst.saturating_mul(quota.window_ms).saturating_sub(self.used);
        left.checked_div(quota.window_ms).unwrap_or(0)
    }

    /// Milliseconds until the bucket is full.
    pub fn reset_ms(&self, quota: &Quota, now_ms: u64) -> u64 {
        if self.used == 0 {
            return 0;
        }
        self.lead(now_ms).saturating_add(self.used.div_ceil(quota.limit.max(1)))
    }

    /// By how much the stored time is ahead of the caller's clock.
    fn lead(&self, now_ms: u64) -> u64 {
        self.at_ms.saturating_sub(now_ms)
    }
}
