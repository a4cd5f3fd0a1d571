//! Requests that wait for their moment instead of being refused.
//!
//! What a request is granted ahead of its moment is reserved by the decision itself. All that is left to do is to send
//! it on when that moment has come; the entry does so, and needs to ask nobody.

use super::Gateway;
use super::outcome::{Line, Outcome, Reason, Tier};
use super::places::Place;
use super::settle;
use crate::limit::Wait;
use crate::store::{Ask, call};

/// How much longer than a decision may take, and than its request may wait, a place is kept for it, in milliseconds.
const LATE_MS: u64 = 1_000;

/// When a request that is let through goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Its moment by the isolate's clock, in milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// The same from the decision's arrival on.
    pub for_ms: u64,
}

impl Hold {
    /// For `hold_ms` from `from_ms` on, and for no longer than that from now on; none where that time is over.
    pub fn of(hold_ms: u64, from_ms: u64, now_ms: u64) -> Option<Self> {
        let for_ms = from_ms.saturating_add(hold_ms).saturating_sub(now_ms).min(hold_ms);
        (for_ms > 0).then_some(Self { until_ms: now_ms.saturating_add(for_ms), for_ms })
    }
}

/// Whether a request may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// None of its limits delays it.
    No,
    /// There is no place for it, so it asks to pass at once or not at all.
    Full,
    /// It has a place.
    At(Place),
}

/// For how many milliseconds a decision holds its request: as long as the limit that holds it longest. Limits that it
/// only looks at have no say, unless it does nothing but look.
pub(super) fn hold_ms<'a>(asks: impl Iterator<Item = &'a Ask> + Clone, holds: &[u64]) -> u64 {
    if holds.is_empty() {
        return 0;
    }
    let looks = asks.clone().all(|ask| ask.cost == 0);
    let delaying = asks.filter(|ask| ask.ahead_ms.is_some()).zip(holds);
    delaying.filter(|(ask, _)| looks || ask.cost > 0).map(|(_, hold_ms)| *hold_ms).max().unwrap_or(0)
}

impl Gateway {
    /// Takes a place for a request that may have to wait. Where there is none it asks without credit: what it would be
    /// granted could not be used.
    pub(super) fn waiting(&mut self, asks: &mut [Ask], now_ms: u64) -> Waiting {
        let (mut limits, mut longest_ms) = (Vec::new(), 0);
        for ask in asks.iter().filter(|ask| ask.ahead_ms.is_some() && ask.cost > 0) {
            let prepared = self.rules.limits.get(ask.limit);
            if let Some((prepared, delay)) = prepared.and_then(|limit| Some((limit, limit.limit.delay()?))) {
                limits.push((prepared.counted_at, delay.waiting));
                longest_ms = longest_ms.max(delay.ms);
            }
        }
        if limits.is_empty() {
            return Waiting::No;
        }
        // A route has no slots beside a limit that delays, but a path that is read in two ways may have two routes.
        if !asks.iter().any(settle::is_concurrency) {
            // The store, then the platform's own limiter.
            let decided_ms = self.rules.policy.store.timeout_ms.saturating_mul(2).saturating_add(LATE_MS);
            let until_ms = now_ms.saturating_add(decided_ms).saturating_add(longest_ms);
            if let Some(place) = self.places.take(&limits, until_ms, now_ms) {
                return Waiting::At(place);
            }
        }
        for ask in asks.iter_mut().filter(|ask| ask.ahead_ms.is_some()) {
            ask.ahead_ms = Some(0);
            ask.arguments = call::delaying_arguments(&ask.quota, ask.shadow, 0).into();
        }
        Waiting::Full
    }

    /// Keeps the place of a request that waits, and gives that of any other back.
    pub(super) fn placed(&mut self, outcome: Outcome, waiting: Waiting) -> Outcome {
        match (waiting, outcome.hold) {
            (Waiting::At(place), Some(hold)) if outcome.allowed() => {
                self.places.hold(place, hold.until_ms);
                self.counters.held = self.counters.held.saturating_add(1);
                outcome
            }
            (Waiting::At(place), _) => {
                self.places.give_back(place);
                outcome
            }
            // It only looks at the limits that delay.
            (Waiting::No, _) => Outcome { hold: None, ..outcome },
            (Waiting::Full, hold) => {
                let outcome = match hold {
                    Some(hold) => self.without_place(outcome, hold),
                    None => outcome,
                };
                // What the isolate remembers waits for a place elsewhere, too.
                let decided = outcome.refused == Some(Reason::QuotaExceeded) && outcome.tier != Tier::Cache;
                if decided && outcome.lines.iter().any(|line| line.refuses() && self.would_wait(line)) {
                    self.counters.waiting_full = self.counters.waiting_full.saturating_add(1);
                }
                outcome
            }
        }
    }

    /// A repeat under an idempotency key is told to wait as it was the first time. Where there is no place for it, it is
    /// refused until then; it has been charged already.
    fn without_place(&self, outcome: Outcome, hold: Hold) -> Outcome {
        let Outcome { tier, mut lines, silent, .. } = outcome;
        for line in lines.iter_mut().filter(|line| line.cost > 0 && self.delay_ms(line).is_some()) {
            line.verdict.wait = Wait::Ms(hold.for_ms);
        }
        Outcome { silent, ..Outcome::of(tier, lines) }
    }

    fn would_wait(&self, line: &Line) -> bool {
        let delay_ms = self.delay_ms(line);
        delay_ms.is_some_and(|delay_ms| matches!(line.verdict.wait, Wait::Ms(ms) if ms <= delay_ms))
    }

    fn delay_ms(&self, line: &Line) -> Option<u64> {
        self.rules.limits.get(line.limit)?.limit.delay().map(|delay| delay.ms)
    }
}
