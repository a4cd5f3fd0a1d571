//! Whether the store is well: what the log says of it once, and what is only counted.

use super::{Gateway, log};
use crate::store::StoreError;
use crate::store::breaker::{Ending, Permit, Phase};

/// Whether the store fails, as the log has it.
#[derive(Debug, Default)]
pub(super) struct Health {
    failing: bool,
    last_failure_ms: u64,
}

/// What the log says only once is counted here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls made to the store, retries included.
    pub calls: u64,
    /// Calls made once more.
    pub retries: u64,
    /// Failures by class, in the order of [`CLASSES`](crate::store::error::CLASSES).
    pub failures: [u64; 10],
    /// Requests that the open breaker kept from the store.
    pub breaker: u64,
    /// Requests that the bulkhead kept from the store.
    pub bulkhead: u64,
    /// Leases that ended before the requests that held them.
    pub lost_leases: u64,
    /// Requests that waited for their moment, those that still do included.
    pub held: u64,
    /// Requests that were refused because as many waited as may.
    pub waiting_full: u64,
    /// What came of charges that settle after the answer.
    pub settlements: super::Settlements,
}

impl Gateway {
    /// What was counted since the gateway was made.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where the breaker stands.
    pub fn breaker_phase(&self, now_ms: u64) -> Phase {
        self.breaker.phase(now_ms)
    }

    /// A call was answered.
    pub(super) fn answered(&mut self, permit: Permit, took_ms: u64, now_ms: u64, random: f64) {
        let before = self.breaker.phase(now_ms);
        self.breaker.end(permit, Ending::Answered(took_ms), now_ms, random);
        let phase = self.breaker.phase(now_ms);
        if before != Phase::Open && phase == Phase::Open {
            self.begin_failing(now_ms, log::store_slow);
        }
        if !self.health.failing || phase != Phase::Closed {
            return;
        }
        // Well again: the breaker has just closed, or it never opened and a whole window went by without a failure.
        let quiet_ms = now_ms.saturating_sub(self.health.last_failure_ms);
        if before != Phase::Closed || quiet_ms >= self.rules.policy.store.breaker.window_ms {
            self.health.failing = false;
            self.log.push(log::store_recovered());
        }
    }

    /// A call failed.
    pub(super) fn note_failure(&mut self, error: &StoreError, now_ms: u64) {
        if let Some(count) = self.counters.failures.get_mut(error.class.index()) {
            *count = count.saturating_add(1);
        }
        self.begin_failing(now_ms, || log::store_failing(error));
    }

    fn begin_failing(&mut self, now_ms: u64, line: impl FnOnce() -> String) {
        self.health.last_failure_ms = now_ms;
        if !self.health.failing {
            self.health.failing = true;
            self.log.push(line());
        }
    }
}
