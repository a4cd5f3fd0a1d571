//! Calls to the store about one slot each, beside decisions: for requests that hold one, and for the slots API.
//!
//! They pass the same bulkhead and breaker as decisions do, under the same deadline. Each may be made once more after
//! any failure that may be repeated at all: taking is idempotent by the id, and renewing and freeing by the fence.

use std::rc::Rc;

use super::answer::{Call, Step};
use super::asking::Reply;
use super::rules::Rules;
use super::slot::{Ids, Slot};
use super::slots_api::ApiCall;
use super::{Gateway, holding, log, problem};
use crate::limit::concurrency::Touch;
use crate::limit::{Quota, Wait};
use crate::local::table::LocalAsk;
use crate::store::breaker::{Ending, Permit};
use crate::store::error::Retry;
use crate::store::slots::{self, Done, Holding, Listed, Operation, Refused, Said};
use crate::store::{Class, Form, Inflight, ScriptCall, StoreError, key, script};

/// Why there is no reply to a request that has made all the calls that the platform lets it make.
const SPENT: &str = "subrequests";

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
    /// It is read under the rules that it was asked under.
    rules: Rc<Rules>,
    slot: Slot,
    operation: Operation,
    caller: Caller,
    form: Form,
    by: ScriptCall,
    asked_ms: u64,
    deadline_ms: u64,
    permit: Permit,
    retried: bool,
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
        let under_way = self.slot_calls.under_way.under_way(now_ms);
        if under_way.saturating_add(self.inflight.under_way(now_ms)) >= self.rules.policy.store.max_in_flight
        {
            self.counters.bulkhead = self.counters.bulkhead.saturating_add(1);
            return self.untold(&slot, caller, now_ms);
        }
        let deadline_ms = now_ms.saturating_add(self.rules.policy.store.timeout_ms);
        let Ok(permit) = self.breaker.permit(now_ms, deadline_ms) else {
            self.counters.breaker = self.counters.breaker.saturating_add(1);
            return self.untold(&slot, caller, now_ms);
        };
        self.retries.earn();
        let by = ScriptCall::BySha;
        let asked_ms = now_ms;
        let rules = self.rules.clone();
        let retried = false;
        let errand =
            Errand { rules, slot, operation, caller, form, by, asked_ms, deadline_ms, permit, retried };
        self.send_about(errand, now_ms, 0)
    }

    /// Reads the store's reply to a call about a slot. `random` is in [0, 1).
    pub fn conclude_slot(&mut self, ticket: u32, reply: Reply<'_>, now_ms: u64, random: f64) -> Step {
        let Some(errand) = self.slot_calls.under_way.take(ticket) else {
            return Step::Answer(problem::interrupted());
        };
        self.under(errand.rules.clone(), |gateway| gateway.read_slot(errand, reply, now_ms, random))
    }

    fn read_slot(&mut self, errand: Errand, reply: Reply<'_>, now_ms: u64, random: f64) -> Step {
        let (said, retry_after_ms) = match reply {
            Reply::Whole { status, body, retry_after_s } => {
                let retry_after_ms = u64::from(retry_after_s).saturating_mul(1000);
                (slots::read(status, body, errand.operation), Some(retry_after_ms).filter(|ms| *ms > 0))
            }
            Reply::None(SPENT) => {
                self.breaker.end(errand.permit, Ending::Neutral, now_ms, random);
                return self.untold(&errand.slot, errand.caller, now_ms);
            }
            Reply::None(why) => (Err(StoreError::new(Class::Unreachable, why)), None),
        };
        match said {
            Ok(said) => {
                let took_ms = now_ms.saturating_sub(errand.asked_ms);
                self.answered(errand.permit, took_ms, now_ms, random);
                let Errand { slot, operation, caller, .. } = errand;
                self.told_about(&slot, operation, caller, said, now_ms)
            }
            Err(error) => self.failed_about(errand, &error, retry_after_ms, now_ms, random),
        }
    }

    fn send_about(&mut self, errand: Errand, now_ms: u64, delay_ms: u64) -> Step {
        self.counters.calls = self.counters.calls.saturating_add(1);
        let store = &self.rules.policy.store;
        let (name, stems, quota) = match self.rules.limits.get(errand.slot.limit) {
            Some(prepared) => (prepared.limit.name.as_str(), prepared.stems(), holding::quota(prepared)),
            None => return self.untold(&errand.slot, errand.caller, now_ms),
        };
        let queue = key::queue_stem(&store.prefix, store.cluster, name);
        let call = slots::Call {
            form: errand.form,
            by: errand.by,
            stems: slots::SlotStems { holders: stems.state, overrides: stems.overrides, queue: &queue },
            subject: &errand.slot.subject,
            quota,
            id: &errand.slot.id,
            operation: errand.operation,
        };
        let body = slots::body(&script::SLOTS, &call);
        let deadline_ms = errand.deadline_ms;
        let timeout_ms = self.left_ms(deadline_ms, now_ms).saturating_sub(delay_ms);
        let ticket = self.slot_calls.under_way.add(errand, now_ms, deadline_ms);
        Step::Slot(Call { ticket, timeout_ms, delay_ms, body })
    }

    fn failed_about(
        &mut self,
        errand: Errand,
        error: &StoreError,
        retry_after_ms: Option<u64>,
        now_ms: u64,
        random: f64,
    ) -> Step {
        let in_time = now_ms < errand.deadline_ms;
        let other = match error.class {
            Class::NoScript if errand.by == ScriptCall::BySha => Some((errand.form, ScriptCall::ByText)),
            Class::Dialect if errand.form == Form::Upstash && self.may_fall_back() => {
                if self.form == Some(Form::Upstash) {
                    self.form = Some(Form::Redis);
                    self.log.push(log::fell_back());
                }
                Some((Form::Redis, ScriptCall::BySha))
            }
            _ => None,
        };
        if let Some((form, by)) = other.filter(|_| in_time) {
            return match self.breaker.renew(errand.permit, now_ms, errand.deadline_ms) {
                Ok(permit) => {
                    self.send_about(Errand { form, by, permit, asked_ms: now_ms, ..errand }, now_ms, 0)
                }
                Err(_) => self.untold(&errand.slot, errand.caller, now_ms),
            };
        }
        self.note_failure(error, now_ms);
        self.breaker.end(errand.permit, error.class.ending(retry_after_ms), now_ms, random);
        if error.class.retry() != Retry::No
            && !errand.retried
            && let Some((permit, delay_ms)) = self.may_retry(errand.deadline_ms, now_ms, random)
        {
            self.counters.retries = self.counters.retries.saturating_add(1);
            let asked_ms = now_ms.saturating_add(delay_ms);
            return self.send_about(Errand { permit, retried: true, asked_ms, ..errand }, now_ms, delay_ms);
        }
        self.untold(&errand.slot, errand.caller, now_ms)
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
                let ask = LocalAsk { key: key.clone(), quota, cost: 1, shadow: false, holder };
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
                holders.sort_by_key(|holding| (holding.expires_ms, holding.fence));
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
