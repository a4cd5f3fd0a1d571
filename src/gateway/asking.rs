//! From limits to a decision: what is settled here, what the store is asked, and what becomes of a call that failed.
//!
//! A call passes the bulkhead and the breaker before it is made, and reports to the breaker when it ends. It is made
//! once more at most: in another form where the store is known not to have run it for want of that form; as it was
//! where the class of the failure, the charge id, the retry budget, the breaker and the deadline all allow it.

use std::rc::Rc;

use super::answer::{Call, Step};
use super::outcome::{Line, Outcome, Tier};
use super::prepared::Prepared;
use super::rules::Rules;
use super::{Gateway, admin, admit::Admission, log, problem, settle};
use crate::limit::Verdict;
use crate::policy::{Dialect, OnStoreError};
use crate::store::breaker::Permit;
use crate::store::error::Retry;
use crate::store::{Answered, Ask, ChargeId, Class, Form, Said, ScriptCall, StoreError, call, reply, script};

/// What the store said, as the entry brings it.
#[derive(Debug, Clone, Copy)]
pub enum Reply<'a> {
    /// A whole reply.
    Whole {
        /// HTTP status.
        status: u16,
        /// Body.
        body: &'a str,
        /// What `Retry-After` asked for, in seconds; 0 where it did not.
        retry_after_s: u32,
    },
    /// None, and why: `deadline` or `connection`.
    None(&'a str),
}

/// What a decision is for.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// A request to forward.
    Proxy {
        /// Index of its route.
        route: usize,
        /// The route's own origin, where it has one.
        origin: Option<String>,
        /// The id under which it takes slots, where a concurrency limit applies.
        holder: Option<Rc<str>>,
    },
    /// An answer of the decision API.
    Check,
    /// A call of the admin API.
    Admin(Box<admin::Call>),
}

impl Purpose {
    pub(super) fn holder(&self) -> Option<&Rc<str>> {
        match self {
            Self::Proxy { holder, .. } => holder.as_ref(),
            Self::Check | Self::Admin(_) => None,
        }
    }
}

/// A decision that waits for the store.
#[derive(Debug)]
pub(super) struct Pending {
    asks: Vec<Ask>,
    charge: Option<ChargeId>,
    purpose: Purpose,
    /// What it is decided by, also after a reload.
    rules: Rc<Rules>,
    form: Form,
    by: ScriptCall,
    /// The clock that the store was told, which its answer counts from.
    asked_ms: u64,
    deadline_ms: u64,
    permit: Permit,
    retried: bool,
}

impl Gateway {
    /// The charge id of a request: its idempotency key's, or one of its own where the policy wants every call to be
    /// repeatable. `request` is what tells it from another request under the same key.
    pub(super) fn charge_id(
        &self,
        admission: &Admission,
        request: &[&str],
        now_ms: u64,
        random: f64,
    ) -> Option<ChargeId> {
        if let Some(repeat) = &admission.repeat {
            let mut print = self.digester.start();
            request.iter().for_each(|text| print.text(text));
            for ask in &admission.asks {
                print.text(&ask.limit.to_string());
                print.text(&ask.subject);
                print.text(&ask.cost.to_string());
            }
            // Under another policy the reply that was kept may not fit the limits: there it is a new request.
            let mut id = self.digester.start();
            [repeat.id.as_str(), &self.rules.policy.digest].into_iter().for_each(|text| id.text(text));
            return Some(ChargeId::of_key(&id.finish(), &print.finish(), repeat.window_ms));
        }
        let store = &self.rules.policy.store;
        let count = self.counters.calls;
        store.exactly_once.then(|| ChargeId::of_call(random, now_ms, count, store.timeout_ms))
    }

    /// Settles what can be settled here, and asks the store for the rest.
    pub(super) fn decide(
        &mut self,
        admission: Admission,
        charge: Option<ChargeId>,
        purpose: Purpose,
        now_ms: u64,
    ) -> Step {
        let Admission { asks, blocked, repeat } = admission;
        if blocked.iter().any(Line::refuses) {
            return self.finish(Outcome::of(Tier::Isolate, blocked), purpose, now_ms);
        }
        let Some(form) = self.form.filter(|_| !asks.is_empty()) else {
            let holder = purpose.holder();
            let verdicts = settle::whole(&mut self.local, &self.rules.limits, &asks, holder, now_ms);
            let outcome = Outcome::of(Tier::Isolate, settle::lines(&asks, &verdicts));
            return self.finish(outcome, purpose, now_ms);
        };
        // A repeat under an idempotency key may have been charged already; only the store knows.
        if repeat.is_none()
            && let Some(refused) = settle::recall(&mut self.refusals, &self.rules.limits, &asks, now_ms)
        {
            return self.finish(Outcome::of(Tier::Cache, vec![refused]).among(&asks), purpose, now_ms);
        }
        self.send(form, asks, charge, purpose, now_ms)
    }

    /// Asks the store, where the bulkhead and the breaker let a call through.
    pub(super) fn send(
        &mut self,
        form: Form,
        asks: Vec<Ask>,
        charge: Option<ChargeId>,
        purpose: Purpose,
        now_ms: u64,
    ) -> Step {
        if self.inflight.under_way(now_ms) >= self.rules.policy.store.max_in_flight {
            self.counters.bulkhead = self.counters.bulkhead.saturating_add(1);
            return self.without_store(asks, purpose, now_ms);
        }
        let deadline_ms = now_ms.saturating_add(self.rules.policy.store.timeout_ms);
        let Ok(permit) = self.breaker.permit(now_ms, deadline_ms) else {
            self.counters.breaker = self.counters.breaker.saturating_add(1);
            return self.without_store(asks, purpose, now_ms);
        };
        self.retries.earn();
        let by = ScriptCall::BySha;
        let asked_ms = now_ms;
        let pending = Pending {
            asks,
            charge,
            purpose,
            rules: self.rules.clone(),
            form,
            by,
            asked_ms,
            deadline_ms,
            permit,
            retried: false,
        };
        self.ask(pending, now_ms, 0)
    }

    /// Reads the store's reply to a call. `random` is in [0, 1).
    pub fn conclude(&mut self, ticket: u32, reply: Reply<'_>, now_ms: u64, random: f64) -> Step {
        let Some(pending) = self.inflight.take(ticket) else {
            // The request may have been charged or not.
            return Step::Again;
        };
        self.under(pending.rules.clone(), |gateway| gateway.read(pending, reply, now_ms, random))
    }

    fn read(&mut self, pending: Pending, reply: Reply<'_>, now_ms: u64, random: f64) -> Step {
        let (said, retry_after_ms) = match reply {
            Reply::Whole { status, body, retry_after_s } => {
                let retry_after_ms = u64::from(retry_after_s).saturating_mul(1000);
                let said = match &pending.purpose {
                    Purpose::Admin(call) if !call.is_check() => call.read(status, body),
                    _ => reply::read(status, body, &pending.asks),
                };
                (said, Some(retry_after_ms).filter(|ms| *ms > 0))
            }
            Reply::None(why) => (Err(StoreError::new(Class::Unreachable, why)), None),
        };
        let took_ms = now_ms.saturating_sub(pending.asked_ms);
        self.metrics.latency.note(took_ms);
        match said {
            Ok(said) => {
                self.answered(pending.permit, took_ms, now_ms, random);
                match said {
                    Said::Decided(answered) => self.decided(pending, &answered, now_ms),
                    Said::Conflict => Step::Answer(problem::conflict()),
                    Said::Value(value) => self.told(pending.purpose, &value, now_ms),
                }
            }
            Err(error) => self.failed(pending, &error, retry_after_ms, now_ms, random),
        }
    }

    fn ask(&mut self, pending: Pending, now_ms: u64, delay_ms: u64) -> Step {
        self.counters.calls = self.counters.calls.saturating_add(1);
        let limits = &self.rules.limits;
        let stems = |ask: &Ask| limits.get(ask.limit).map(Prepared::stems).unwrap_or_default();
        let charge = pending.charge.as_ref().map(|charge| (self.rules.charge_stem.as_str(), charge));
        let check = call::Check {
            form: pending.form,
            by: pending.by,
            clock: self.rules.policy.store.clock,
            now_ms: pending.asked_ms,
            asks: &pending.asks,
            charge,
        };
        let body = match &pending.purpose {
            Purpose::Admin(call) if !call.is_check() => call.body(&self.rules.limits),
            _ => call::check_body(&script::CHECK, check, stems),
        };
        let deadline_ms = pending.deadline_ms;
        let timeout_ms = self.left_ms(deadline_ms, now_ms).saturating_sub(delay_ms);
        let takes_slots = pending.purpose.holder().is_some();
        let ticket = self.inflight.add(pending, now_ms, deadline_ms);
        let call = Call { ticket, timeout_ms, delay_ms, body };
        if takes_slots { Step::Take(call) } else { Step::Ask(call) }
    }

    fn decided(&mut self, pending: Pending, answered: &Answered, now_ms: u64) -> Step {
        let mut outcome = Outcome::of(Tier::Store, settle::lines(&pending.asks, &answered.verdicts));
        if matches!(pending.purpose, Purpose::Admin(_)) {
            return self.finish(outcome, pending.purpose, now_ms);
        }
        // The answer counts from the clock that it was asked with, however long it took.
        self.remember(&pending.asks, &answered.verdicts, pending.asked_ms);
        outcome.fences.clone_from(&answered.fences);
        self.feed(&pending.asks, &answered.verdicts, now_ms);
        self.finish(outcome, pending.purpose, pending.asked_ms)
    }

    /// Keeps the isolate's own counts at least as far used as the store's, so that they are warm when it fails.
    fn feed(&mut self, asks: &[Ask], verdicts: &[Verdict], now_ms: u64) {
        for (ask, verdict) in asks.iter().zip(verdicts) {
            // Of slots the isolate counts those that it holds itself, not what others have left.
            let degraded = settle::says(&self.rules.limits, ask) == Some(OnStoreError::Degraded);
            if degraded && !settle::is_concurrency(ask) {
                let share = settle::shared(ask.quota, self.rules.policy.degraded.share);
                if verdict.remaining < share.capacity() {
                    self.local.feed(&settle::key(&self.rules.limits, ask), &share, verdict.remaining, now_ms);
                }
            }
        }
    }

    fn remember(&mut self, asks: &[Ask], verdicts: &[Verdict], asked_ms: u64) {
        for (ask, verdict) in asks.iter().zip(verdicts) {
            // A slot may be given back at any moment.
            if !ask.shadow && !verdict.allowed() && !settle::is_concurrency(ask) {
                let key = settle::key(&self.rules.limits, ask);
                self.refusals.note(&key, ask.quota, ask.cost, *verdict, asked_ms);
            }
        }
    }

    fn failed(
        &mut self,
        pending: Pending,
        error: &StoreError,
        retry_after_ms: Option<u64>,
        now_ms: u64,
        random: f64,
    ) -> Step {
        let in_time = now_ms < pending.deadline_ms;
        match error.class {
            Class::NoScript if pending.by == ScriptCall::BySha && in_time => {
                return self.ask_in(pending.form, ScriptCall::ByText, pending, now_ms);
            }
            Class::Dialect if pending.form == Form::Upstash && in_time && self.may_fall_back() => {
                if self.form == Some(Form::Upstash) {
                    self.form = Some(Form::Redis);
                    self.log.push(log::fell_back());
                }
                return self.ask_in(Form::Redis, ScriptCall::BySha, pending, now_ms);
            }
            _ => {}
        }
        self.note_failure(error, now_ms);
        self.breaker.end(pending.permit, error.class.ending(retry_after_ms), now_ms, random);
        let repeatable = match error.class.retry() {
            Retry::Yes => true,
            // A slot is taken once under its id, however often it is asked for.
            Retry::WithChargeId => {
                let slots_only = !pending.asks.is_empty() && pending.asks.iter().all(settle::is_concurrency);
                pending.charge.is_some() || slots_only
            }
            Retry::No => false,
        };
        if repeatable
            && !pending.retried
            && let Some((permit, delay_ms)) = self.may_retry(pending.deadline_ms, now_ms, random)
        {
            self.counters.retries = self.counters.retries.saturating_add(1);
            // The store is told the time at which the call will be made.
            let asked_ms = now_ms.saturating_add(delay_ms);
            return self.ask(Pending { permit, retried: true, asked_ms, ..pending }, now_ms, delay_ms);
        }
        self.without_store(pending.asks, pending.purpose, now_ms)
    }

    /// Asks once more in another form, unless the breaker has opened since the first call.
    fn ask_in(&mut self, form: Form, by: ScriptCall, pending: Pending, now_ms: u64) -> Step {
        match self.breaker.renew(pending.permit, now_ms, pending.deadline_ms) {
            Ok(permit) => self.ask(Pending { form, by, permit, asked_ms: now_ms, ..pending }, now_ms, 0),
            Err(_) => {
                self.counters.breaker = self.counters.breaker.saturating_add(1);
                self.without_store(pending.asks, pending.purpose, now_ms)
            }
        }
    }

    /// A permit for one more call and the wait before it, where breaker, budget and deadline allow one.
    pub(super) fn may_retry(&mut self, deadline_ms: u64, now_ms: u64, random: f64) -> Option<(Permit, u64)> {
        let left_ms = Some(self.left_ms(deadline_ms, now_ms)).filter(|left| *left > 0)?;
        // The budget is looked at first: a permit that is not used would have to be given back.
        let delay_ms = self.retries.spend(left_ms, random)?;
        let permit = self.breaker.permit(now_ms, deadline_ms).ok()?;
        Some((permit, delay_ms))
    }

    /// What is left of a deadline: no more than the whole of it, should the clock have stepped back.
    pub(super) fn left_ms(&self, deadline_ms: u64, now_ms: u64) -> u64 {
        deadline_ms.saturating_sub(now_ms).min(self.rules.policy.store.timeout_ms)
    }

    pub(super) fn may_fall_back(&self) -> bool {
        self.rules.policy.store.dialect == Dialect::Auto
    }
}
