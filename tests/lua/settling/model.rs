//! What the store must hold and answer, by the pure model.

use std::collections::BTreeMap;

use sluicegate::limit::State;
use sluicegate::limit::settlement::{Reservation, settle};
use sluicegate::limit::state::EPOCH_MS;

use super::super::model::{Model as Requests, in_force};
use super::super::trace::Trace as Asked;
use super::trace::{Act, BASE_MS, Step, Trace};

/// For how long a settlement is kept, in ms.
pub const KEPT_MS: u64 = 700_000;

/// A request that passed, with what it reserved in each limit.
#[derive(Debug, Clone)]
pub struct Charge {
    /// The clock that decided.
    pub since_ms: u64,
    /// One for each limit; none where the limit charged nothing.
    pub reserved: Vec<Option<Reservation>>,
}

/// All that is known.
#[derive(Debug, Clone)]
pub struct Model {
    /// States, overrides and lives of keys.
    pub requests: Requests,
    /// Requests that passed.
    pub charges: Vec<Charge>,
    /// Settlements by the number of their charge: when made, by true time, and what was said.
    pub settled: BTreeMap<usize, (u64, Vec<i64>)>,
}

/// What a step comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The script's reply.
    pub reply: Vec<i64>,
    /// TTL set for each limit's key; 0 where it was not written.
    pub ttl: Vec<u64>,
}

impl Model {
    /// Nothing known of anybody.
    pub fn new(trace: &Trace) -> Self {
        let asked = Asked { limits: trace.limits.clone(), ..Asked::default() };
        Self { requests: Requests::new(&asked, BASE_MS), charges: Vec::new(), settled: BTreeMap::new() }
    }

    /// Does what happens before a step. The limits and the settlements whose keys have ended by then.
    ///
    /// # Errors
    /// A key would have ended too early.
    pub fn prepare(&mut self, step: &Step) -> Result<(Vec<usize>, Vec<usize>), String> {
        let mut gone = self.requests.expire(step.at)?;
        let mut over = Vec::new();
        self.settled.retain(|charge, (at, _)| {
            let kept = *at + KEPT_MS > step.at;
            over.extend((!kept).then_some(*charge));
            kept
        });
        if step.flushed {
            gone = (0..self.requests.subjects.len()).collect();
            self.requests.subjects.iter_mut().for_each(|subject| subject.state = None);
        }
        self.requests.prepare(&step.asked());
        Ok((gone, over))
    }

    /// Does the step.
    pub fn step(&mut self, step: &Step) -> Said {
        match &step.act {
            Act::Ask(costs) => self.ask(step, costs),
            Act::Settle(charge, costs) => self.settle(step, *charge, costs),
        }
    }

    fn ask(&mut self, step: &Step, costs: &[u64]) -> Said {
        let said = self.requests.step(&step.asked(), step.store_ms());
        if said.allowed() {
            let since_ms = step.now_ms();
            let reserved = costs.iter().enumerate().map(|(limit, units)| {
                let (rate, _, reset_ms, wait) = said.of(limit);
                let reservation =
                    Reservation { units: *units, since_ms, reset_ms: reset_ms as u64, rate: rate as u64 };
                (wait == 0 && *units > 0).then_some(reservation)
            });
            self.charges.push(Charge { since_ms, reserved: reserved.collect() });
        }
        let ttl = said.writes.iter().map(|write| write.as_ref().map_or(0, |(_, ttl)| *ttl));
        Said { ttl: ttl.collect(), reply: said.reply }
    }

    fn settle(&mut self, step: &Step, charge: usize, costs: &[u64]) -> Said {
        let mut ttl = vec![0; self.requests.subjects.len()];
        if let Some((_, first)) = self.settled.get(&charge) {
            return Said { reply: [&[0], first.as_slice()].concat(), ttl };
        }
        let (now_ms, mut said) = (step.now_ms(), Vec::new());
        for (limit, reservation) in self.charges[charge].reserved.clone().iter().enumerate() {
            let Some(reservation) = reservation else { continue };
            let subject = &self.requests.subjects[limit];
            let (quota, _) = in_force(subject, now_ms.max(EPOCH_MS));
            let mut state: Option<State> = subject.state.clone();
            if let Some(state) = &mut state {
                state.repair(&quota, now_ms, step.store_ms());
            }
            let settled = settle(state.as_ref(), &quota, reservation, costs[limit], now_ms);
            said.extend([settled.units, settled.state.remaining(&quota, now_ms) as i64]);
            if settled.changed {
                ttl[limit] = settled.ttl_ms;
                self.requests.write(limit, settled.state, quota, settled.ttl_ms, step.at);
            }
        }
        self.settled.insert(charge, (step.at, said.clone()));
        Said { reply: [&[1], said.as_slice()].concat(), ttl }
    }
}
