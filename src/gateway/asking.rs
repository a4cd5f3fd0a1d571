//! From limits to a decision: what is settled here, what the store is asked, and what its reply is worth.

use std::rc::Rc;

use super::ahead::Start;
use super::answer::{Begin, Call, Step};
use super::attempt::{Attempt, Heard, Reply};
use super::charge::Reserving;
use super::delay::{Hold, Waiting, hold_ms};
use super::outcome::{Line, Outcome, Tier};
use super::permits::Permitted;
use super::prepared::Prepared;
use super::settling::Settling;
use super::task_calls::TaskCall;
use super::{Gateway, admin, admit::Admission, problem, settle};
use crate::limit::{Verdict, Wait};
use crate::policy::{Clock, OnStoreError};
use crate::store::{Answered, Ask, ChargeId, Form, Said, call, reply, script, settlement};

/// What a decision is for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A request to forward.
    Proxy {
        /// Index of its route.
        route: usize,
        /// The route's own origin, where it has one.
        origin: Option<String>,
        /// The id under which it takes slots, where a concurrency limit applies.
        holder: Option<Rc<str>>,
        /// Whether it may wait for its moment.
        waiting: Waiting,
        /// Whether it reaches the origin while the store decides.
        start: Start,
        /// Whether it comes from a queue.
        task: bool,
        /// What it has to do with permits.
        permitted: Option<Box<Permitted>>,
        /// What is settled after the answer.
        reserving: Option<Box<Reserving>>,
    },
    /// An answer of the decision API.
    Check {
        /// What it has to do with permits.
        permitted: Option<Box<Permitted>>,
        /// What its caller may settle.
        reserving: Option<Box<Reserving>>,
    },
    /// What a charge really cost.
    Settle(Box<Settling>),
    /// A call of the admin API.
    Admin(Box<admin::Call>),
    /// What the store knows of a task.
    Task(TaskCall),
}

impl Purpose {
    pub(super) fn holder(&self) -> Option<&Rc<str>> {
        match self {
            Self::Proxy { holder, .. } => holder.as_ref(),
            Self::Check { .. } | Self::Settle(_) | Self::Admin(_) | Self::Task(_) => None,
        }
    }

    /// What the decision has to do with permits; a look has nothing.
    pub(super) fn permitted(&mut self) -> Option<&mut Option<Box<Permitted>>> {
        match self {
            Self::Proxy { permitted, .. } | Self::Check { permitted, .. } => Some(permitted),
            Self::Settle(_) | Self::Admin(_) | Self::Task(_) => None,
        }
    }
}

/// A decision that waits for the store.
#[derive(Debug)]
pub(super) struct Pending {
    asks: Vec<Ask>,
    charge: Option<ChargeId>,
    purpose: Purpose,
    attempt: Attempt,
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
        mut purpose: Purpose,
        now_ms: u64,
    ) -> Step {
        let Admission { mut asks, blocked, repeat } = admission;
        if blocked.iter().any(Line::refuses) {
            return self.finish(Outcome::of(Tier::Isolate, blocked), purpose, now_ms);
        }
        let Some(form) = self.form.filter(|_| !asks.is_empty()) else {
            let holder = purpose.holder();
            let decision = settle::whole(&mut self.local, &self.rules.limits, &asks, holder, now_ms);
            let mut outcome = Outcome::of(Tier::Isolate, settle::lines(&asks, &decision.verdicts));
            outcome.hold = Hold::of(hold_ms(&mut asks.iter(), &decision.holds), now_ms, now_ms);
            return self.finish(outcome, purpose, now_ms);
        };
        // A repeat under an idempotency key may have been charged already; only the store knows.
        if repeat.is_none() {
            self.cover(&mut asks, &mut purpose, now_ms);
            if asks.is_empty() {
                return self.finish(Outcome::of(Tier::Cache, Vec::new()), purpose, now_ms);
            }
        }
        if repeat.is_none()
            && let Some(refused) = settle::recall(&mut self.refusals, &self.rules.limits, &asks, now_ms)
            && !self.says_too_little(&refused, &asks)
        {
            return self.finish(Outcome::of(Tier::Cache, vec![refused]).among(&asks), purpose, now_ms);
        }
        self.want(&mut asks, &mut purpose, now_ms);
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
        match self.let_out(form, now_ms) {
            Some(attempt) => self.ask(Pending { asks, charge, purpose, attempt }, now_ms, 0),
            None => self.without_store(asks, purpose, now_ms),
        }
    }

    /// Reads the store's reply to a call. `random` is in [0, 1).
    pub fn conclude(&mut self, ticket: u32, reply: Reply<'_>, now_ms: u64, random: f64) -> Step {
        let Some(pending) = self.inflight.take(ticket) else {
            // The request may have been charged or not.
            return Step::Again;
        };
        self.under(pending.attempt.rules.clone(), |gateway| gateway.read(pending, reply, now_ms, random))
    }

    fn read(&mut self, pending: Pending, reply: Reply<'_>, now_ms: u64, random: f64) -> Step {
        let Pending { asks, charge, purpose, attempt } = pending;
        let asked_ms = attempt.asked_ms;
        // A slot is taken once under its id, however often it is asked for.
        let slots_only = !asks.is_empty() && asks.iter().all(settle::is_concurrency);
        let counts_once =
            charge.is_some() || slots_only || matches!(purpose, Purpose::Settle(_) | Purpose::Task(_));
        let again = attempt.retried;
        let read = |status, body: &str| match &purpose {
            Purpose::Admin(call) if !call.is_check() => call.read(status, body),
            Purpose::Task(call) => call.read(status, body),
            Purpose::Settle(settling) => {
                settlement::read(status, body, settling.parts.len()).map(Said::Settled)
            }
            _ => reply::read(status, body, &asks),
        };
        match self.hear(attempt, reply, read, counts_once, now_ms, random) {
            Heard::Said(Said::Decided(answered)) => self.decided(&asks, purpose, &answered, asked_ms, now_ms),
            Heard::Said(Said::Conflict) => Step::Answer(problem::conflict()),
            Heard::Said(Said::Settled(said)) => match purpose {
                Purpose::Settle(settling) => self.settled(&settling, &said, again, now_ms),
                _ => Step::Answer(problem::interrupted()),
            },
            Heard::Said(Said::Value(value)) => match purpose {
                Purpose::Task(call) => call.told(value),
                _ => self.told(purpose, &value, now_ms),
            },
            Heard::Again(attempt, delay_ms) => {
                self.ask(Pending { asks, charge, purpose, attempt }, now_ms, delay_ms)
            }
            Heard::Nothing => self.without_store(asks, purpose, now_ms),
        }
    }

    fn ask(&mut self, mut pending: Pending, now_ms: u64, delay_ms: u64) -> Step {
        let begun = self.begin(&mut pending.purpose);
        let timeout_ms = self.timeout_ms(&pending.attempt, now_ms, delay_ms);
        let limits = &self.rules.limits;
        let stems = |ask: &Ask| limits.get(ask.limit).map(Prepared::stems).unwrap_or_default();
        let charge = pending.charge.as_ref().map(|charge| (self.rules.charge_stem.as_str(), charge));
        let check = call::Check {
            form: pending.attempt.form,
            by: pending.attempt.by,
            clock: clock(self.rules.policy.store.clock, &pending.asks),
            now_ms: pending.attempt.asked_ms,
            asks: &pending.asks,
            charge,
        };
        let body = match &pending.purpose {
            Purpose::Admin(call) if !call.is_check() => call.body(&self.rules.limits),
            Purpose::Task(call) => call.body(),
            Purpose::Settle(settling) => {
                let Attempt { form, by, asked_ms, .. } = pending.attempt;
                self.settle_body(settling, form, by, asked_ms)
            }
            _ => call::check_body(&script::CHECK, check, stems),
        };
        let takes_slots = pending.purpose.holder().is_some();
        let deadline_ms = pending.attempt.deadline_ms;
        let ticket = self.inflight.add(pending, now_ms, deadline_ms);
        let call = Call { ticket, timeout_ms, delay_ms, body };
        match begun {
            Some((origin, timeout_ms)) => Step::Ahead(Begin { origin, timeout_ms, call }),
            None if takes_slots => Step::Take(call),
            None => Step::Ask(call),
        }
    }

    fn decided(
        &mut self,
        asks: &[Ask],
        mut purpose: Purpose,
        answered: &Answered,
        asked_ms: u64,
        now_ms: u64,
    ) -> Step {
        let mut outcome = Outcome::of(Tier::Store, settle::lines(asks, &answered.verdicts));
        if matches!(purpose, Purpose::Admin(_)) {
            return self.finish(outcome, purpose, now_ms);
        }
        // The answer counts from the clock that it was asked with, however long it took.
        self.remember(asks, &answered.verdicts, asked_ms);
        outcome.fences.clone_from(&answered.fences);
        let hold_ms = hold_ms(&mut asks.iter(), &answered.holds);
        if hold_ms > 0 {
            // By the store's clock it may have been decided just now: nothing of it has passed for certain.
            let edge = clock(self.rules.policy.store.clock, asks) == Clock::Edge;
            outcome.hold = Hold::of(hold_ms, if edge { asked_ms } else { now_ms }, now_ms);
        }
        outcome.clock_ms = answered.clock_ms;
        self.feed(asks, &answered.verdicts, now_ms);
        self.permit(asks, answered, &mut outcome, &mut purpose, asked_ms);
        self.finish(outcome, purpose, asked_ms)
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

    /// A request without a place is refused until it would pass at once. One with a place would be let through earlier,
    /// by the delay.
    fn to_remember(&self, ask: &Ask, verdict: Verdict) -> Verdict {
        let delay = self.rules.limits.get(ask.limit).and_then(|prepared| prepared.limit.delay());
        let (Wait::Ms(ms), Some(0), Some(delay)) = (verdict.wait, ask.ahead_ms, delay) else {
            return verdict;
        };
        let early_ms = ms.saturating_sub(delay.ms);
        let wait = if early_ms > 0 { Wait::Ms(early_ms) } else { Wait::None };
        Verdict { wait, reset_ms: early_ms, ..verdict }
    }

    fn remember(&mut self, asks: &[Ask], verdicts: &[Verdict], asked_ms: u64) {
        for (ask, verdict) in asks.iter().zip(verdicts) {
            // A slot may be given back at any moment, and so may units that another answer did not cost.
            let freed = settle::is_concurrency(ask) || (verdict.wait != Wait::Never && self.settles(ask));
            if !ask.shadow && !verdict.allowed() && !freed {
                let key = settle::key(&self.rules.limits, ask);
                let verdict = self.to_remember(ask, *verdict);
                self.refusals.note(&key, ask.quota, ask.cost, verdict, asked_ms);
            }
        }
    }
}

/// Whose clock decides. How long permits are good is counted by the store's: a caller's may be off, and so may the next
/// one's.
fn clock(usual: Clock, asks: &[Ask]) -> Clock {
    if asks.iter().any(|ask| ask.more > 0) { Clock::Store } else { usual }
}
