//! Slots that a forwarded request holds: taken with its decision, renewed while it runs, freed when it is over.

use std::rc::Rc;

use super::answer::Step;
use super::outcome::{Outcome, Tier};
use super::prepared::{Allowance, Prepared};
use super::slot::Slot;
use super::slot_calls::Caller;
use super::{Gateway, log, settle};
use crate::limit::Quota;
use crate::limit::concurrency::Touch;
use crate::local::Key;
use crate::policy::{OnStoreError, bounds};
use crate::store::slots::{Operation, Said};
use crate::store::{Ask, call};

impl Gateway {
    /// Draws the id under which a request takes its slots, where a concurrency limit is among its limits.
    pub(super) fn holder(&mut self, asks: &mut [Ask], now_ms: u64, random: f64) -> Option<Rc<str>> {
        if !asks.iter().any(settle::is_concurrency) {
            return None;
        }
        let id = self.slot_calls.ids.draw(now_ms, random);
        for ask in asks.iter_mut().filter(|ask| settle::is_concurrency(ask)) {
            ask.arguments = call::slot_arguments(&ask.quota, ask.shadow, &id).into();
        }
        Some(id)
    }

    /// What the entry is to carry for the slots that a request has taken, see [`super::Forward::held`].
    pub(super) fn held(&mut self, outcome: &Outcome, id: &Rc<str>, now_ms: u64) -> String {
        let mut fences = outcome.fences.iter().copied();
        let mut taken = Vec::new();
        let mut renewal_ms = u64::MAX;
        for line in &outcome.lines {
            let Some(prepared) =
                self.rules.limits.get(line.limit).filter(|prepared| prepared.is_concurrency())
            else {
                continue;
            };
            let fence = fences.next().unwrap_or(0);
            let by_store = outcome.tier == Tier::Store;
            if line.cost == 0 || !line.verdict.allowed() || (by_store && fence == 0) {
                continue;
            }
            let slot = Slot { limit: line.limit, subject: line.subject.clone(), id: id.clone(), fence };
            if by_store && prepared.limit.on_store_error == OnStoreError::Degraded {
                // So that this isolate knows what it holds, should the store fail.
                self.local.hold(&key(&self.rules.limits, &slot), &quota(prepared), id, now_ms);
            }
            renewal_ms = renewal_ms.min(bounds::renewal_ms(line.window_ms));
            taken.push(slot);
        }
        taken.iter().fold(String::new(), |mut text, slot| {
            if text.is_empty() {
                text = renewal_ms.to_string();
            }
            text.push(' ');
            text.push_str(&self.slot_note(slot));
            text
        })
    }

    /// Renews a slot whose request still runs. `random` is in [0, 1).
    pub fn renew(&mut self, note: &str, now_ms: u64) -> Step {
        // A policy that is not known here may be again: the store knows who holds.
        let Some((slot, quota)) = self.noted(note) else { return Step::Done("kept") };
        let here = self.local.renew(&key(&self.rules.limits, &slot), &quota, &slot.id, None, now_ms);
        if slot.fence == 0 {
            return if matches!(here, Touch::Done(_)) { Step::Done("kept") } else { self.lost(&slot) };
        }
        let operation = Operation::Renew(slot.fence);
        self.ask_about(slot, operation, Caller::Request, now_ms)
    }

    /// Frees a slot whose request is over.
    pub fn release(&mut self, note: &str, now_ms: u64) -> Step {
        let Some((slot, quota)) = self.noted(note) else { return Step::Done("freed") };
        self.local.release(&key(&self.rules.limits, &slot), &quota, &slot.id, None, now_ms);
        if slot.fence == 0 {
            return Step::Done("freed");
        }
        let operation = Operation::Free(slot.fence);
        self.ask_about(slot, operation, Caller::Request, now_ms)
    }

    /// What the store said of a slot whose request runs, or has just ended.
    pub(super) fn heard(&mut self, slot: &Slot, operation: Operation, said: &Said) -> Step {
        match (operation, said) {
            (Operation::Renew(_), Said::Done(_)) => {
                self.slot_calls.losing = false;
                Step::Done("kept")
            }
            (Operation::Renew(_), _) => self.lost(slot),
            _ => Step::Done("freed"),
        }
    }

    /// A lease ended before its request did: the store was flushed, or could not be asked for too long. The request
    /// goes on without a slot, since an ended lease is never revived.
    fn lost(&mut self, slot: &Slot) -> Step {
        self.counters.lost_leases = self.counters.lost_leases.saturating_add(1);
        if !self.slot_calls.losing {
            self.slot_calls.losing = true;
            let name = self.rules.limits.get(slot.limit).map_or("", |prepared| prepared.limit.name.as_str());
            self.log.push(log::lease_lost(name));
        }
        Step::Done("lost")
    }

    fn noted(&self, note: &str) -> Option<(Slot, Quota)> {
        let slot = self.slot_of(note)?;
        let prepared = self.rules.limits.get(slot.limit).filter(|prepared| prepared.is_concurrency())?;
        Some((slot, quota(prepared)))
    }
}

/// Whose slots these are, in the isolate's own table.
pub(super) fn key(limits: &[Prepared], slot: &Slot) -> Key {
    let stem = limits.get(slot.limit).map(|prepared| prepared.state_stem.clone());
    Key { stem: stem.unwrap_or_default(), subject: slot.subject.clone() }
}

/// What a subject without a plan has of a concurrency limit. Where that is no number, a slot was taken under a plan,
/// and only the lease matters.
pub(super) fn quota(prepared: &Prepared) -> Quota {
    match &prepared.quota {
        Allowance::Limited(quota, _) => *quota,
        _ => {
            let policy = &prepared.limit;
            Quota { algorithm: policy.algorithm, limit: 1, burst: 1, window_ms: policy.window_ms }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bindings, Reply};
    use super::*;

    const NOW: u64 = 1_785_432_000_000;
    const NOTE: &str = "a,192.0.2.1,holder,77";

    fn gateway() -> Gateway {
        let policy = r#"{"version":1,"gateway":{"origin":"http://o.invalid"},"limits":[{"name":"a","limit":2,
            "algorithm":"concurrency","lease":"30s","key":["ip"],"on_store_error":"closed"}]}"#;
        let store_url = Some("http://store.invalid".to_owned());
        let bindings = Bindings { store_url, has_token: true, ..Bindings::default() };
        Gateway::new(policy, &bindings).unwrap()
    }

    fn renewed(gateway: &mut Gateway, reply: Reply<'_>) -> Step {
        let Step::Slot(call) = gateway.renew(NOTE, NOW) else { panic!("no call") };
        gateway.conclude_slot(call.ticket, reply, NOW, 0.0)
    }

    fn whole(body: &str) -> Reply<'_> {
        Reply::Whole { status: 200, body, retry_after_s: 0 }
    }

    #[test]
    fn a_note_comes_back_as_it_was() {
        let gateway = gateway();
        assert_eq!(gateway.slot_note(&gateway.slot_of(NOTE).unwrap()), NOTE);
        for wrong in ["", "b,192.0.2.1,holder,77", "a,192.0.2.1,holder", "a,192.0.2.1,holder,x"] {
            assert_eq!(gateway.slot_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lost_leases_are_counted_and_said_once() {
        let mut gateway = gateway();
        for _ in 0..3 {
            assert_eq!(renewed(&mut gateway, whole(r#"{"result":[2]}"#)), Step::Done("lost"));
        }
        assert_eq!((gateway.take_log().len(), gateway.counters().lost_leases), (1, 3));
        let kept = whole(r#"{"result":[1,77,1785432030000,1785432000000,2,1]}"#);
        assert_eq!(renewed(&mut gateway, kept), Step::Done("kept"));
        assert_eq!(renewed(&mut gateway, whole(r#"{"result":[3]}"#)), Step::Done("lost"));
        assert_eq!((gateway.take_log().len(), gateway.counters().lost_leases), (1, 4));
    }

    #[test]
    fn a_request_out_of_calls_says_nothing_of_the_store() {
        let mut gateway = gateway();
        for _ in 0..20 {
            assert_eq!(renewed(&mut gateway, Reply::None("subrequests")), Step::Done("kept"));
        }
        assert!(!gateway.has_log());
        assert_eq!(gateway.counters().failures, [0; 10]);
        let failed = renewed(&mut gateway, Reply::None("connection"));
        assert!(failed == Step::Done("kept") || matches!(failed, Step::Slot(_)));
        assert_eq!(gateway.take_log().len(), 1);
    }

    #[test]
    fn a_limit_that_is_gone_is_asked_about_no_more_and_may_come_back() {
        let mut gateway = gateway();
        assert_eq!(gateway.renew("b,-,holder,77", NOW), Step::Done("kept"));
        assert_eq!(gateway.release("b,-,holder,77", NOW), Step::Done("freed"));
    }
}
