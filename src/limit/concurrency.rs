//! Concurrency limit: no more than `limit` holders at a time, each until its lease ends.
//!
//! A holder is known by its id. It gets a fence when it takes its slot, an integer that only rises for a subject:
//! what the holder works on can refuse a lower fence than it has seen. Taking again under an id that holds renews the
//! lease and keeps the fence, so that a repeat after a lost reply counts once; a lease that has ended is never
//! revived. The scripts keep the same in a sorted set; see `lua/slots.lua`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{CLOCK_SLACK_MS, Wait};

/// Fences are at least this many times the clock's milliseconds, so that one taken after everything was forgotten
/// is higher than all before it, unless a subject took more slots than this in every millisecond.
const FENCES_PER_MS: u64 = 1024;

/// One slot that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Which taking it was; below 2^53.
    pub fence: u64,
    /// When it ends, in milliseconds since the Unix epoch; from that moment on it is nobody's.
    pub expires_ms: u64,
}

/// What becomes of a renewal or of giving a slot back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// It was done.
    Done(Lease),
    /// Nobody holds a slot under this id: it was given back, or its lease has ended.
    Gone,
    /// The slot was taken again since, under another fence.
    OtherFence,
}

/// The holders of one subject.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holders {
    leases: BTreeMap<Rc<str>, Lease>,
    last_fence: u64,
}

impl Holders {
    /// All of them, expired ones that have not been dropped yet included.
    pub fn all(&self) -> impl Iterator<Item = (&Rc<str>, &Lease)> {
        self.leases.iter()
    }

    /// The highest fence that was given; 0 where none was.
    pub fn last_fence(&self) -> u64 {
        self.last_fence
    }

    /// The lease held under an id.
    pub fn lease(&self, id: &str, clock_ms: u64) -> Option<Lease> {
        self.leases.get(id).copied().filter(|lease| lease.expires_ms > clock_ms)
    }

    /// How many hold.
    pub fn count(&self, clock_ms: u64) -> u64 {
        self.living(clock_ms).count() as u64
    }

    /// Slots left of `limit`.
    pub fn free(&self, limit: u64, clock_ms: u64) -> u64 {
        limit.saturating_sub(self.count(clock_ms))
    }

    /// Milliseconds until the first lease ends; 0 where nobody holds.
    pub fn reset_ms(&self, clock_ms: u64) -> u64 {
        let first = self.living(clock_ms).map(|lease| lease.expires_ms).min();
        first.unwrap_or(0).saturating_sub(clock_ms)
    }

    /// Milliseconds until the last lease ends; 0 where nobody holds.
    pub fn idle_ms(&self, clock_ms: u64) -> u64 {
        let last = self.living(clock_ms).map(|lease| lease.expires_ms).max();
        last.unwrap_or(0).saturating_sub(clock_ms)
    }

    /// When a slot can be had: now, or when the first lease ends; it may be given back before.
    pub fn wait(&self, id: Option<&str>, limit: u64, clock_ms: u64) -> Wait {
        let holds = id.is_some_and(|id| self.lease(id, clock_ms).is_some());
        if holds || self.count(clock_ms) < limit {
            return Wait::None;
        }
        match self.reset_ms(clock_ms) {
            0 => Wait::Never,
            ms => Wait::Ms(ms),
        }
    }

    /// Takes a slot, or renews it where the id holds one, without a look at any limit. Who takes one drops those whose
    /// lease has ended.
    pub fn take(&mut self, id: &Rc<str>, lease_ms: u64, clock_ms: u64) -> Lease {
        let expires_ms = clock_ms.saturating_add(lease_ms);
        let fence = match self.lease(id, clock_ms) {
            Some(lease) => lease.fence,
            None => {
                self.leases.retain(|_, lease| lease.expires_ms > clock_ms);
                let next = self.last_fence.saturating_add(1);
                self.last_fence = next.max(clock_ms.saturating_mul(FENCES_PER_MS));
                self.last_fence
            }
        };
        let lease = Lease { fence, expires_ms };
        self.leases.insert(id.clone(), lease);
        lease
    }

    /// Lets a lease that is held under this fence run anew.
    pub fn renew(&mut self, id: &str, fence: u64, lease_ms: u64, clock_ms: u64) -> Touch {
        match self.held(id, fence, clock_ms) {
            Touch::Done(lease) => {
                let renewed = Lease { expires_ms: clock_ms.saturating_add(lease_ms), ..lease };
                if let Some(lease) = self.leases.get_mut(id) {
                    *lease = renewed;
                }
                Touch::Done(renewed)
            }
            other => other,
        }
    }

    /// Gives a slot back that is held under this fence. The lease that it answers ends now.
    pub fn release(&mut self, id: &str, fence: u64, clock_ms: u64) -> Touch {
        match self.held(id, fence, clock_ms) {
            Touch::Done(lease) => {
                self.leases.remove(id);
                Touch::Done(Lease { expires_ms: clock_ms, ..lease })
            }
            other => other,
        }
    }

    /// Takes back what a clock gone wrong has written: a lease that ends more than [`CLOCK_SLACK_MS`] after a fresh
    /// one would is cut to a fresh one. Answers whether there was one.
    pub fn mend(&mut self, lease_ms: u64, clock_ms: u64) -> bool {
        let fresh_ms = clock_ms.saturating_add(lease_ms);
        let far = |lease: &&mut Lease| lease.expires_ms > fresh_ms.saturating_add(CLOCK_SLACK_MS);
        let mut mended = false;
        for lease in self.leases.values_mut().filter(far) {
            lease.expires_ms = fresh_ms;
            mended = true;
        }
        mended
    }

    fn held(&self, id: &str, fence: u64, clock_ms: u64) -> Touch {
        match self.lease(id, clock_ms) {
            None => Touch::Gone,
            Some(lease) if lease.fence != fence => Touch::OtherFence,
            Some(lease) => Touch::Done(lease),
        }
    }

    fn living(&self, clock_ms: u64) -> impl Iterator<Item = &Lease> {
        self.leases.values().filter(move |lease| lease.expires_ms > clock_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Check, Quota, State, decide};
    use crate::policy::Algorithm;

    const NOW: u64 = 1_785_432_000_000;
    const LEASE: u64 = 30_000;

    fn id(text: &str) -> Rc<str> {
        text.into()
    }

    fn held(ids: &[&str]) -> Holders {
        let mut holders = Holders::default();
        for name in ids {
            holders.take(&id(name), LEASE, NOW);
        }
        holders
    }

    #[test]
    fn as_many_as_there_are_slots() {
        let holders = held(&["a", "b"]);
        assert_eq!((holders.count(NOW), holders.free(3, NOW), holders.free(1, NOW)), (2, 1, 0));
        assert_eq!(holders.wait(Some("c"), 3, NOW), Wait::None);
        assert_eq!(holders.wait(Some("c"), 2, NOW + 1), Wait::Ms(LEASE - 1));
        assert_eq!(holders.wait(None, 2, NOW), Wait::Ms(LEASE));
        // Who holds is not refused by a limit that has since become lower.
        assert_eq!(holders.wait(Some("b"), 1, NOW), Wait::None);
        assert_eq!(Holders::default().wait(None, 0, NOW), Wait::Never);
    }

    /// FIELD-REPORTS B52: a slot whose holder vanished must be free after its lease.
    #[test]
    fn a_lease_ends_in_its_last_millisecond() {
        let holders = held(&["a"]);
        let end = NOW + LEASE;
        assert_eq!((holders.count(end - 1), holders.reset_ms(end - 1)), (1, 1));
        assert_eq!((holders.count(end), holders.reset_ms(end), holders.idle_ms(end)), (0, 0, 0));
        // The last one's lease keeps the key, however early the first one's ends.
        let mut two = holders;
        two.take(&id("b"), LEASE, NOW + 5);
        let quota = Quota { algorithm: Algorithm::Concurrency, limit: 2, burst: 2, window_ms: LEASE };
        let state = State::Holders(two);
        assert_eq!((state.reset_ms(&quota, NOW + 5), state.idle_ms(&quota, NOW + 5)), (LEASE - 5, LEASE));
    }

    /// FIELD-REPORTS B52: given back twice, counted never below nothing.
    #[test]
    fn who_does_not_hold_changes_nothing() {
        let mut holders = held(&["a", "b"]);
        let fence = holders.lease("a", NOW).unwrap().fence;
        let before = holders.clone();
        assert_eq!(holders.release("a", fence + 1, NOW), Touch::OtherFence);
        assert_eq!(holders.renew("a", fence - 1, LEASE, NOW), Touch::OtherFence);
        assert_eq!(holders.release("c", fence, NOW), Touch::Gone);
        assert_eq!(holders.renew("a", fence, LEASE, NOW + LEASE), Touch::Gone);
        assert_eq!(holders.release("a", fence, NOW + LEASE), Touch::Gone);
        assert_eq!(holders, before);
        assert_eq!(holders.release("a", fence, NOW), Touch::Done(Lease { fence, expires_ms: NOW }));
        let freed = holders.clone();
        assert_eq!(holders.release("a", fence, NOW), Touch::Gone);
        assert_eq!((&holders, holders.count(NOW)), (&freed, 1));
    }

    #[test]
    fn a_repeat_keeps_its_fence_and_what_has_ended_does_not() {
        let mut holders = held(&["a", "b"]);
        let first = holders.lease("a", NOW).unwrap();
        let again = holders.take(&id("a"), LEASE, NOW + 5);
        assert_eq!(again, Lease { fence: first.fence, expires_ms: NOW + 5 + LEASE });
        assert_eq!(holders.count(NOW + 5), 2);
        let anew = holders.take(&id("a"), LEASE, NOW + 5 + LEASE);
        assert!(anew.fence > again.fence);
        assert_eq!(holders.all().count(), 1, "who has expired is dropped");
    }

    #[test]
    fn the_isolate_decides_over_both_kinds_all_or_nothing() {
        let quota = |algorithm, limit| Quota { algorithm, limit, burst: limit, window_ms: LEASE };
        let request = |holders: &Holders, holder: &str, used| {
            let mut count = State::idle(&quota(Algorithm::FixedWindow, 2), NOW);
            count.charge(&quota(Algorithm::FixedWindow, 2), used, NOW);
            let check = |algorithm, limit, state, holder: Option<&str>| Check {
                quota: quota(algorithm, limit),
                cost: 1,
                shadow: false,
                state: Some(state),
                holder: holder.map(Rc::from),
                ahead_ms: None,
                more: 0,
            };
            let slots = check(Algorithm::Concurrency, 2, State::Holders(holders.clone()), Some(holder));
            decide(&[slots, check(Algorithm::FixedWindow, 2, count, None)], NOW)
        };
        let full = held(&["a", "b"]);
        let decision = request(&full, "c", 0);
        assert!(!decision.allowed && decision.writes == [None, None]);
        let used_up = request(&held(&["a"]), "c", 2);
        assert!(!used_up.allowed && used_up.writes == [None, None]);
        assert_eq!((used_up.verdicts[0].remaining, used_up.verdicts[0].wait), (1, Wait::None));
        let decision = request(&held(&["a"]), "c", 1);
        assert!(decision.allowed && decision.writes.iter().all(Option::is_some));
        assert_eq!((decision.verdicts[0].remaining, decision.verdicts[1].remaining), (0, 0));
        // Who holds already passes, and counts once.
        assert_eq!(request(&full, "b", 0).verdicts[0].remaining, 0);
        assert!(request(&full, "b", 0).allowed);
    }

    #[test]
    fn a_look_is_refused_where_a_request_would_be_and_takes_nothing() {
        let quota = Quota { algorithm: Algorithm::Concurrency, limit: 1, burst: 1, window_ms: LEASE };
        let look = |holder: Option<&str>, state: Holders| {
            let state = Some(State::Holders(state));
            let holder = holder.map(id);
            let check = Check { quota, cost: 0, shadow: false, state, holder, ahead_ms: None, more: 0 };
            let decision = decide(&[check], NOW + 1);
            assert_eq!(decision.writes, [None]);
            (decision.verdicts[0].remaining, decision.verdicts[0].wait)
        };
        for stranger in [None, Some("b")] {
            assert_eq!(look(stranger, held(&["a"])), (0, Wait::Ms(LEASE - 1)));
            assert_eq!(look(stranger, held(&[])), (1, Wait::None));
        }
        assert_eq!(look(Some("a"), held(&["a"])), (0, Wait::None));
    }

    #[test]
    fn fences_rise_after_everything_was_forgotten() {
        let mut highest = 0;
        for ms in 0..10 {
            // 1024 in a millisecond are as many as the clock alone tells apart.
            let mut holders = Holders::default();
            for count in 0..FENCES_PER_MS {
                let fence = holders.take(&id(&count.to_string()), LEASE, NOW + ms).fence;
                assert!(fence > highest && fence < 1 << 53);
                highest = fence;
            }
        }
    }

    #[test]
    fn a_lease_too_far_ahead_is_cut_to_a_fresh_one() {
        let mut holders = held(&["a"]);
        holders.take(&id("b"), LEASE + CLOCK_SLACK_MS, NOW);
        assert!(!holders.mend(LEASE, NOW));
        assert!(holders.mend(LEASE, NOW - 1));
        assert_eq!(holders.lease("b", NOW).unwrap().expires_ms, NOW - 1 + LEASE);
        assert_eq!(holders.lease("a", NOW).unwrap().expires_ms, NOW + LEASE);
        assert!(!holders.mend(LEASE, NOW - 1));
    }
}
