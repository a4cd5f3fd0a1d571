//! Counters inside the isolate, bounded in number and bytes.
//!
//! When there is no room, idle subjects go first, then the least recently used. A subject that comes new while the
//! table is full of busy ones is not given a fresh count for the asking: it shares one overflow counter of its limit
//! with all others like it, and has a count of its own from its first admission on. So a flood of made-up subjects
//! frees nobody, pushes known ones out no faster than the overflow counter admits, and locks no known one out.

mod slots;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::rc::Rc;

use lru::LruCache;

use super::Key;
use crate::limit::settlement::{self, Reservation};
use crate::limit::{self, Check, Decision, Quota, State};
use crate::policy::Algorithm;

/// One limit of a request, for the isolate to decide.
#[derive(Debug, Clone)]
pub struct LocalAsk {
    /// Whose count.
    pub key: Key,
    /// What the subject may use here.
    pub quota: Quota,
    /// Units asked for.
    pub cost: u64,
    /// Counts and reports, never refuses.
    pub shadow: bool,
    /// Under which id a slot of a concurrency limit is taken.
    pub holder: Option<Rc<str>>,
    /// How many milliseconds ahead of its moment it may pass, of a limit that delays.
    pub ahead_ms: Option<u64>,
}

/// A subject's state, and from when on it says nothing.
#[derive(Debug, Clone)]
struct Entry {
    state: State,
    idle_at_ms: u64,
}

/// Entries looked at, from the least recently used on, for an idle one to drop.
const LOOKED_AT: usize = 8;

/// Most bytes of all entries together, by `size`; a log of many charges weighs more than a bucket.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What an entry weighs beside its key and its log: list links, hash slot, allocations.
const OVERHEAD: usize = 160;

/// What a holder weighs: its id, its lease, its part of the tree.
const HOLDER: usize = 128;

/// States by key.
#[derive(Debug)]
pub struct Table {
    entries: LruCache<Key, Entry>,
    overflow: HashMap<Rc<str>, State>,
    max_subjects: usize,
    bytes: usize,
}

/// Where a check's state is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Own,
    Overflow,
}

impl Table {
    /// A table for at most `max_subjects` states.
    pub fn new(max_subjects: usize) -> Self {
        Self {
            entries: LruCache::unbounded(),
            overflow: HashMap::new(),
            max_subjects: NonZeroUsize::new(max_subjects).map_or(1, NonZeroUsize::get),
            bytes: 0,
        }
    }

    /// Takes another policy's bound and the stems of its limits. Counts of limits that are gone fall idle like any.
    pub fn configure(&mut self, max_subjects: usize, stems: &[&str]) {
        self.max_subjects = max_subjects.max(1);
        self.overflow.retain(|stem, _| stems.contains(&&**stem));
    }

    /// Decides a request, all or nothing, and keeps what it charged.
    pub fn decide(&mut self, asks: &[LocalAsk], now_ms: u64) -> Decision {
        let (checks, places): (Vec<Check>, Vec<Place>) =
            asks.iter().map(|ask| self.check(ask, now_ms)).unzip();
        let decision = limit::decide(&checks, now_ms);
        for ((ask, place), write) in asks.iter().zip(places).zip(&decision.writes) {
            let Some(state) = write else { continue };
            if place == Place::Overflow {
                self.overflow.insert(ask.key.stem.clone(), state.clone());
                if ask.holder.is_some() {
                    // A slot is held in one place, or giving it back would leave the other.
                    continue;
                }
                let mut own = State::idle(&ask.quota, now_ms);
                own.charge(&ask.quota, ask.cost, now_ms);
                self.keep(&ask.key, own, &ask.quota, now_ms);
            } else {
                self.keep(&ask.key, state.clone(), &ask.quota, now_ms);
            }
        }
        decision
    }

    /// Takes in what the store said of a subject: that `remaining` units of its whole quota are left. The isolate's
    /// own count for `quota`, its share, is then at least as far used, so that it is warm when the store fails.
    pub fn feed(&mut self, key: &Key, quota: &Quota, remaining: u64, now_ms: u64) {
        let known = self.entries.get(key).map(|entry| State::settle(Some(&entry.state), quota, now_ms));
        let left = known.as_ref().map_or(quota.capacity(), |state| state.remaining(quota, now_ms));
        let missing = left.saturating_sub(remaining);
        if missing == 0 {
            return;
        }
        let mut state = known.unwrap_or_else(|| State::idle(quota, now_ms));
        state.charge(quota, missing, now_ms);
        self.keep(key, state, quota, now_ms);
    }

    /// Notes an id that is to count once, for `kept_ms` at most; whether it is new. It takes the place of a subject.
    pub fn note(&mut self, id: &str, kept_ms: u64, now_ms: u64) -> bool {
        let key = Key { stem: "".into(), subject: id.into() };
        let new = self.entries.get(&key).is_none();
        let quota = Quota { algorithm: Algorithm::FixedWindow, limit: 1, burst: 1, window_ms: kept_ms };
        self.keep(&key, State::idle(&quota, now_ms), &quota, now_ms);
        new
    }

    /// Settles what was reserved of one subject at `cost`: whole units charged (below 0: given back), and units left.
    pub fn settle(
        &mut self,
        key: &Key,
        quota: &Quota,
        reservation: &Reservation,
        cost: u64,
        now_ms: u64,
    ) -> (i64, u64) {
        let found = self.entries.get(key).map(|entry| entry.state.clone());
        let settled = settlement::settle(found.as_ref(), quota, reservation, cost, now_ms);
        let left = settled.state.remaining(quota, now_ms);
        if settled.changed {
            self.keep(key, settled.state, quota, now_ms);
        }
        (settled.units, left)
    }

    /// Forgets one subject.
    pub fn forget(&mut self, key: &Key) {
        if let Some((key, entry)) = self.entries.pop_entry(key) {
            self.bytes = self.bytes.saturating_sub(size(&key, &entry));
        }
    }

    /// How many states are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// About how many bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn check(&mut self, ask: &LocalAsk, now_ms: u64) -> (Check, Place) {
        let own = self.entries.get(&ask.key).map(|entry| entry.state.clone());
        let (state, place) = match own {
            Some(state) => (Some(state), Place::Own),
            None if self.has_room(now_ms) => (None, Place::Own),
            None => (self.overflow.get(&ask.key.stem).cloned(), Place::Overflow),
        };
        (
            Check {
                quota: ask.quota,
                cost: ask.cost,
                shadow: ask.shadow,
                state,
                holder: ask.holder.clone(),
                ahead_ms: ask.ahead_ms,
                more: 0,
            },
            place,
        )
    }

    /// Whether a new subject can be taken in without pushing a busy one out; drops an idle one for it.
    fn has_room(&mut self, now_ms: u64) -> bool {
        if self.entries.len() < self.max_subjects && self.bytes < MAX_BYTES {
            return true;
        }
        let idle = self.entries.iter().rev().take(LOOKED_AT).find(|(_, entry)| entry.idle_at_ms <= now_ms);
        match idle.map(|(key, _)| key.clone()) {
            Some(key) => {
                self.forget(&key);
                self.entries.len() < self.max_subjects && self.bytes < MAX_BYTES
            }
            None => false,
        }
    }

    fn keep(&mut self, key: &Key, state: State, quota: &Quota, now_ms: u64) {
        let idle_at_ms = now_ms.saturating_add(state.idle_ms(quota, now_ms));
        let entry = Entry { state, idle_at_ms };
        self.bytes = self.bytes.saturating_add(size(key, &entry));
        if let Some((key, old)) = self.entries.push(key.clone(), entry) {
            self.bytes = self.bytes.saturating_sub(size(&key, &old));
        }
        while self.entries.len() > self.max_subjects || (self.bytes > MAX_BYTES && self.entries.len() > 1) {
            let idle =
                self.entries.iter().rev().take(LOOKED_AT).find(|(_, entry)| entry.idle_at_ms <= now_ms);
            match idle.or_else(|| self.entries.iter().next_back()).map(|(key, _)| key.clone()) {
                Some(key) => self.forget(&key),
                None => break,
            }
        }
    }
}

/// About the bytes that an entry takes.
fn size(key: &Key, entry: &Entry) -> usize {
    let log = match &entry.state {
        State::Log(log) => log.entries.capacity().saturating_mul(size_of::<(u64, u64)>()),
        State::Holders(holders) => holders.all().count().saturating_mul(HOLDER),
        _ => 0,
    };
    key.subject.len().saturating_add(log).saturating_add(OVERHEAD)
}

#[cfg(test)]
mod tests;
