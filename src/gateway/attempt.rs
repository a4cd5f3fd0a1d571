//! A call to the store, whatever it is about: whether it is let out, what its reply comes to, and whether it is made
//! once more.
//!
//! A call passes the bulkhead and the breaker before it is made, and reports to the breaker when it ends. It is made
//! once more at most: in another form where the store is known not to have run it for want of that form; as it was
//! where the class of the failure, the retry budget, the breaker and the deadline all allow it, and a repeat is known to
//! count once.

use std::rc::Rc;

use super::rules::Rules;
use super::{Gateway, log};
use crate::policy::Dialect;
use crate::store::breaker::{Ending, Permit};
use crate::store::error::Retry;
use crate::store::{Class, Form, ScriptCall, StoreError};

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
    /// None, and why: `deadline`, `connection` or `subrequests`.
    None(&'a str),
}

/// Why there is no reply to a request that has made all the calls that the platform lets it make.
const SPENT: &str = "subrequests";

/// A call that was let out.
#[derive(Debug)]
pub(super) struct Attempt {
    /// What it is read by, also after a reload.
    pub rules: Rc<Rules>,
    /// Which form of the script it sends.
    pub form: Form,
    /// How it names the script.
    pub by: ScriptCall,
    /// The clock that the store is told, which its answer counts from.
    pub asked_ms: u64,
    /// When it is given up.
    pub deadline_ms: u64,
    permit: Permit,
    /// Whether it is made once more, after a failure.
    pub retried: bool,
}

/// What a call came to.
pub(super) enum Heard<T> {
    /// The store said this.
    Said(T),
    /// It is to be made once more, after so many milliseconds.
    Again(Attempt, u64),
    /// The store cannot be asked.
    Nothing,
}

impl Gateway {
    /// How many calls are under way.
    pub(super) fn under_way(&mut self, now_ms: u64) -> usize {
        self.inflight.under_way(now_ms).saturating_add(self.slot_calls.under_way.under_way(now_ms))
    }

    /// Lets a call out, unless the bulkhead or the breaker keeps it.
    pub(super) fn let_out(&mut self, form: Form, now_ms: u64) -> Option<Attempt> {
        let store = &self.rules.policy.store;
        let (most, deadline_ms) = (store.max_in_flight, now_ms.saturating_add(store.timeout_ms));
        if self.under_way(now_ms) >= most {
            self.counters.bulkhead = self.counters.bulkhead.saturating_add(1);
            return None;
        }
        let Ok(permit) = self.breaker.permit(now_ms, deadline_ms) else {
            self.counters.breaker = self.counters.breaker.saturating_add(1);
            return None;
        };
        self.retries.earn();
        let (rules, by) = (self.rules.clone(), ScriptCall::BySha);
        Some(Attempt { rules, form, by, asked_ms: now_ms, deadline_ms, permit, retried: false })
    }

    /// Counts a call that is made now, and says how long it may take.
    pub(super) fn timeout_ms(&mut self, attempt: &Attempt, now_ms: u64, delay_ms: u64) -> u64 {
        self.counters.calls = self.counters.calls.saturating_add(1);
        self.left_ms(attempt.deadline_ms, now_ms).saturating_sub(delay_ms)
    }

    /// What a reply comes to. `counts_once` says whether a repeat of a call that may have been executed is known to
    /// count once. `random` is in [0, 1).
    pub(super) fn hear<T>(
        &mut self,
        attempt: Attempt,
        reply: Reply<'_>,
        read: impl FnOnce(u16, &str) -> Result<T, StoreError>,
        counts_once: bool,
        now_ms: u64,
        random: f64,
    ) -> Heard<T> {
        let took_ms = now_ms.saturating_sub(attempt.asked_ms);
        let (said, retry_after_ms) = match reply {
            Reply::Whole { status, body, retry_after_s } => {
                let retry_after_ms = u64::from(retry_after_s).saturating_mul(1000);
                (read(status, body), Some(retry_after_ms).filter(|ms| *ms > 0))
            }
            // That says nothing of the store.
            Reply::None(SPENT) => {
                self.breaker.end(attempt.permit, Ending::Neutral, now_ms, random);
                return Heard::Nothing;
            }
            Reply::None(why) => (Err(StoreError::new(Class::Unreachable, why)), None),
        };
        self.metrics.latency.note(took_ms);
        match said {
            Ok(said) => {
                self.answered(attempt.permit, took_ms, now_ms, random);
                Heard::Said(said)
            }
            Err(error) => self.failed(attempt, &error, retry_after_ms, counts_once, now_ms, random),
        }
    }

    fn failed<T>(
        &mut self,
        attempt: Attempt,
        error: &StoreError,
        retry_after_ms: Option<u64>,
        counts_once: bool,
        now_ms: u64,
        random: f64,
    ) -> Heard<T> {
        if let Some((form, by)) =
            self.other_form(&attempt, error.class).filter(|_| now_ms < attempt.deadline_ms)
        {
            // The breaker may have opened since the first call.
            return match self.breaker.renew(attempt.permit, now_ms, attempt.deadline_ms) {
                Ok(permit) => Heard::Again(Attempt { form, by, permit, asked_ms: now_ms, ..attempt }, 0),
                Err(_) => {
                    self.counters.breaker = self.counters.breaker.saturating_add(1);
                    Heard::Nothing
                }
            };
        }
        self.note_failure(error, now_ms);
        self.breaker.end(attempt.permit, error.class.ending(retry_after_ms), now_ms, random);
        let repeatable = match error.class.retry() {
            Retry::Yes => true,
            Retry::WithChargeId => counts_once,
            Retry::No => false,
        };
        if repeatable
            && !attempt.retried
            && let Some((permit, delay_ms)) = self.may_retry(attempt.deadline_ms, now_ms, random)
        {
            self.counters.retries = self.counters.retries.saturating_add(1);
            // The store is told the time at which the call will be made.
            let asked_ms = now_ms.saturating_add(delay_ms);
            return Heard::Again(Attempt { permit, retried: true, asked_ms, ..attempt }, delay_ms);
        }
        Heard::Nothing
    }

    /// How a call is made again that the store has not run for want of that form.
    fn other_form(&mut self, attempt: &Attempt, class: Class) -> Option<(Form, ScriptCall)> {
        match class {
            Class::NoScript if attempt.by == ScriptCall::BySha => Some((attempt.form, ScriptCall::ByText)),
            Class::Dialect
                if attempt.form == Form::Upstash && self.rules.policy.store.dialect == Dialect::Auto =>
            {
                if self.form == Some(Form::Upstash) {
                    self.form = Some(Form::Redis);
                    self.log.push(log::fell_back());
                }
                Some((Form::Redis, ScriptCall::BySha))
            }
            _ => None,
        }
    }

    /// A permit for one more call and the wait before it, where breaker, budget and deadline allow one.
    fn may_retry(&mut self, deadline_ms: u64, now_ms: u64, random: f64) -> Option<(Permit, u64)> {
        let left_ms = Some(self.left_ms(deadline_ms, now_ms)).filter(|left| *left > 0)?;
        // The budget is looked at first: a permit that is not used would have to be given back.
        let delay_ms = self.retries.spend(left_ms, random)?;
        let permit = self.breaker.permit(now_ms, deadline_ms).ok()?;
        Some((permit, delay_ms))
    }

    /// What is left of a deadline: no more than the whole of it, should the clock have stepped back.
    fn left_ms(&self, deadline_ms: u64, now_ms: u64) -> u64 {
        deadline_ms.saturating_sub(now_ms).min(self.rules.policy.store.timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bindings, Step};
    use super::*;

    const NOW: u64 = 1_785_432_000_000;
    const NOTE: &str = "slots,192.0.2.1,holder,77";
    const QUESTION: &str = r#"{"limits":["rate"],"subject":{"ip":"192.0.2.1"}}"#;

    fn gateway() -> Gateway {
        let policy = r#"{"version":1,"gateway":{"origin":"http://o.invalid"},"store":{"max_in_flight":1},
            "defaults":{"on_store_error":"open"},"limits":[
            {"name":"slots","limit":2,"algorithm":"concurrency","lease":"30s","key":["ip"]},
            {"name":"rate","limit":9,"algorithm":"fixed-window","window":"1m","key":["ip"]}]}"#;
        let store_url = Some("http://store.invalid".to_owned());
        let bindings = Bindings { store_url, has_token: true, ..Bindings::default() };
        Gateway::new(policy, &bindings).unwrap()
    }

    fn decision(gateway: &mut Gateway) -> Step {
        gateway.check(Some(QUESTION), NOW, 0.5)
    }

    #[test]
    fn decisions_and_calls_about_slots_share_the_bulkhead() {
        let mut full = gateway();
        assert!(matches!(full.renew(NOTE, NOW), Step::Slot(_)));
        assert!(matches!(decision(&mut full), Step::Answer(_)));
        let mut full = gateway();
        assert!(matches!(decision(&mut full), Step::Ask(_)));
        assert_eq!(full.renew(NOTE, NOW), Step::Done("kept"));
        assert_eq!(full.counters().bulkhead, 1);
    }

    #[test]
    fn a_request_out_of_calls_says_nothing_of_the_store() {
        let mut gateway = gateway();
        for _ in 0..20 {
            let Step::Ask(call) = decision(&mut gateway) else { panic!("no call") };
            let step = gateway.conclude(call.ticket, Reply::None(SPENT), NOW, 0.5);
            assert!(matches!(step, Step::Answer(answer) if answer.body.contains(r#""tier":"open""#)));
        }
        assert!(!gateway.has_log());
        assert_eq!(gateway.counters().failures, [0; 10]);
    }
}
