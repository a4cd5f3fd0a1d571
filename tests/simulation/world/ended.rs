//! What must hold of every answer, and of all of them at the end.

use sluicegate::gateway::Step;

use super::super::command::Ask;
use super::super::law;
use super::super::scenario::Plan;
use super::super::verdicts::Told;
use super::{Cause, World};

impl World {
    pub(super) fn end(&mut self, request: usize, step: &Step, cause: &Cause, now_ms: u64, true_ms: u64) {
        let plan = self.scenario.plans[request].clone();
        let told = Told::of(step, plan.check);
        match cause {
            Cause::Received if told.tier.as_deref() == Some("cache") => {
                assert!(!told.passed && !self.scenario.keyed(&plan), "only the store knows of a repeat");
                self.assert_sure(&plan, now_ms, true_ms);
                self.tally.cached += 1;
            }
            Cause::Answered(numbers) if numbers.len() == 1 => {
                assert_eq!((told.status, told.passed), (422, false));
                self.tally.conflicts += 1;
            }
            Cause::Answered(numbers) => {
                assert_eq!((told.tier.as_deref(), told.passed), (Some("store"), numbers[0] == 1));
                self.locals.heard(&self.scenario, &plan, numbers, now_ms);
            }
            Cause::Received | Cause::Failed(..) | Cause::Located => {
                if !matches!(cause, Cause::Located) {
                    self.explain(request, cause, now_ms);
                }
                told.assert_by_policy(&self.scenario);
                let located = self.live[request].located;
                assert_eq!(matches!(cause, Cause::Located), located.is_some());
                match located {
                    Some('1') => assert!(told.passed, "{told:?}"),
                    Some('0') => assert!(
                        !told.passed
                            || self
                                .scenario
                                .rules
                                .iter()
                                .all(|rule| rule.shadow || rule.on_store_error != "degraded")
                    ),
                    _ if told.passed => self.locals.passed(&self.scenario, &plan, now_ms),
                    _ => {}
                }
            }
        }
        self.live[request].told = Some(told);
    }

    /// A remembered refusal: the store, asked in this moment, refuses too, unless somebody else has reset or
    /// overridden the subject within `remember`. Of isolates whose clocks agree.
    fn assert_sure(&self, plan: &Plan, now_ms: u64, true_ms: u64) {
        if !self.scenario.honest() {
            return;
        }
        let known = (0..self.scenario.rules.len()).filter_map(|limit| {
            let ask = self.known.get(&(limit, self.scenario.subject(limit, plan)))?;
            Some(Ask { cost: self.scenario.cost(limit, plan), ..ask.clone() })
        });
        let asks: Vec<Ask> = known.collect();
        let remember_ms = self.scenario.settings.remember_ms;
        let meddled = |ask: &Ask| self.meddled.get(&ask.state).is_some_and(|at| at + remember_ms >= true_ms);
        assert!(
            !self.store.would_pass(&asks, now_ms, true_ms) || asks.iter().any(meddled),
            "refused from memory, and the store would let it pass"
        );
    }

    pub(super) fn settle(&mut self) {
        for isolate in &self.isolates {
            isolate.assert_counted();
            self.tally.lost += isolate.lost();
            self.tally.retries += isolate.retries();
            self.tally.reasks += isolate.reasks;
            self.tally.transitions += isolate.transitions;
        }
        self.tally.local = self.locals.assert_bounded(&self.scenario);
        for (key, ledger) in &self.store.ledgers {
            if self.meddled.contains_key(key) {
                continue;
            }
            if self.scenario.honest() {
                law::assert_kept(&ledger.quota, &ledger.lives.concat(), key);
            } else {
                ledger.lives.iter().for_each(|life| law::assert_kept(&ledger.quota, life, key));
            }
        }
        for request in 0..self.live.len() {
            self.settle_request(request);
        }
        for (key, times) in &self.store.charged_ids {
            assert_eq!(*times, 1, "charged more than once under {key}");
        }
    }

    fn settle_request(&mut self, request: usize) {
        let live = &self.live[request];
        let charge = live.calls.first().and_then(|call| self.sent[*call].command.charge.clone());
        let Some(told) = &live.told else {
            assert!(live.left, "a request without an end");
            assert!(live.charged <= 1);
            return;
        };
        assert!(live.charged <= 1, "charged more than once");
        let keyed = self.scenario.keyed(&self.scenario.plans[request]);
        let (Some("store"), Some(charge)) = (told.tier.as_deref(), charge.as_ref().filter(|_| keyed)) else {
            match told.tier.as_deref() {
                Some("store") if told.passed => assert_eq!(live.charged, 1, "admitted by the store"),
                Some("cache") => assert!(live.calls.is_empty()),
                _ => assert!(live.charged == 0 || live.ambiguous, "refused, and charged"),
            }
            return;
        };
        if !told.passed {
            return assert!(live.charged == 0 || live.ambiguous);
        }
        assert_eq!(self.store.charged_ids.get(&charge.key), Some(&1));
        let key = format!("{} {}", charge.key, self.scenario.plans[request].check);
        match self.firsts.get(&key) {
            Some(first) => {
                self.tally.repeats += 1;
                assert_eq!(first, told, "a repeat gets the first answer");
            }
            None => drop(self.firsts.insert(key, told.clone())),
        }
    }
}
