//! What a request may come to, and what all requests of a run may come to together.

use std::collections::HashMap;

use sluicegate::gateway::Step;
use sluicegate::policy::Algorithm;

use super::law::{self, Passed};
use super::scenario::{Plan, Scenario};

/// What the client sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub passed: bool,
    /// Of no tier: a conflict under an idempotency key.
    pub tier: Option<String>,
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
}

impl Told {
    /// Reads a last step; through the decision API the body says what a proxied request shows by itself.
    pub fn of(step: &Step, check: bool) -> Self {
        let (status, headers) = match step {
            Step::Forward(forward) => (200, forward.headers.clone()),
            Step::Answer(answer) => (answer.status, answer.headers.clone()),
            other => panic!("not an end: {other:?}"),
        };
        if let Step::Answer(answer) = step
            && check
            && status == 200
        {
            let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
            let tier = body["tier"].as_str().map(str::to_owned);
            let passed = body["allowed"].as_bool().expect("a decision");
            let closed = body["reason"] == "store-unavailable";
            return Self { passed, tier, status: if closed { 503 } else { 200 }, headers: Vec::new() };
        }
        let tier = headers.iter().find(|(name, _)| *name == "Sluicegate-Tier").map(|(_, tier)| tier.clone());
        Self { passed: matches!(step, Step::Forward(_)), tier, status, headers }
    }

    /// Asserts what the failure policies say when the store could not be asked, or did not answer: a `closed` limit
    /// refuses with 503, else a `degraded` one decides, else everything passes.
    pub fn assert_by_policy(&self, scenario: &Scenario) {
        let has = |policy: &str| scenario.rules.iter().any(|rule| rule.on_store_error == policy);
        let closed = scenario.rules.iter().any(|rule| rule.on_store_error == "closed" && !rule.shadow);
        let tier = self.tier.as_deref().expect("a tier");
        if closed {
            assert_eq!((tier, self.passed, self.status), ("closed", false, 503));
        } else if has("degraded") {
            assert_eq!(tier, "degraded");
            assert!(self.passed || matches!(self.status, 429 | 200), "{self:?}");
        } else {
            assert_eq!((tier, self.passed), ("open", true));
        }
    }
}

/// What one isolate let pass by itself of one subject of one limit.
#[derive(Debug, Default)]
struct Local {
    passed: Vec<Passed>,
    /// What the store last said: units left, the clock then, and how much had passed here by then.
    said: Option<(u64, u64, usize)>,
}

/// All that isolates let pass by themselves.
#[derive(Debug, Default)]
pub struct Locals(HashMap<(usize, usize, u64), Local>);

impl Locals {
    /// The store has said how much is left of each limit.
    pub fn heard(&mut self, scenario: &Scenario, plan: &Plan, numbers: &[i64], now_ms: u64) {
        for limit in 0..scenario.rules.len() {
            let local = self.0.entry((plan.isolate, limit, scenario.subject(limit, plan))).or_default();
            let left = u64::try_from(numbers[2 + limit * 4]).expect("a number of units");
            local.said = Some((left, now_ms, local.passed.len()));
        }
    }

    /// A request passed at the isolate's own word.
    pub fn passed(&mut self, scenario: &Scenario, plan: &Plan, now_ms: u64) {
        for (limit, rule) in scenario.rules.iter().enumerate() {
            let units = scenario.cost(limit, plan);
            if rule.on_store_error != "degraded" || rule.shadow || units == 0 {
                continue;
            }
            let local = self.0.entry((plan.isolate, limit, scenario.subject(limit, plan))).or_default();
            local.passed.push(Passed { at_ms: super::clock::told(now_ms), units });
            if scenario.honest() {
                local.assert_warm(scenario, limit, now_ms);
            }
        }
    }

    /// Admitted while the store failed, by each isolate and by all together:
    ///
    /// units of one subject of one limit ≤ isolates × F(share quota, length of the outage), where the share quota has
    /// max(1, ⌊limit × share⌋) per window and F is its capacity and its own refill, [`law::most`]. For an outage
    /// shorter than the refill of one unit that is SPEC's isolates × max(1, ⌊limit × share⌋).
    pub fn assert_bounded(&self, scenario: &Scenario) -> u64 {
        let mut together: HashMap<(usize, u64), Vec<Passed>> = HashMap::new();
        for ((isolate, limit, subject), local) in &self.0 {
            let whose = format!("isolate {isolate}, limit {limit}, subject {subject}");
            law::assert_kept(&scenario.share(*limit), &local.passed, &whose);
            together.entry((*limit, *subject)).or_default().extend(&local.passed);
        }
        if scenario.honest() {
            for ((limit, subject), passed) in &together {
                let moments = || passed.iter().map(|charge| charge.at_ms);
                let length_ms = moments().max().unwrap_or(0) - moments().min().unwrap_or(0);
                let units: u64 = passed.iter().map(|charge| charge.units).sum();
                let most = scenario.clocks.len() as u64 * law::most(&scenario.share(*limit), length_ms);
                assert!(
                    units <= most,
                    "limit {limit}, subject {subject}: {units} of {most} in {length_ms} ms"
                );
            }
        }
        together.values().map(|passed| passed.len() as u64).sum()
    }
}

impl Local {
    /// Since the store said what is left no more than that has passed here, and what the share has refilled. (Asserted
    /// of the algorithms whose refill does not depend on what was used before; `warm` has all four.)
    fn assert_warm(&self, scenario: &Scenario, limit: usize, now_ms: u64) {
        let Some((left, then_ms, from)) = self.said else { return };
        let units: u64 = self.passed[from..].iter().map(|charge| charge.units).sum();
        let share = scenario.share(limit);
        let refill = match share.algorithm {
            Algorithm::TokenBucket => (now_ms - then_ms) * share.limit,
            Algorithm::FixedWindow if now_ms / share.window_ms == then_ms / share.window_ms => 0,
            _ => return,
        };
        // What is left is said in whole units: up to one more is on its way.
        assert!(
            units * share.window_ms < (left + 1) * share.window_ms + refill,
            "limit {limit}: {units} passed here, and the store had left {left}"
        );
    }
}
