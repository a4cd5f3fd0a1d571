//! `limits/{name}/{subject}`: what a subject has used and has left, and forgetting it.

use serde::Serialize;

use super::Target;
use super::command::{Call, What};
use crate::gateway::Gateway;
use crate::gateway::answer::{Answer, Step};
use crate::gateway::asking::Purpose;
use crate::gateway::outcome::{Outcome, Tier};
use crate::gateway::prepared::{Allowance, Prepared};
use crate::gateway::{problem, settle};
use crate::limit::{Quota, Wait};
use crate::store::Ask;
use crate::subject::request::query_value;

/// What is known of a subject. Numbers are null where the plan sets no limit.
#[derive(Default, Serialize)]
struct Known<'a> {
    name: &'a str,
    plan: Option<&'a str>,
    tier: &'static str,
    unlimited: bool,
    banned: bool,
    limit: Option<u64>,
    capacity: Option<u64>,
    used: Option<u64>,
    remaining: Option<u64>,
    reset_ms: Option<u64>,
    retry_after_ms: Option<u64>,
}

impl Gateway {
    /// What a subject has used, charging nothing. `?plan=` names the plan that it has.
    pub(super) fn peek(&mut self, target: &Target, query: &str, now_ms: u64) -> Result<Step, Answer> {
        let prepared = self.prepared(target)?;
        let plan = query_value(query, "plan");
        let allowance = match plan.as_deref() {
            None => &prepared.quota,
            Some(name) => prepared.plan(name).ok_or_else(|| unknown_plan(prepared, name))?,
        };
        let name = prepared.limit.name.as_str();
        let (quota, arguments) = match allowance {
            Allowance::Limited(quota, arguments) => (*quota, arguments.clone()),
            Allowance::Unlimited => {
                let known = Known { name, plan: plan.as_deref(), unlimited: true, ..Known::default() };
                return Ok(Step::Answer(known.answer(Tier::Isolate)));
            }
            Allowance::Blocked => {
                let zero = Some(0);
                let known =
                    Known { name, plan: plan.as_deref(), banned: true, limit: zero, ..Known::default() };
                let known = Known { capacity: zero, used: zero, remaining: zero, reset_ms: zero, ..known };
                return Ok(Step::Answer(known.answer(Tier::Isolate)));
            }
        };
        let shadow = prepared.limit.shadow;
        let asks = vec![Ask {
            limit: target.limit,
            quota,
            arguments,
            subject: target.subject.clone(),
            cost: 0,
            shadow,
            ahead_ms: prepared.limit.delay().map(|delay| delay.ms),
            more: 0,
        }];
        let call = Call { target: target.clone(), what: What::Peek(plan) };
        let Some(form) = self.form else {
            let decision = settle::whole(&mut self.local, &self.rules.limits, &asks, None, now_ms);
            let outcome = Outcome::of(Tier::Isolate, settle::lines(&asks, &decision.verdicts));
            return Ok(self.peeked(&call, &outcome));
        };
        Ok(self.send(form, asks, None, Purpose::Admin(Box::new(call)), now_ms))
    }

    /// The answer that a look at a limit makes.
    pub(in crate::gateway) fn peeked(&self, call: &Call, outcome: &Outcome) -> Step {
        let (What::Peek(plan), Some(line)) = (&call.what, outcome.lines.first()) else {
            return Step::Answer(problem::interrupted());
        };
        let Some(prepared) = self.rules.limits.get(line.limit) else {
            return Step::Answer(problem::interrupted());
        };
        let verdict = &line.verdict;
        let banned = verdict.limit == 0;
        let capacity = if banned { 0 } else { in_force(prepared, plan.as_deref(), verdict.limit) };
        let known = Known {
            name: &prepared.limit.name,
            plan: plan.as_deref(),
            banned,
            limit: Some(verdict.limit),
            capacity: Some(capacity),
            used: Some(capacity.saturating_sub(verdict.remaining)),
            remaining: Some(verdict.remaining),
            reset_ms: Some(verdict.reset_ms),
            retry_after_ms: match verdict.wait {
                Wait::Ms(ms) => Some(ms),
                Wait::None | Wait::Never => None,
            },
            ..Known::default()
        };
        Step::Answer(known.answer(outcome.tier))
    }

    /// Forgets what a subject has used of one limit; its override stays.
    pub(super) fn forget(&mut self, target: Target, now_ms: u64) -> Step {
        if self.rules.limits.get(target.limit).is_some_and(Prepared::is_concurrency) {
            let detail = "a slot ends with its holder or its lease; free one by \
                          DELETE /.sluicegate/v1/slots/{limit}/{subject}/{id}";
            return Step::Answer(problem::plain(409, "Slots are held", detail));
        }
        if let Some(form) = self.form {
            let call = Call { target, what: What::Forget };
            return self.send(form, Vec::new(), None, Purpose::Admin(Box::new(call)), now_ms);
        }
        let before = self.local.len();
        self.local.forget(&target.key());
        let name = self.rules.limits.get(target.limit).map_or("", |limit| limit.limit.name.as_str());
        Step::Answer(forgotten(name, self.local.len() < before))
    }
}

/// The most at once of a quota under the limit that is in force, which an override may have changed.
fn in_force(prepared: &Prepared, plan: Option<&str>, limit: u64) -> u64 {
    let allowance = plan.and_then(|name| prepared.plan(name)).unwrap_or(&prepared.quota);
    match allowance {
        Allowance::Limited(quota, _) if quota.limit == limit => quota.capacity(),
        Allowance::Limited(quota, _) => Quota::with_limit(*quota, limit).capacity(),
        _ => limit,
    }
}

fn unknown_plan(prepared: &Prepared, name: &str) -> Answer {
    let limit = &prepared.limit.name;
    let known: Vec<&str> = prepared.limit.plans.keys().map(String::as_str).collect();
    let cure = match known.as_slice() {
        [] => "it has no plans: leave `plan` out".to_owned(),
        known => {
            format!("known are: {}; without `plan` it is what a subject without one gets", known.join(", "))
        }
    };
    problem::plain(400, "Unknown plan", &format!("limit {limit} has no plan {name:?}; {cure}"))
}

impl Known<'_> {
    fn answer(self, tier: Tier) -> Answer {
        let known = Self { tier: tier.word(), ..self };
        Answer::json(200, serde_json::to_string(&known).unwrap_or_default())
    }
}

/// Whether there was anything to forget. Names hold only characters that JSON takes as they are.
pub(super) fn forgotten(name: &str, forgotten: bool) -> Answer {
    Answer::json(200, format!("{{\"name\":\"{name}\",\"forgotten\":{forgotten}}}"))
}
