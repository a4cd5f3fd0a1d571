//! Makes histories up, with an eye on the moments at which a lease ends and on fences that are not quite right.

use std::collections::BTreeMap;

use super::super::random::Random;
use super::model::Model;
use super::trace::{Act, BASE_FENCE, Item, Step, Trace};

/// What may happen in a history.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Rate limits and further concurrency limits on the route.
    pub beside: bool,
    /// Callers whose clocks are wrong, by at most so many ms.
    pub skew: i64,
    /// A store whose clock jumps.
    pub jumps: bool,
    /// Overrides, limits in shadow, changed limits and leases.
    pub changes: bool,
    /// Flushes, PERSIST, charge ids.
    pub store: bool,
    /// Whether callers wait.
    pub queue: bool,
}

impl Habits {
    /// Some of everything.
    pub fn any(random: &mut Random) -> Self {
        Self {
            beside: random.percent(40),
            skew: random.pick(&[0, 0, 5, 1_000, 58_000, 3_600_000]),
            jumps: random.percent(10),
            changes: random.percent(40),
            store: random.percent(30),
            queue: random.percent(60),
        }
    }
}

const IDS: [&str; 9] = ["a", "b", "c", "d", "e", "job_1", "-", "F-9", "fence"];
const LEASES: [&str; 5] = ["1s", "2s", "30s", "10m", "1d"];

/// A history in the making.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    habits: Habits,
    at: u64,
    store: i64,
    /// The fences that each id was given.
    fences: BTreeMap<String, Vec<i64>>,
    last: Option<Step>,
}

impl Generator {
    /// The history's limits, and what makes its steps.
    pub fn new(mut random: Random, habits: Habits) -> (Self, Trace) {
        let mut limits = vec![slots(&mut random, habits)];
        if habits.beside {
            for _ in 0..random.between(1, 4) {
                let other = match random.percent(30) {
                    true => slots(&mut random, habits),
                    false => {
                        let rate = [
                            "token-bucket(7/10s)",
                            "fixed-window(6/10s)",
                            "sliding-window(9/10s)",
                            "sliding-log(8/10s)",
                        ];
                        let shadow = if habits.changes && random.percent(20) { " shadow" } else { "" };
                        format!("{}{shadow}", random.pick(&rate))
                    }
                };
                let place = random.between(0, limits.len() as u64) as usize;
                limits.insert(place, other);
            }
        }
        let generator = Self { random, habits, at: 1, store: 0, fences: BTreeMap::new(), last: None };
        (generator, Trace { limits, ..Trace::default() })
    }

    /// The next step, knowing the model.
    pub fn step(&mut self, model: &Model) -> Step {
        // The reply was lost, and the caller asks again.
        if let Some(last) = self.last.take()
            && self.random.percent(12)
        {
            self.at += self.random.pick(&[0, 0, 1, 200]);
            return Step {
                at: self.at,
                overrides: Vec::new(),
                limits: None,
                flush: false,
                persist: false,
                ..last
            };
        }
        self.at += self.gap(model);
        let habits = self.habits;
        let random = &mut self.random;
        if habits.jumps && random.percent(8) {
            self.store = random.pick(&[0, 0, -30_000, -61_000, -200_000, 61_000, 5_000]);
        }
        let mut step = Step {
            at: self.at,
            store: self.store,
            flush: habits.store && random.percent(3),
            persist: habits.store && random.percent(5),
            ..Step::default()
        };
        if habits.changes && random.percent(8) {
            let texts = model.subjects.iter().map(|subject| {
                let text = subject.rule.to_string();
                if text.starts_with("concurrency") && random.percent(60) {
                    slots(random, habits)
                } else {
                    text
                }
            });
            step.limits = Some(texts.collect());
        }
        if habits.changes && random.percent(10) {
            let index = random.between(0, model.subjects.len() as u64 - 1) as usize;
            if model.subjects[index].rule.to_string().starts_with("concurrency") {
                step.overrides.push((index, over(random, self.at)));
            }
        }
        step.act = self.act(model);
        self.last = Some(step.clone());
        step
    }

    /// Notes the fence that somebody was given.
    pub fn saw(&mut self, act: &Act, said: &[Item], fences: usize) {
        let (id, at) = match act {
            Act::Take { id, .. } => (id, 1),
            Act::Request { id, .. } => (id, said.len().saturating_sub(fences)),
            _ => return,
        };
        if let (Some(Item::Number(1)), Some(Item::Number(fence))) = (said.first(), said.get(at)) {
            self.fences.entry(id.clone()).or_default().push(fence - BASE_FENCE as i64);
        }
    }

    fn act(&mut self, model: &Model) -> Act {
        let habits = self.habits;
        let id = self.random.pick(&IDS[..if habits.queue { 9 } else { 5 }]).to_owned();
        match self.random.between(0, 99) {
            0..25 => self.request(model, id),
            25..55 => {
                let random = &mut self.random;
                let wait = habits.queue && random.percent(70);
                let wait = wait.then(|| {
                    let wait = random.pick(&[5_000, 300, 60_000, 0, 1]);
                    (wait, random.pick(&[1_000, 1_000, 250, 10_000]), random.pick(&[3, 8, 8, 1]))
                });
                Act::Take { id, wait }
            }
            55..70 => {
                let id = self.holder(model, id);
                let fence = self.fence(&id);
                Act::Renew(id, fence)
            }
            70..88 => {
                let id = self.holder(model, id);
                let fence = self.fence(&id);
                Act::Free(id, fence)
            }
            88..93 => {
                let waiters = model.subjects[model.slots()].waiting.all();
                let waiter = waiters.get(self.random.between(0, waiters.len() as u64) as usize);
                Act::Leave(waiter.map_or(id, |waiter| waiter.id.to_string()))
            }
            _ => Act::List,
        }
    }

    fn request(&mut self, model: &Model, id: String) -> Act {
        let Habits { skew, store, .. } = self.habits;
        let random = &mut self.random;
        let off = random.between(0, skew as u64) as i64;
        // What a fast clock does to rate limits is told elsewhere; here it must not make their states jump about.
        let ahead = if self.habits.beside { off.min(58_000) } else { off };
        let clock = random.pick(&[0, ahead, -off, -off]);
        let costs = match random.percent(25) {
            true => model.subjects.iter().map(|_| random.pick(&[0, 1, 1])).collect(),
            false => Vec::new(),
        };
        let charge = (random.pick(&["x", "y"]).to_owned(), random.pick(&["p", "p", "q"]).to_owned());
        let charge = (store && random.percent(25)).then_some(charge);
        Act::Request { id, clock, store_clock: random.percent(15), costs, charge }
    }

    /// Mostly somebody who holds, dead or alive.
    fn holder(&mut self, model: &Model, id: String) -> String {
        let holders = model.subjects[model.slots()].holders();
        let ids: Vec<&str> = holders.all().map(|(id, _)| &**id).collect();
        if ids.is_empty() || self.random.percent(35) { id } else { self.random.pick(&ids).to_owned() }
    }

    /// Mostly the last fence of an id, sometimes an older one, or none of its own.
    fn fence(&mut self, id: &str) -> i64 {
        let random = &mut self.random;
        let known = self.fences.get(id);
        let last = known.and_then(|fences| fences.last()).copied().unwrap_or(0);
        match random.between(0, 99) {
            0..80 => last,
            80..90 => last + random.pick(&[-1, 1]),
            _ => known.map_or(0, |fences| random.pick(fences)),
        }
    }

    fn gap(&mut self, model: &Model) -> u64 {
        let subject = &model.subjects[model.slots()];
        let lease = subject.rule.quota.window_ms;
        let clock = Step { at: self.at, store: self.store, ..Step::default() }.store_ms();
        let reset = subject.holders().reset_ms(clock);
        let place = subject.waiting.first_ms(clock);
        let random = &mut self.random;
        match random.between(0, 99) {
            0..35 => 0,
            35..55 => random.scaled(1, 400),
            55..68 => random.around(reset),
            68..78 => random.around(place),
            78..85 => lease / 3,
            85..90 => random.around(lease),
            90..93 => random.around(lease + 2_000),
            _ => random.scaled(1, 3_000),
        }
    }
}

fn slots(random: &mut Random, habits: Habits) -> String {
    let limit = random.pick(&[1, 1, 2, 3, 5]);
    let lease = match habits.changes {
        true => random.pick(&LEASES),
        false => random.pick(&LEASES[..3]),
    };
    let shadow = if habits.changes && random.percent(10) { " shadow" } else { "" };
    format!("concurrency({limit}/{lease}){shadow}")
}

/// Text of an override's key, mostly in the form that the scripts take.
fn over(random: &mut Random, at: u64) -> Option<String> {
    let until = match random.percent(50) {
        true => "0".to_owned(),
        false => format!("+{}", at + random.scaled(1, 20_000)),
    };
    match random.between(0, 9) {
        0..3 => None,
        3 => Some(format!("0 {until}")),
        4 => Some(random.pick(&["", "5", "5 0 0", "x 0", "-5 0"]).to_owned()),
        _ => Some(format!("{} {until}", random.scaled(1, 6))),
    }
}
