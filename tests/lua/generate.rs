//! Makes histories up, with an eye on the moments and amounts at which an answer changes.

use std::num::NonZeroU64;

use sluicegate::limit::Quota;
use sluicegate::policy::bounds::{self, MAX_COUNT, MAX_LOG, MAX_WINDOW_MS, MIN_WINDOW_MS};
use sluicegate::policy::{Algorithm, Capacity};

use super::model::{Model, Said, in_force};
use super::random::Random;
use super::trace::{Base, Cost, PAST_MS, Rule, Step, Trace};

/// What may happen in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// The callers' clocks.
    pub clocks: Clocks,
    /// Most limits on the route.
    pub limits: u64,
    /// Limits in shadow, and overrides.
    pub exceptions: bool,
    /// Other limits and bursts mid-way.
    pub changes: bool,
    /// PERSIST, clocks left to the store, and charge ids.
    pub store: bool,
    /// Token buckets that delay.
    pub delays: bool,
    /// Permits.
    pub permits: bool,
}

/// How callers' clocks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// As the truth.
    Honest,
    /// Up to this many ms off.
    Off(u64),
}

const HOUR_MS: u64 = 3_600_000;
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog];
const WINDOWS_MS: [u64; 8] =
    [MIN_WINDOW_MS, 1_000, 10_000, 60_000, HOUR_MS, 86_400_000, 31_536_000_000, MAX_WINDOW_MS];
/// Three years, after which no trace goes on. Clocks further apart than 2^31 windows (6.8 years, of 100 ms) are beyond
/// what four bytes of a window's index tell apart.
const LONGEST_MS: u64 = 94_608_000_000;

impl Habits {
    /// Some of everything.
    pub fn any(random: &mut Random) -> Self {
        Self {
            clocks: random.pick(&[Clocks::Honest, Clocks::Honest, Clocks::Off(60_000), Clocks::Off(HOUR_MS)]),
            limits: random.pick(&[1, 2, 3, 3, 5, 10]),
            exceptions: random.percent(30),
            changes: random.percent(40),
            store: random.percent(20),
            delays: random.percent(40),
            permits: random.percent(30),
        }
    }
}

/// A history in the making.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    habits: Habits,
    at: u64,
}

impl Generator {
    /// The history's limits, and what makes its steps.
    pub fn new(mut random: Random, habits: Habits) -> (Self, Trace) {
        let count = random.between(1, habits.limits);
        let limits = (0..count).map(|_| {
            let shadow = habits.exceptions && random.percent(20);
            let quota = quota(&mut random);
            let delays = habits.delays && !shadow && random.percent(70);
            Rule { quota, shadow, ahead_ms: ahead(&mut random, quota).filter(|_| delays) }.to_string()
        });
        let limits = limits.collect();
        let base = match habits.store || random.percent(60) {
            true => Base::Now,
            false => Base::At(PAST_MS + random.between(0, 86_400_000)),
        };
        let at = if random.percent(20) { random.between(0, LONGEST_MS / 2) } else { 0 };
        (Self { random, habits, at }, Trace { limits, base, ..Trace::default() })
    }

    /// The next step, knowing the model and what the last one came to.
    pub fn step(&mut self, model: &Model, last: Option<&Said>) -> Step {
        self.at += self.gap(model, last);
        let random = &mut self.random;
        let clock = match self.habits.clocks {
            Clocks::Off(most) if random.percent(50) => {
                let off = random.between(0, most).min(random.between(0, most)) as i64;
                random.pick(&[off, -off, most as i64, -(most as i64)])
            }
            _ => 0,
        };
        let mut step = Step { at: self.at, clock, ..Step::default() };
        if self.habits.store {
            step.store_clock = random.percent(15);
            step.persist = random.percent(10);
            let charge = (random.pick(&["a", "b", "c"]).to_owned(), random.pick(&["x", "y", "x"]).to_owned());
            step.charge = random.percent(30).then_some(charge);
        }
        let limits = model.subjects.len() as u64;
        let mut after = model.clone();
        if self.habits.changes && random.percent(15) {
            let index = random.between(0, limits - 1) as usize;
            let texts = model.subjects.iter().enumerate().map(|(other, subject)| {
                let mut rule = subject.rule;
                if other == index {
                    rule.quota = resized(random, rule.quota);
                    if rule.ahead_ms.is_some() {
                        rule.ahead_ms = ahead(random, rule.quota);
                    }
                }
                rule.to_string()
            });
            step.limits = Some(texts.collect());
        }
        if self.habits.exceptions && random.percent(15) {
            let index = random.between(0, limits - 1) as usize;
            step.overrides.push((index, over(random, self.at)));
        }
        after.prepare(&step);
        keep_exact(&mut after, &mut step);
        let costs = after.subjects.iter().enumerate().map(|(index, subject)| {
            let left = last.map_or(1, |last| last.of(index).1 as u64);
            cost(random, in_force(subject, 0).0.capacity(), left)
        });
        let costs: Vec<u64> = costs.collect();
        step.cost = Some(match costs.iter().all(|cost| *cost == costs[0]) {
            true => Cost::All(costs[0]),
            false => Cost::Each(costs),
        });
        if self.habits.permits && random.percent(60) {
            let more = after.subjects.iter().map(|subject| match random.between(0, 9) {
                0..2 => 0,
                2..7 => random.scaled(1, in_force(subject, 0).0.capacity()),
                _ => random.scaled(1, 20),
            });
            step.more = Some(Cost::Each(more.collect()));
        }
        step
    }

    fn gap(&mut self, model: &Model, last: Option<&Said>) -> u64 {
        let random = &mut self.random;
        let index = random.between(0, model.subjects.len() as u64 - 1) as usize;
        let Rule { quota, ahead_ms, .. } = model.subjects[index].rule;
        let (reset, wait) = last.map_or((0, 0), |last| {
            let (_, _, reset, wait) = last.of(index);
            (reset as u64, wait.max(0) as u64)
        });
        let gap = match random.between(0, 99) {
            0..35 => 0,
            35..50 => random.scaled(1, 2_000),
            50..65 => random.around(wait),
            65..72 => random.around(reset),
            72..80 => random.between(0, quota.window_ms),
            80..86 => quota.window_ms / quota.limit,
            86..92 => random.around(quota.window_ms),
            92..94 => random.around(quota.window_ms * 2),
            94..96 => random.around(ahead_ms.unwrap_or(quota.window_ms)),
            _ => random.around(quota.ttl_ms() + ahead_ms.unwrap_or(0)),
        };
        if self.at + gap > LONGEST_MS { 0 } else { gap }
    }
}

/// Drops an override with which the arithmetic would leave the exact integers: the admin API refuses it.
fn keep_exact(after: &mut Model, step: &mut Step) {
    for (index, subject) in after.subjects.iter_mut().enumerate() {
        let (quota, _) = in_force(subject, 0);
        let base = subject.rule.quota;
        let product = base.burst.checked_mul(quota.limit).is_some_and(|product| product < bounds::EXACT);
        let most_ms = bounds::most_delay_ms(quota.limit, quota.burst, quota.burst, quota.window_ms);
        let owed = subject.rule.ahead_ms.is_none_or(|ms| ms <= most_ms);
        if !exact(quota) || !owed || (quota != base && !product) {
            step.overrides.retain(|(limit, _)| *limit != index);
            step.overrides.push((index, None));
            subject.over = None;
        }
    }
}

/// Whether a validated policy can hold it.
pub fn exact(quota: Quota) -> bool {
    let numbers = NonZeroU64::new(quota.limit).zip(NonZeroU64::new(quota.burst));
    numbers.is_some_and(|(limit, burst)| {
        bounds::check(quota.algorithm, Capacity { limit, burst }, quota.capacity(), quota.window_ms).is_ok()
    })
}

/// From 1 in 400 days to 100,000 a second, and now and then as much as the arithmetic bears.
pub fn quota(random: &mut Random) -> Quota {
    let algorithm = random.pick(&ALGORITHMS);
    let window_ms = match random.percent(60) {
        true => random.pick(&WINDOWS_MS),
        false => random.scaled(MIN_WINDOW_MS, MAX_WINDOW_MS),
    };
    resized(random, Quota { algorithm, limit: 1, burst: 1, window_ms })
}

/// How far ahead a request may pass, of a token bucket; now and then not at all, as a full isolate asks.
fn ahead(random: &mut Random, quota: Quota) -> Option<u64> {
    let most_ms = bounds::most_delay_ms(quota.limit, quota.burst, quota.burst, quota.window_ms);
    let each_ms = quota.window_ms / quota.limit;
    let ms = match random.between(0, 9) {
        0..2 => 0,
        2..6 => each_ms.saturating_mul(random.between(1, 5)),
        _ => random.scaled(1, bounds::DELAY_MS.1),
    };
    (quota.algorithm == Algorithm::TokenBucket).then_some(ms.min(bounds::DELAY_MS.1).min(most_ms))
}

/// The same algorithm and window with other numbers.
fn resized(random: &mut Random, quota: Quota) -> Quota {
    for _ in 0..20 {
        let per_window = (bounds::EXACT - 1) / quota.window_ms;
        let (limit, burst) = match (quota.algorithm, random.percent(5)) {
            (Algorithm::SlidingLog, false) => (random.scaled(1, 300), 1),
            (Algorithm::SlidingLog, true) => (random.scaled(1, MAX_LOG), 1),
            (Algorithm::FixedWindow, true) => (random.around(MAX_COUNT - 1), 1),
            (Algorithm::SlidingWindow, true) => (random.around(per_window / 3).min(MAX_COUNT), 1),
            (Algorithm::TokenBucket, true) => (random.scaled(1, per_window), random.around(per_window / 2)),
            (Algorithm::Concurrency, _) => unreachable!("leases have tests of their own"),
            (_, false) => {
                let limit = random.scaled(1, 100_000);
                (limit, random.scaled(1, limit * 3))
            }
        };
        let bucket = quota.algorithm == Algorithm::TokenBucket;
        let burst = if bucket && random.percent(60) { burst } else { limit };
        let resized = Quota { limit, burst, ..quota };
        if exact(resized) {
            return resized;
        }
    }
    Quota { limit: 1, burst: 1, ..quota }
}

fn cost(random: &mut Random, capacity: u64, left: u64) -> u64 {
    match random.between(0, 99) {
        0..45 => 1,
        45..55 => 0,
        55..70 => random.scaled(1, 5),
        70..80 => random.around(left),
        80..85 => random.between(1, capacity),
        85..95 => (capacity / 4).max(1),
        95..97 => capacity,
        _ => random.around(capacity + 1),
    }
}

/// Text of an override's key, mostly in the form that the script takes.
fn over(random: &mut Random, at: u64) -> Option<String> {
    let limit = random.scaled(1, 1_000);
    let until = match random.percent(50) {
        true => "0".to_owned(),
        false => format!("+{}", at + random.scaled(1, 100_000)),
    };
    match random.between(0, 9) {
        0..2 => None,
        2 => Some(format!("0 {until}")),
        3 => Some(random.pick(&["", "5", "5 ", " 5 0", "-5 0", "5.0 0", "5 0 0", "x 0", "5  0"]).to_owned()),
        _ => Some(format!("{limit} {until}")),
    }
}
