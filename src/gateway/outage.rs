//! A decision that the store does not make: what each limit's policy says, by the platform's own limiter where one is
//! bound, and by the isolate's share.

use std::rc::Rc;

use super::answer::{Location, Step};
use super::asking::Purpose;
use super::outcome::{Line, Outcome, Tier};
use super::rules::Rules;
use super::{Gateway, settle};
use crate::store::Ask;

/// When a request that is refused for want of the store may try again, at the earliest, in milliseconds.
const SOONEST_RETRY_MS: u64 = 1_000;

/// A decision that waits for the platform's own limiter.
#[derive(Debug)]
pub(super) struct Located {
    asks: Vec<Ask>,
    rules: Rc<Rules>,
    purpose: Purpose,
}

impl Gateway {
    /// Brings the answers of the platform's own limiter, one character for each degraded limit: `1` let through, `0`
    /// refused, anything else no answer.
    pub fn conclude_location(&mut self, ticket: u32, answers: &str, now_ms: u64) -> Step {
        let Some(Located { asks, rules, purpose }) = self.located.take(ticket) else {
            return Step::Again;
        };
        self.under(rules, |gateway| gateway.read_location(&asks, purpose, answers, now_ms))
    }

    fn read_location(&mut self, asks: &[Ask], purpose: Purpose, answers: &str, now_ms: u64) -> Step {
        let (slots, degraded): (Vec<&Ask>, Vec<&Ask>) = settle::degraded_asks(&self.rules.limits, asks)
            .into_iter()
            .partition(|ask| settle::is_concurrency(ask));
        let refused: Vec<Line> = degraded
            .iter()
            .zip(answers.chars())
            .filter(|(_, answer)| *answer == '0')
            .map(|(ask, _)| settle::refused_at_location(ask))
            .collect();
        let outcome = if refused.iter().any(Line::refuses) {
            Outcome::of(Tier::Degraded, refused)
        } else {
            let answered = answers.chars().chain(std::iter::repeat('x'));
            let open = degraded.into_iter().zip(answered).filter(|(_, answer)| *answer != '1');
            let open = open.filter(|(_, answer)| *answer != '0').map(|(ask, _)| ask);
            // Only the isolate knows what it holds.
            let open: Vec<&Ask> = open.chain(slots).collect();
            self.degraded(&open, &purpose, now_ms)
        };
        let outcome = Outcome { tier: Tier::Degraded, ..outcome }.among(asks);
        self.finish(outcome, purpose, now_ms)
    }

    /// What each limit's policy says when the store cannot.
    pub(super) fn without_store(&mut self, asks: Vec<Ask>, purpose: Purpose, now_ms: u64) -> Step {
        let retry_ms = self.retry_ms(now_ms);
        let purpose = match purpose {
            Purpose::Admin(call) => return self.unanswered(&call, retry_ms),
            Purpose::Settle(settling) => return self.not_settled(settling.told, retry_ms),
            Purpose::Task(call) => return call.unanswered(retry_ms),
            decided @ (Purpose::Check { .. } | Purpose::Proxy { .. }) => decided,
        };
        if let Some(outcome) = settle::closed(&self.rules.limits, &asks, retry_ms) {
            return self.finish(outcome.among(&asks), purpose, now_ms);
        }
        let degraded = settle::degraded_asks(&self.rules.limits, &asks);
        let counted: Vec<&&Ask> = degraded.iter().filter(|ask| !settle::is_concurrency(ask)).collect();
        if let Some(binding) = self.rules.policy.degraded.binding.clone().filter(|_| !counted.is_empty()) {
            let stem = |ask: &Ask| self.rules.limits.get(ask.limit).map_or("", |limit| limit.stems().state);
            let keys = counted.iter().map(|ask| [stem(ask), &ask.subject].concat()).collect();
            let timeout_ms = self.rules.policy.store.timeout_ms;
            let deadline_ms = now_ms.saturating_add(timeout_ms);
            let ticket =
                self.located.add(Located { asks, rules: self.rules.clone(), purpose }, now_ms, deadline_ms);
            return Step::Location(Location { ticket, binding, timeout_ms, keys });
        }
        let outcome = self.degraded(&degraded, &purpose, now_ms);
        self.finish(outcome.among(&asks), purpose, now_ms)
    }

    fn degraded(&mut self, asks: &[&Ask], purpose: &Purpose, now_ms: u64) -> Outcome {
        let retry_ms = self.retry_ms(now_ms);
        settle::degraded(&mut self.local, &self.rules, asks, purpose.holder(), retry_ms, now_ms)
    }

    /// When asking again may find the store better, in milliseconds.
    pub(super) fn retry_ms(&self, now_ms: u64) -> u64 {
        self.breaker.opens_in_ms(now_ms).max(SOONEST_RETRY_MS)
    }
}
