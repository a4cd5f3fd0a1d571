//! Refusals that the isolate remembers, so that a client that keeps asking before its time costs no store call.
//!
//! An entry answers only for what the store is sure to refuse: the same subject of the same limit with the same
//! quota, a cost no smaller, and no later than the moment it was told. Until then nobody's use can free anything;
//! only a reset or an override made elsewhere could, and `store.remember` bounds how long that goes unseen.

use std::num::NonZeroUsize;

use lru::LruCache;

use super::Key;
use crate::limit::{Quota, Verdict, Wait};

/// Most refusals kept.
const CAPACITY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

#[derive(Debug, Clone, Copy)]
struct Refusal {
    quota: Quota,
    cost: u64,
    verdict: Verdict,
    told_at_ms: u64,
    until_ms: u64,
}

/// The bounded memory of refusals, by the key of the subject's state.
#[derive(Debug)]
pub struct Refusals {
    remember_ms: u64,
    known: LruCache<Key, Refusal>,
}

impl Refusals {
    /// A memory that holds a refusal for at most `remember_ms`; 0 holds none.
    pub fn new(remember_ms: u64) -> Self {
        Self { remember_ms, known: LruCache::new(CAPACITY) }
    }

    /// Notes what the store refused.
    pub fn note(&mut self, key: &Key, quota: Quota, cost: u64, verdict: Verdict, now_ms: u64) {
        let for_ms = match verdict.wait {
            Wait::None => return,
            Wait::Ms(ms) => ms.min(self.remember_ms),
            Wait::Never => self.remember_ms,
        };
        if for_ms == 0 {
            return;
        }
        let until_ms = now_ms.saturating_add(for_ms);
        self.known.put(key.clone(), Refusal { quota, cost, verdict, told_at_ms: now_ms, until_ms });
    }

    /// What the store would say to this, where that is known to be a refusal.
    pub fn recall(&mut self, key: &Key, quota: Quota, cost: u64, now_ms: u64) -> Option<Verdict> {
        if self.known.is_empty() {
            return None;
        }
        let known = *self.known.get(key)?;
        if known.until_ms <= now_ms || now_ms < known.told_at_ms {
            self.known.pop(key);
            return None;
        }
        // A greater cost waits longer than this entry knows; the store is asked for its moment.
        if known.quota != quota || cost != known.cost {
            return None;
        }
        let gone = now_ms.saturating_sub(known.told_at_ms);
        let wait = match known.verdict.wait {
            Wait::Ms(ms) => Wait::Ms(ms.saturating_sub(gone).max(1)),
            other => other,
        };
        Some(Verdict { reset_ms: known.verdict.reset_ms.saturating_sub(gone), wait, ..known.verdict })
    }

    /// Forgets what is known of one subject.
    pub fn forget(&mut self, key: &Key) {
        self.known.pop(key);
    }

    /// How many refusals are held.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Algorithm;

    const QUOTA: Quota = Quota { algorithm: Algorithm::FixedWindow, limit: 5, burst: 5, window_ms: 60_000 };

    fn key(subject: &str) -> Key {
        Key { stem: "limit".into(), subject: subject.into() }
    }

    fn refused(ms: u64) -> Verdict {
        Verdict { limit: 5, remaining: 0, reset_ms: ms, wait: Wait::Ms(ms) }
    }

    #[test]
    fn answers_until_its_moment_and_not_after() {
        let mut refusals = Refusals::new(10_000);
        refusals.note(&key("k"), QUOTA, 1, refused(700), 1000);
        assert_eq!(refusals.recall(&key("k"), QUOTA, 1, 1000), Some(refused(700)));
        assert_eq!(refusals.recall(&key("k"), QUOTA, 1, 1699), Some(refused(1)));
        assert_eq!(refusals.recall(&key("k"), QUOTA, 1, 1700), None);
    }

    #[test]
    fn for_no_longer_than_it_may_remember() {
        let mut refusals = Refusals::new(10_000);
        refusals.note(&key("k"), QUOTA, 1, refused(50_000), 0);
        assert_eq!(refusals.recall(&key("k"), QUOTA, 1, 9_999), Some(refused(40_001)));
        assert_eq!(refusals.recall(&key("k"), QUOTA, 1, 10_000), None);
        let mut none = Refusals::new(0);
        none.note(&key("k"), QUOTA, 1, refused(50_000), 0);
        assert!(none.is_empty());
    }

    #[test]
    fn never_for_a_smaller_cost_or_another_quota() {
        let mut refusals = Refusals::new(10_000);
        refusals.note(&key("k"), QUOTA, 3, refused(700), 0);
        assert_eq!(refusals.recall(&key("k"), QUOTA, 2, 1), None);
        assert_eq!(refusals.recall(&key("k"), Quota { limit: 6, burst: 6, ..QUOTA }, 3, 1), None);
        assert!(refusals.recall(&key("k"), QUOTA, 3, 1).is_some());
    }

    #[test]
    fn a_clock_that_went_back_asks_the_store() {
        let mut refusals = Refusals::new(10_000);
        refusals.note(&key("k"), QUOTA, 1, refused(700), 1000);
        assert_eq!(refusals.recall(&key("k"), QUOTA, 1, 999), None);
    }

    #[test]
    fn one_subject_is_forgotten_and_no_other() {
        let mut refusals = Refusals::new(10_000);
        for subject in ["a", "b"] {
            refusals.note(&key(subject), QUOTA, 1, refused(700), 0);
        }
        refusals.forget(&key("a"));
        assert_eq!(refusals.recall(&key("a"), QUOTA, 1, 0), None);
        assert_eq!(refusals.recall(&key("b"), QUOTA, 1, 0), Some(refused(700)));
    }

    #[test]
    fn bounded() {
        let mut refusals = Refusals::new(10_000);
        for subject in 0..30_000 {
            refusals.note(&key(&subject.to_string()), QUOTA, 1, refused(700), 0);
        }
        assert_eq!(refusals.len(), 10_000);
    }
}
