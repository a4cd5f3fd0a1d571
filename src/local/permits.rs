//! Permits: units that the store has charged already, for this isolate to spend alone.
//!
//! A batch comes with a request's own charge. Its permits are good for their own quota only, and until a moment that is
//! counted from when the call was sent. Who spends some holds them first: they go back where the request does not pass,
//! or is never heard of again. While a batch is under way for a subject no other is asked for, so an isolate has no more
//! than one batch of it in hand. The table is bounded: a subject that finds no room is asked about request by request.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use super::Key;
use crate::limit::{Quota, Verdict, Wait};
use crate::policy::Batch;

/// Most subjects that permits are kept of.
const CAPACITY: usize = 10_000;

/// How often a full table is swept of those that say nothing any more, at most, in milliseconds.
const SWEEP_MS: u64 = 1_000;

/// The permits of an isolate.
#[derive(Debug, Default)]
pub struct Permits {
    known: HashMap<Key, Entry>,
    /// From the last sweep to when the next may be.
    swept: Term,
    counts: Counts,
    lapsed: Rc<Cell<u64>>,
}

/// What became of permits so far, in units but for the batches. What was granted and is neither spent nor lapsed is in
/// hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Batches asked for.
    pub batches: u64,
    /// Granted by the store, beyond what the requests cost that brought them.
    pub granted: u64,
    /// Spent by requests that passed.
    pub spent: u64,
    /// Over before they were spent, or given up with what they were taken under.
    pub lapsed: u64,
}

impl Counts {
    /// Neither spent nor lapsed.
    pub fn in_hand(&self) -> u64 {
        self.granted.saturating_sub(self.spent).saturating_sub(self.lapsed)
    }
}

/// A batch that is to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Units beyond the request's own cost.
    pub more: u64,
    /// Tells it from other batches.
    pub id: u64,
}

/// A time by the isolate's clock, in milliseconds since the Unix epoch. Before its beginning the clock has been set back,
/// so that nothing is known of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Term {
    /// Included.
    pub from_ms: u64,
    /// Excluded.
    pub until_ms: u64,
}

impl Term {
    fn holds(self, now_ms: u64) -> bool {
        (self.from_ms..self.until_ms).contains(&now_ms)
    }
}

#[derive(Debug)]
struct Entry {
    quota: Quota,
    batch: Batch,
    /// The oldest first.
    grants: Vec<Rc<Grant>>,
    /// The batch that is under way, and when it may come: later it counts as lost.
    under_way: Option<(u64, Term)>,
    told: Told,
}

/// What the store last said of a subject.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    asked_ms: u64,
    limit: u64,
    remaining: u64,
    reset_at_ms: u64,
}

#[derive(Debug)]
struct Grant {
    left: Cell<u64>,
    term: Term,
    over: Cell<bool>,
    lapsed: Rc<Cell<u64>>,
}

/// Permits that a request holds until it is known whether it passes. Dropped, they go back.
#[derive(Debug, Default)]
pub struct Held(Vec<(Rc<Grant>, u64)>);

impl Drop for Held {
    fn drop(&mut self) {
        while let Some((grant, units)) = self.0.pop() {
            let to = if grant.over.get() { &grant.lapsed } else { &grant.left };
            to.set(to.get().saturating_add(units));
        }
    }
}

impl Grant {
    fn end(&self) {
        self.over.set(true);
        self.lapsed.set(self.lapsed.get().saturating_add(self.left.take()));
    }
}

impl Entry {
    fn settle(&mut self, now_ms: u64) {
        self.grants.retain(|grant| {
            let good = grant.term.holds(now_ms);
            if !good {
                grant.end();
            }
            good
        });
        self.under_way = self.under_way.filter(|(_, term)| term.holds(now_ms));
    }

    fn left(&self) -> u64 {
        self.grants.iter().fold(0, |sum, grant| grant.left.get().saturating_add(sum))
    }

    fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.left() == 0
    }

    fn end(&mut self) {
        while let Some(grant) = self.grants.pop() {
            grant.end();
        }
    }
}

impl Permits {
    /// Holds as many permits as a request costs, where there are that many, with what the limit then says of it.
    pub fn hold(&mut self, key: &Key, quota: &Quota, cost: u64, now_ms: u64) -> Option<(Held, Verdict)> {
        let entry = self.known.get_mut(key)?;
        entry.settle(now_ms);
        if cost == 0 || entry.quota != *quota || entry.left() < cost {
            return None;
        }
        let mut held = Held::default();
        let mut missing = cost;
        for grant in &entry.grants {
            let units = grant.left.get().min(missing);
            if units > 0 {
                grant.left.set(grant.left.get().saturating_sub(units));
                held.0.push((grant.clone(), units));
                missing = missing.saturating_sub(units);
            }
        }
        let Told { limit, remaining, reset_at_ms, .. } = entry.told;
        let remaining = remaining.saturating_add(entry.left());
        let reset_ms = reset_at_ms.saturating_sub(now_ms);
        Some((held, Verdict { limit, remaining, reset_ms, wait: Wait::None }))
    }

    /// The request passed: what it held is spent.
    pub fn spend(&mut self, mut held: Held) {
        let units =
            std::mem::take(&mut held.0).iter().fold(0, |sum: u64, (_, units)| sum.saturating_add(*units));
        self.counts.spent = self.counts.spent.saturating_add(units);
    }

    /// Whether a request of this cost is to ask for a batch. That is under way from now on, and may come within the term.
    pub fn want(
        &mut self,
        key: &Key,
        quota: &Quota,
        batch: Batch,
        cost: u64,
        coming: Term,
    ) -> Option<Wanted> {
        let now_ms = coming.from_ms;
        if cost == 0 || cost >= batch.units {
            return None;
        }
        if !self.known.contains_key(key) {
            if !self.has_room(now_ms) {
                return None;
            }
            self.known.insert(key.clone(), Entry::new(*quota, batch));
        }
        let entry = self.known.get_mut(key)?;
        entry.settle(now_ms);
        if (entry.quota, entry.batch) != (*quota, batch) {
            if !entry.is_idle() {
                return None;
            }
            entry.end();
            *entry = Entry::new(*quota, batch);
        }
        let more = batch.units.saturating_sub(entry.left()).saturating_sub(cost);
        if more == 0 || entry.under_way.is_some() {
            return None;
        }
        self.counts.batches = self.counts.batches.saturating_add(1);
        let id = self.counts.batches;
        entry.under_way = Some((id, coming));
        Some(Wanted { more, id })
    }

    /// Takes in what the store said of a subject in a call of `asked_ms`. Another limit than before is an override, or a
    /// ban, that was made elsewhere: what was taken under the former is given up.
    pub fn note(&mut self, key: &Key, quota: &Quota, verdict: &Verdict, asked_ms: u64) {
        let Some(entry) = self.known.get_mut(key).filter(|entry| entry.quota == *quota) else { return };
        if asked_ms < entry.told.asked_ms {
            return;
        }
        if entry.told.limit != verdict.limit {
            entry.end();
        }
        let reset_at_ms = match verdict.wait {
            Wait::None => asked_ms.saturating_add(verdict.reset_ms),
            _ => entry.told.reset_at_ms,
        };
        let Verdict { limit, remaining, .. } = *verdict;
        entry.told = Told { asked_ms, limit, remaining, reset_at_ms };
    }

    /// A batch has come. It is lost where the subject was forgotten meanwhile, or another batch has been asked for since.
    pub fn grant(&mut self, key: &Key, id: u64, units: u64, term: Term) {
        self.counts.granted = self.counts.granted.saturating_add(units);
        let grant =
            Grant { left: Cell::new(units), term, over: Cell::new(false), lapsed: self.lapsed.clone() };
        match self.known.get_mut(key).filter(|entry| entry.under_way.is_some_and(|(known, _)| known == id)) {
            Some(entry) if units > 0 => entry.grants.push(Rc::new(grant)),
            _ => grant.end(),
        }
    }

    /// A batch is no longer under way, whatever came of it.
    pub fn heard(&mut self, key: &Key, id: u64) {
        if let Some(entry) = self.known.get_mut(key) {
            entry.under_way = entry.under_way.filter(|(known, _)| *known != id);
        }
    }

    /// Permits of a subject that nobody holds.
    pub fn left(&self, key: &Key) -> u64 {
        self.known.get(key).map_or(0, Entry::left)
    }

    /// Gives up what is in hand of one subject, and what is under way.
    pub fn forget(&mut self, key: &Key) {
        if let Some(mut entry) = self.known.remove(key) {
            entry.end();
        }
    }

    /// Gives up what another policy's limits would not take in the same way. `still` says how a limit, known by the
    /// beginning of its keys, takes permits now.
    pub fn configure(&mut self, still: impl Fn(&str) -> Option<Batch>) {
        self.keep(&|key, entry| still(&key.stem) == Some(entry.batch));
    }

    /// Gives up all but these.
    fn keep(&mut self, stays: &dyn Fn(&Key, &mut Entry) -> bool) {
        self.known.retain(|key, entry| {
            let stays = stays(key, entry);
            if !stays {
                entry.end();
            }
            stays
        });
    }

    /// What was counted so far, what is over by now included.
    pub fn counts(&mut self, now_ms: u64) -> Counts {
        self.known.values_mut().for_each(|entry| entry.settle(now_ms));
        Counts { lapsed: self.lapsed.get(), ..self.counts }
    }

    fn has_room(&mut self, now_ms: u64) -> bool {
        if self.known.len() >= CAPACITY && !self.swept.holds(now_ms) {
            self.swept = Term { from_ms: now_ms, until_ms: now_ms.saturating_add(SWEEP_MS) };
            self.keep(&|_, entry| {
                entry.settle(now_ms);
                !entry.is_idle()
            });
        }
        self.known.len() < CAPACITY
    }
}

impl Entry {
    fn new(quota: Quota, batch: Batch) -> Self {
        Self { quota, batch, grants: Vec::new(), under_way: None, told: Told::default() }
    }
}

#[cfg(test)]
mod tests;
