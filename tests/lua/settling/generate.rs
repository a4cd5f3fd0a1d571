//! Makes histories up.

use sluicegate::policy::{Algorithm, bounds};

use super::super::generate::{exact, quota};
use super::super::model::in_force;
use super::super::random::Random;
use super::super::trace::Rule;
use super::model::{Model, Said};
use super::trace::{Act, Step, Trace};

const HOUR_MS: u64 = 3_600_000;
/// A year, after which no history goes on.
const LONGEST_MS: u64 = 31_536_000_000;

/// A history in the making.
pub struct Generator {
    random: Random,
    limits: usize,
    off_ms: u64,
    changes: bool,
    at: u64,
}

impl Generator {
    /// The history's limits, and what makes its steps.
    pub fn new(mut random: Random) -> (Self, Trace) {
        let limits = random.pick(&[1, 1, 2, 3]);
        let shadow = random.percent(20);
        let rules = (0..limits).map(|index| {
            Rule { quota: settling(&mut random), shadow: shadow && index == 0, ahead_ms: None }.to_string()
        });
        let trace = Trace { limits: rules.collect(), ..Trace::default() };
        let (off_ms, changes) = (random.pick(&[0, 0, 500, 60_000, HOUR_MS]), random.percent(30));
        (Self { random, limits, off_ms, changes, at: 0 }, trace)
    }

    /// The next step, knowing the model and what the last request came to.
    pub fn step(&mut self, model: &Model, last: Option<&Said>) -> Step {
        self.at += self.gap(model, last);
        let random = &mut self.random;
        let off = |random: &mut Random| match random.percent(40) {
            true => {
                let most = self.off_ms;
                let off = random.between(0, most).min(random.between(0, most)) as i64;
                random.pick(&[off, -off, most as i64, -(most as i64)])
            }
            false => 0,
        };
        let (clock, store) = (off(random), off(random));
        let mut step = Step { at: self.at, clock, store, store_clock: random.percent(10), ..Step::default() };
        step.flushed = random.percent(1);
        if self.changes && random.percent(15) {
            step.limits = Some(changed(random, model));
        }
        if self.changes && random.percent(10) {
            let limit = random.between(0, self.limits as u64 - 1) as usize;
            let over = random.pick(&[None, Some("0 0"), Some("7 0"), Some("30 +5000"), Some("x")]);
            step.overrides.push((limit, over.map(str::to_owned)));
        }
        let mut after = model.clone();
        after.requests.prepare(&step.asked());
        if !after.requests.subjects.iter().all(|subject| exact(in_force(subject, 0).0)) {
            step.overrides.clear();
            after = model.clone();
            after.requests.prepare(&step.asked());
        }
        let open: Vec<usize> =
            (0..model.charges.len()).filter(|id| !model.settled.contains_key(id)).collect();
        step.act = match random.between(0, 99) {
            0..50 if !open.is_empty() => {
                let charge = match random.percent(50) {
                    true => open[open.len() - 1],
                    false => random.pick(&open),
                };
                Act::Settle(charge, costs(random, &after, charge))
            }
            50..56 if !model.charges.is_empty() => {
                let charge = random.between(0, model.charges.len() as u64 - 1) as usize;
                Act::Settle(charge, costs(random, &after, charge))
            }
            _ => {
                let subjects = after.requests.subjects.iter();
                Act::Ask(subjects.map(|subject| asked(random, in_force(subject, 0).0.capacity())).collect())
            }
        };
        step
    }

    fn gap(&mut self, model: &Model, last: Option<&Said>) -> u64 {
        let random = &mut self.random;
        let index = random.between(0, self.limits as u64 - 1) as usize;
        let quota = model.requests.subjects[index].rule.quota;
        let reset = last.and_then(|said| said.reply.get(3 + 4 * index)).map_or(0, |reset| *reset as u64);
        let gap = match random.between(0, 99) {
            0..40 => 0,
            40..55 => random.scaled(1, 2_000),
            55..70 => random.around(reset),
            70..80 => random.between(0, reset),
            80..88 => random.between(0, quota.window_ms),
            88..95 => random.around(quota.window_ms),
            _ => random.around(quota.ttl_ms()),
        };
        if self.at + gap > LONGEST_MS { 0 } else { gap }
    }
}

fn settling(random: &mut Random) -> sluicegate::limit::Quota {
    loop {
        let quota = quota(random);
        // The greatest windows are exact, but leave no room for a debt.
        let most = bounds::most_used(quota.algorithm, quota.window_ms);
        if quota.algorithm != Algorithm::SlidingLog && quota.capacity() < most / 4 && quota.limit < most / 4 {
            return quota;
        }
    }
}

/// Other numbers for one of the limits.
fn changed(random: &mut Random, model: &Model) -> Vec<String> {
    let index = random.between(0, model.requests.subjects.len() as u64 - 1) as usize;
    let texts = model.requests.subjects.iter().enumerate().map(|(other, subject)| {
        let mut rule = subject.rule;
        if other == index {
            let (up, by) = (random.percent(50), random.between(1, 3));
            let scaled = |number: u64| if up { number.saturating_mul(by) } else { (number / by).max(1) };
            let quota = rule.quota;
            let other =
                sluicegate::limit::Quota { limit: scaled(quota.limit), burst: scaled(quota.burst), ..quota };
            let most = bounds::most_used(quota.algorithm, quota.window_ms);
            if exact(other) && other.capacity() < most / 4 && other.limit < most / 4 {
                rule.quota = other;
            }
        }
        rule.to_string()
    });
    texts.collect()
}

fn asked(random: &mut Random, capacity: u64) -> u64 {
    match random.between(0, 9) {
        0..4 => random.scaled(1, capacity),
        4..6 => (capacity / 4).max(1),
        6..8 => 1,
        8 => capacity,
        _ => random.pick(&[0, capacity + 1]),
    }
}

/// What a charge really cost: nothing, less, as much, more, and far more.
fn costs(random: &mut Random, model: &Model, charge: usize) -> Vec<u64> {
    let reserved = model.charges[charge].reserved.iter().zip(&model.requests.subjects);
    let costs = reserved.map(|(reservation, subject)| {
        let quota = in_force(subject, 0).0;
        let units = reservation.map_or(0, |reservation| reservation.units);
        let room = (bounds::most_used(quota.algorithm, quota.window_ms) - quota.capacity()) / 64;
        match random.between(0, 9) {
            0 => 0,
            1..5 => random.between(0, units),
            5 => units,
            6..8 => units + random.between(0, units.min(room)),
            8 => units + (quota.capacity() * 3).min(room),
            _ => units + 1.min(room),
        }
    });
    costs.collect()
}
