//! Slots of concurrency limits that are held by this isolate: what its requests took here or in the store, so that it
//! knows what it holds when the store fails, and all there is where no store is configured.

use std::rc::Rc;

use super::{Key, Table};
use crate::limit::concurrency::{Holders, Lease, Touch};
use crate::limit::{Quota, State};

impl Table {
    /// Notes that an id holds a slot, whoever gave it, for one lease from now. Beyond any limit: it is a fact.
    pub fn hold(&mut self, key: &Key, quota: &Quota, id: &Rc<str>, now_ms: u64) {
        if !self.entries.contains(key) && !self.has_room(now_ms) {
            let state = self.overflow.entry(key.stem.clone()).or_insert_with(|| State::idle(quota, now_ms));
            take(state, quota, id, now_ms);
            return;
        }
        let known = self.entries.get(key).map(|entry| State::settle(Some(&entry.state), quota, now_ms));
        let mut state = known.unwrap_or_else(|| State::idle(quota, now_ms));
        take(&mut state, quota, id, now_ms);
        self.keep(key, state, quota, now_ms);
    }

    /// The lease of an id that holds a slot here.
    pub fn lease(&self, key: &Key, id: &str, now_ms: u64) -> Option<Lease> {
        self.found(key, id, now_ms).map(|(_, lease)| lease)
    }

    /// Who holds a slot of this subject here.
    pub fn holders(&self, key: &Key, now_ms: u64) -> Vec<(Rc<str>, Lease)> {
        let Some(State::Holders(holders)) = self.entries.peek(key).map(|entry| &entry.state) else {
            return Vec::new();
        };
        let living = holders.all().filter(|(_, lease)| lease.expires_ms > now_ms);
        living.map(|(id, lease)| (id.clone(), *lease)).collect()
    }

    /// Lets a lease run anew; `fence` is that of a slot that was given here, `None` speaks for whatever the id holds.
    pub fn renew(&mut self, key: &Key, quota: &Quota, id: &str, fence: Option<u64>, now_ms: u64) -> Touch {
        self.touch(key, quota, id, fence, now_ms, |holders, fence| {
            holders.renew(id, fence, quota.window_ms, now_ms)
        })
    }

    /// Takes a slot back.
    pub fn release(&mut self, key: &Key, quota: &Quota, id: &str, fence: Option<u64>, now_ms: u64) -> Touch {
        self.touch(key, quota, id, fence, now_ms, |holders, fence| holders.release(id, fence, now_ms))
    }

    fn touch(
        &mut self,
        key: &Key,
        quota: &Quota,
        id: &str,
        fence: Option<u64>,
        now_ms: u64,
        done: impl FnOnce(&mut Holders, u64) -> Touch,
    ) -> Touch {
        let Some((place, lease)) = self.found(key, id, now_ms) else { return Touch::Gone };
        let fence = fence.unwrap_or(lease.fence);
        if place == super::Place::Overflow {
            return match self.overflow.get_mut(&key.stem) {
                Some(State::Holders(holders)) => done(holders, fence),
                _ => Touch::Gone,
            };
        }
        let Some(State::Holders(mut holders)) = self.entries.peek(key).map(|entry| entry.state.clone())
        else {
            return Touch::Gone;
        };
        let touch = done(&mut holders, fence);
        if matches!(touch, Touch::Done(_)) {
            self.keep(key, State::Holders(holders), quota, now_ms);
        }
        touch
    }

    fn found(&self, key: &Key, id: &str, now_ms: u64) -> Option<(super::Place, Lease)> {
        let own = self.entries.peek(key).map(|entry| (super::Place::Own, &entry.state));
        let shared = self.overflow.get(&key.stem).map(|state| (super::Place::Overflow, state));
        own.into_iter().chain(shared).find_map(|(place, state)| match state {
            State::Holders(holders) => holders.lease(id, now_ms).map(|lease| (place, lease)),
            _ => None,
        })
    }
}

fn take(state: &mut State, quota: &Quota, id: &Rc<str>, now_ms: u64) {
    if let State::Holders(holders) = state {
        holders.take(id, quota.window_ms, now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::super::LocalAsk;
    use super::*;
    use crate::policy::Algorithm;

    const NOW: u64 = 1_785_432_000_000;
    const LEASE: u64 = 30_000;

    fn quota(limit: u64) -> Quota {
        Quota { algorithm: Algorithm::Concurrency, limit, burst: limit, window_ms: LEASE }
    }

    fn key(subject: &str) -> Key {
        Key { stem: "sg:1:slots:c:".into(), subject: subject.into() }
    }

    fn asks(table: &mut Table, subject: &str, id: &str, limit: u64, now: u64) -> bool {
        let holder = Some(id.into());
        let ask = LocalAsk {
            key: key(subject),
            quota: quota(limit),
            cost: 1,
            shadow: false,
            holder,
            ahead_ms: None,
        };
        table.decide(&[ask], now).allowed
    }

    #[test]
    fn what_is_held_counts_until_it_is_given_back_or_its_lease_ends() {
        let mut table = Table::new(10);
        assert!(asks(&mut table, "a", "1", 2, NOW) && asks(&mut table, "a", "2", 2, NOW));
        assert!(!asks(&mut table, "a", "3", 2, NOW));
        assert!(matches!(table.release(&key("a"), &quota(2), "1", None, NOW), Touch::Done(_)));
        assert_eq!(table.release(&key("a"), &quota(2), "1", None, NOW), Touch::Gone);
        assert!(asks(&mut table, "a", "3", 2, NOW + 1));
        assert!(matches!(table.renew(&key("a"), &quota(2), "3", None, NOW + LEASE - 1), Touch::Done(_)));
        assert_eq!(table.holders(&key("a"), NOW + LEASE).len(), 1);
        assert!(asks(&mut table, "a", "4", 2, NOW + LEASE));
        assert!(!asks(&mut table, "a", "5", 2, NOW + LEASE));
    }

    #[test]
    fn what_was_taken_elsewhere_counts_here() {
        let mut table = Table::new(10);
        (0..5).for_each(|id| table.hold(&key("a"), &quota(1), &id.to_string().into(), NOW));
        for id in 0..5 {
            assert!(!asks(&mut table, "a", "x", 1, NOW));
            table.release(&key("a"), &quota(1), &id.to_string(), None, NOW);
        }
        assert!(asks(&mut table, "a", "x", 1, NOW));
    }

    #[test]
    fn who_is_known_holds_in_its_own_place_also_in_a_full_table() {
        let mut table = Table::new(1);
        table.hold(&key("a"), &quota(5), &"1".into(), NOW);
        let before = table.bytes();
        table.hold(&key("a"), &quota(5), &"2".into(), NOW + 1);
        let ids = |now| table.holders(&key("a"), now).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids(NOW + 1), ["1".into(), "2".into()]);
        assert_eq!(ids(NOW + LEASE), ["2".into()]);
        assert!(table.bytes() > before, "each holder weighs something");
    }

    #[test]
    fn a_wrong_fence_changes_nothing() {
        let mut table = Table::new(10);
        table.hold(&key("a"), &quota(1), &"1".into(), NOW);
        let fence = table.lease(&key("a"), "1", NOW).unwrap().fence;
        assert_eq!(table.release(&key("a"), &quota(1), "1", Some(fence + 1), NOW), Touch::OtherFence);
        assert_eq!(table.renew(&key("a"), &quota(1), "1", Some(fence - 1), NOW), Touch::OtherFence);
        assert!(matches!(table.release(&key("a"), &quota(1), "1", Some(fence), NOW), Touch::Done(_)));
    }

    #[test]
    fn a_full_table_shares_one_limit_among_strangers_and_takes_back_what_it_gave() {
        let mut table = Table::new(2);
        assert!(asks(&mut table, "a", "1", 3, NOW) && asks(&mut table, "b", "2", 3, NOW));
        let strangers =
            (0..10).filter(|n| asks(&mut table, &format!("s{n}"), &format!("i{n}"), 3, NOW)).count();
        assert_eq!((strangers, table.len()), (3, 2));
        assert!(matches!(table.release(&key("s0"), &quota(3), "i0", None, NOW), Touch::Done(_)));
        assert!(asks(&mut table, "s9", "i9", 3, NOW));
        assert!(!asks(&mut table, "s8", "i8", 3, NOW));
    }
}
