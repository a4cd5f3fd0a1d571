//! Calls to the store about one slot each, beside decisions: for requests that hold one, and for the slots API.
//!
//! Each may be made once more after any failure that may be repeated at all: taking is idempotent by the id, and
//! renewing and freeing by the fence.

use super::answer::{Call, Step};
use super::attempt::{Attempt, Heard, Reply};
use super::slot::{Ids, Slot};
use super::slots_api::ApiCall;
use super::{Gateway, holding, problem};
use crate::limit::concurrency::Touch;
use crate::limit::{Quota, Wait};
use crate::local::table::LocalAsk;
use crate::policy::order;
use crate::store::slots::{self, Done, Holding, Listed, Operation, Refused, Said};
use crate::store::{Inflight, key, script};

/// What the gateway keeps for slots, beside what the entry carries.
#[derive(Debug)]
pub(super) struct SlotCalls {
    pub(super) ids: Ids,
    pub(super) under_way: Inflight<Errand>,
    /// Whether the log has said that leases are lost, since one was last renewed.
    pub(super) losing: bool,
}

impl SlotCalls {
    pub(super) fn new(seed: &str) -> Self {
        Self { ids: Ids::new(seed), under_way: Inflight::default(), losing: false }
    }
}

/// Who wants to know.
#[derive(Debug)]
pub(super) enum Caller {
    /// A request that holds the slot; nobody waits for the answer.
    Request,
    /// A caller of the slots API.
    Api(ApiCall),
}

/// A call about a slot that waits for the store.
#[derive(Debug)]
pub(super) struct Errand {
    slot: Slot,
    operation: Operation,
    caller: Caller,
    attempt: Attempt,
}

impl Gateway {
    /// Asks the store; where none is configured, the isolate's own table.
    pub(super) fn ask_about(
        &mut self,
        slot: Slot,
        operation: Operation,
        caller: Caller,
        now_ms: u64,
    ) -> Step {
        let Some(form) = self.form else {
            let said = self.here(&slot, operation, now_ms);
            return self.told_about(&slot, operation, caller, said, now_ms);
        };
        match self.let_out(form, now_ms) {
            Some(attempt) => self.send_about(Errand { slot, operation, caller, attempt }, now_ms, 0),
            None => self.untold(&slot, caller, now_ms),
        }
    }

    /// Reads the store's reply to a call about a slot. `random` is in [0, 1).
    pub fn conclude_slot(&mut self, ticket: u32, reply: Reply<'_>, now_ms: u64, random: f64) -> Step {
        let Some(errand) = self.slot_calls.under_way.take(ticket) else {
            return Step::Answer(problem::interrupted());
        };
        self.under(errand.attempt.rules.clone(), |gateway| gateway.read_slot(errand, reply, now_ms, random))
    }

    fn read_slot(&mut self, errand: Errand, reply: Reply<'_>, now_ms: u64, random: f64) -> Step {
        let Errand { slot, operation, caller, attempt } = errand;
        let read = |status, body: &str| slots::read(status, body, operation);
        // Taking counts once by the id, renewing and freeing by the fence.
        match self.hear(attempt, reply, read, true, now_ms, random) {
            Heard::Said(said) => self.told_about(&slot, operation, caller, said, now_ms),
            Heard::Again(attempt, delay_ms) => {
                self.send_about(Errand { slot, operation, caller, attempt }, now_ms, delay_ms)
            }
            Heard::Nothing => self.untold(&slot, caller, now_ms),
        }
    }

    fn send_about(&mut self, errand: Errand, now_ms: u64, delay_ms: u64) -> Step {
        let timeout_ms = self.timeout_ms(&errand.attempt, now_ms, delay_ms);
        let store = &self.rules.policy.store;
        let (name, stems, quota) = match self.rules.limits.get(errand.slot.limit) {
            Some(prepared) => (prepared.limit.name.as_str(), prepared.stems(), holding::quota(prepared)),
            None => return self.untold(&errand.slot, errand.caller, now_ms),
        };
        let queue = key::queue_stem(&store.prefix, store.cluster, name);
        let call = slots::Call {
            form: errand.attempt.form,
            by: errand.attempt.by,
            stems: slots::SlotStems { holders: stems.state, overrides: stems.overrides, queue: &queue },
            subject: &errand.slot.subject,
            quota,
            id: &errand.slot.id,
            operation: errand.operation,
        };
        let body = slots::body(&script::SLOTS, &call);
        let deadline_ms = errand.attempt.deadline_ms;
        let ticket = self.slot_calls.under_way.add(errand, now_ms, deadline_ms);
        Step::Slot(Call { ticket, timeout_ms, delay_ms, body })
    }

    fn told_about(
        &mut self,
        slot: &Slot,
        operation: Operation,
        caller: Caller,
        said: Said,
        now_ms: u64,
    ) -> Step {
        match caller {
            Caller::Request => self.heard(slot, operation, &said),
            Caller::Api(call) => self.answer_about(slot, call, said, now_ms),
        }
    }

    /// The store cannot be asked. A renewal is due again soon, a free is left to the lease, and the API invents nothing.
    fn untold(&mut self, slot: &Slot, caller: Caller, now_ms: u64) -> Step {
        match caller {
            Caller::Request => Step::Done("kept"),
            Caller::Api(call) => self.unavailable(slot, call, now_ms),
        }
    }

    /// What the store would say, from the isolate's own table. Nobody queues there.
    fn here(&mut self, slot: &Slot, operation: Operation, now_ms: u64) -> Said {
        let Some(quota) = self.rules.limits.get(slot.limit).map(holding::quota) else { return Said::NotHeld };
        let key = holding::key(&self.rules.limits, slot);
        match operation {
            Operation::Take(_) => {
                let holder = Some(slot.id.clone());
                let ask =
                    LocalAsk { key: key.clone(), quota, cost: 1, shadow: false, holder, ahead_ms: None };
                let verdict = self.local.decide(&[ask], now_ms).verdicts.pop();
                match self.local.lease(&key, &slot.id, now_ms) {
                    Some(lease) => self.done_here(slot, quota, lease.fence, lease.expires_ms, now_ms),
                    None => {
                        let wait = verdict.map_or(Wait::Ms(quota.window_ms), |verdict| verdict.wait);
                        Said::Refused(Refused { wait, ahead: 0, clock_ms: now_ms, limit: quota.limit })
                    }
                }
            }
            Operation::Renew(fence) => {
                let touch = self.local.renew(&key, &quota, &slot.id, Some(fence), now_ms);
                self.touched(slot, quota, touch, now_ms)
            }
            Operation::Free(fence) => {
                let touch = self.local.release(&key, &quota, &slot.id, Some(fence), now_ms);
                self.touched(slot, quota, touch, now_ms)
            }
            Operation::Leave => Said::NotHeld,
            Operation::List => {
                let holders = self.local.holders(&key, now_ms).into_iter().map(|(id, lease)| Holding {
                    id: id.as_ref().to_owned(),
                    fence: lease.fence,
                    expires_ms: lease.expires_ms,
                });
                let mut holders: Vec<Holding> = holders.collect();
                order::sort(&mut holders, |a, b| (a.expires_ms, a.fence) <= (b.expires_ms, b.fence));
                let free = quota.limit.saturating_sub(holders.len() as u64);
                Said::Listed(Listed {
                    clock_ms: now_ms,
                    limit: quota.limit,
                    free,
                    holders,
                    waiters: Vec::new(),
                })
            }
        }
    }

    fn touched(&self, slot: &Slot, quota: Quota, touch: Touch, now_ms: u64) -> Said {
        match touch {
            Touch::Done(lease) => self.done_here(slot, quota, lease.fence, lease.expires_ms, now_ms),
            Touch::Gone => Said::NotHeld,
            Touch::OtherFence => Said::OtherFence,
        }
    }

    fn done_here(&self, slot: &Slot, quota: Quota, fence: u64, expires_ms: u64, now_ms: u64) -> Said {
        let holding = self.local.holders(&holding::key(&self.rules.limits, slot), now_ms).len() as u64;
        let free = quota.limit.saturating_sub(holding);
        Said::Done(Done { fence, expires_ms, clock_ms: now_ms, limit: quota.limit, free })
    }
}
