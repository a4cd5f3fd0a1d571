//! Decisions by permits that this isolate has in hand: which limits of a request they cover, and what becomes of them
//! when it is known whether the request passes.
//!
//! A limit that is covered is not asked about. Its permits are held from then on, carried by the decision's purpose, and
//! spent or given back in [`Gateway::spent`], which every decision comes through; a decision that is never heard of
//! again drops them, which gives them back as well.

use super::asking::Purpose;
use super::outcome::{Line, Outcome};
use super::{Gateway, settle};
use crate::local::Key;
use crate::local::permits::{Counts, Held, Term};
use crate::store::{Answered, Ask, call};

/// How long after its deadline a batch may still come, in milliseconds: a late timer may bring it.
const LATE_MS: u64 = 1_000;

/// What a decision under way has to do with permits.
#[derive(Debug, Default)]
pub(super) struct Permitted {
    covered: Vec<Covered>,
    batches: Vec<Batch>,
    /// When the store was asked first, in milliseconds since the Unix epoch. A repeat under a charge id is told what the
    /// first came to, so permits count from here.
    sent_ms: u64,
}

/// A limit that permits cover.
#[derive(Debug)]
struct Covered {
    /// Its place among the limits of the request.
    place: usize,
    line: Line,
    held: Held,
}

/// A batch that is under way.
#[derive(Debug)]
struct Batch {
    key: Key,
    id: u64,
    ttl_ms: u64,
}

impl Gateway {
    /// What became of permits so far.
    pub fn permit_counts(&mut self, now_ms: u64) -> Counts {
        self.permits.counts(now_ms)
    }

    /// Takes those limits out of `asks` that permits cover.
    pub(super) fn cover(&mut self, asks: &mut Vec<Ask>, purpose: &mut Purpose, now_ms: u64) {
        let limits = &self.rules.limits;
        let takes = |ask: &Ask| limits.get(ask.limit).is_some_and(|prepared| prepared.limit.batch.is_some());
        if !asks.iter().any(takes) {
            return;
        }
        let Some(permitted) = purpose.permitted() else { return };
        let permitted = permitted.get_or_insert_default();
        let (mut at, mut place) = (0_usize, 0_usize);
        while let Some(ask) = asks.get(at) {
            let held = takes(ask)
                .then(|| self.permits.hold(&settle::key(limits, ask), &ask.quota, ask.cost, now_ms))
                .flatten();
            match held {
                Some((held, verdict)) => {
                    permitted.covered.push(Covered { place, line: settle::line(ask, verdict), held });
                    asks.remove(at);
                }
                None => at = at.saturating_add(1),
            }
            place = place.saturating_add(1);
        }
    }

    /// Asks for a batch with each limit that takes permits, where none is under way.
    pub(super) fn want(&mut self, asks: &mut [Ask], purpose: &mut Purpose, now_ms: u64) {
        let Some(permitted) = purpose.permitted().and_then(Option::as_mut) else { return };
        let timeout_ms = self.rules.policy.store.timeout_ms;
        let until_ms = now_ms.saturating_add(timeout_ms).saturating_add(LATE_MS);
        permitted.sent_ms = now_ms;
        for ask in asks {
            let batch = self.rules.limits.get(ask.limit).and_then(|prepared| prepared.limit.batch);
            let Some(batch) = batch else { continue };
            let key = settle::key(&self.rules.limits, ask);
            let coming = Term { from_ms: now_ms, until_ms };
            let Some(wanted) = self.permits.want(&key, &ask.quota, batch, ask.cost, coming) else { continue };
            ask.more = wanted.more;
            ask.arguments = call::permit_arguments(&ask.quota, ask.shadow, wanted.more).into();
            permitted.batches.push(Batch { key, id: wanted.id, ttl_ms: batch.ttl_ms });
        }
    }

    /// Takes in what the store said of limits that take permits, and the permits that it gave.
    pub(super) fn permit(
        &mut self,
        asks: &[Ask],
        answered: &Answered,
        outcome: &mut Outcome,
        purpose: &mut Purpose,
        asked_ms: u64,
    ) {
        let Some(permitted) = purpose.permitted().and_then(Option::as_mut) else { return };
        let mut batches = permitted.batches.iter().zip(&answered.permits);
        for ((ask, verdict), line) in asks.iter().zip(&answered.verdicts).zip(&mut outcome.lines) {
            let takes =
                self.rules.limits.get(ask.limit).is_some_and(|prepared| prepared.limit.batch.is_some());
            if !takes {
                continue;
            }
            let key = settle::key(&self.rules.limits, ask);
            self.permits.note(&key, &ask.quota, verdict, asked_ms);
            if ask.more > 0
                && let Some((batch, units)) = batches.next()
            {
                // The store had its say no sooner than it was asked, so what it calls the time left is no shorter here.
                let life_ms = ask.quota.permit_life_ms(verdict.reset_ms, batch.ttl_ms);
                let from_ms = permitted.sent_ms;
                let term = Term { from_ms, until_ms: from_ms.saturating_add(life_ms) };
                self.permits.grant(&key, batch.id, *units, term);
            }
            if verdict.allowed() {
                // To the store these are used; here they are left.
                line.verdict.remaining = line.verdict.remaining.saturating_add(self.permits.left(&key));
            }
        }
    }

    /// Spends what a decision held if it passes, gives it back if not, and puts what permits said where it belongs.
    pub(super) fn spent(&mut self, mut outcome: Outcome, permitted: Permitted) -> Outcome {
        for batch in &permitted.batches {
            self.permits.heard(&batch.key, batch.id);
        }
        for Covered { place, mut line, held } in permitted.covered {
            if outcome.allowed() {
                self.permits.spend(held);
            } else {
                line.verdict.remaining = line.verdict.remaining.saturating_add(line.cost);
            }
            outcome.lines.insert(place.min(outcome.lines.len()), line);
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
