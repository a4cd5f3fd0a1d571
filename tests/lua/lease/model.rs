//! What the store must hold and answer, by the pure model in `sluicegate::limit`.

use std::collections::BTreeMap;
use std::rc::Rc;

use sluicegate::limit::concurrency::{Holders, Lease, Touch};
use sluicegate::limit::state::EPOCH_MS;
use sluicegate::limit::waiting::{self, Ahead, Patience, Turn, Waiting};
use sluicegate::limit::{Check, Quota, State, Verdict, Wait, decide};
use sluicegate::policy::Algorithm;

use super::super::model::CHARGE_TTL_MS;
use super::super::trace::{Rule, absolute};
use super::subject::{Life, Seat, Subject};
use super::trace::{Act, BASE_MS, Item, Step, Trace, fence_in};

/// How much longer than a place in it a queue's key lives.
const QUEUE_MARGIN_MS: u64 = 2_000;

/// Everything that is known of the subjects of a trace.
#[derive(Debug, Clone)]
pub struct Model {
    /// One for each limit.
    pub subjects: Vec<Subject>,
    /// Charge ids: until when they are kept, by true time, and what their keys hold.
    pub charges: BTreeMap<String, (u64, String)>,
    /// Whether the store's clock has told the truth all along.
    pub honest: bool,
}

impl Model {
    /// Nothing known of anybody.
    pub fn new(trace: &Trace) -> Self {
        let subjects = trace.limits.iter().map(|text| Subject {
            rule: Rule::parse(text),
            over: None,
            state: None,
            waiting: Waiting::default(),
            life: Life::None,
            queue_life: Life::None,
        });
        Self { subjects: subjects.collect(), charges: BTreeMap::new(), honest: true }
    }

    /// The limit whose slots are spoken of.
    pub fn slots(&self) -> usize {
        let kind = |subject: &Subject| subject.rule.quota.algorithm == Algorithm::Concurrency;
        self.subjects.iter().position(kind).expect("a concurrency limit")
    }

    /// How many of the limits are concurrency limits.
    pub fn fences(&self) -> usize {
        let kind = |subject: &&Subject| subject.rule.quota.algorithm == Algorithm::Concurrency;
        self.subjects.iter().filter(kind).count()
    }

    /// Does what a step says happens before it, and what time does.
    ///
    /// # Errors
    /// A key expired that somebody still lived in.
    pub fn prepare(&mut self, step: &Step) -> Result<(), String> {
        self.honest &= step.store == 0;
        self.charges.retain(|_, (due, _)| *due > step.at);
        for (index, subject) in self.subjects.iter_mut().enumerate() {
            let clock = step.store_ms();
            if subject.life.over(step.at) {
                let holding = subject.holders().count(clock);
                if self.honest && holding > 0 {
                    return Err(format!("limit {index}: the key expires under {holding} holders"));
                }
                (subject.state, subject.life) = (None, Life::None);
            }
            if subject.queue_life.over(step.at) {
                if self.honest && subject.waiting.living(clock).count() > 0 {
                    return Err(format!("limit {index}: the key expires under waiters"));
                }
                (subject.waiting, subject.queue_life) = (Waiting::default(), Life::None);
            }
            if step.flush {
                let Subject { state, over, waiting, life, queue_life, .. } = subject;
                (*state, *over, *waiting) = (None, None, Waiting::default());
                (*life, *queue_life) = (Life::None, Life::None);
            }
            for life in [&mut subject.life, &mut subject.queue_life] {
                if step.persist && *life != Life::None {
                    *life = Life::Forever;
                }
            }
        }
        if step.flush {
            self.charges.clear();
        }
        if let Some(limits) = &step.limits {
            for (subject, text) in self.subjects.iter_mut().zip(limits) {
                subject.rule = Rule::parse(text);
            }
        }
        for (limit, over) in &step.overrides {
            self.subjects[*limit].over = over.as_ref().map(|over| absolute(over, BASE_MS));
        }
        Ok(())
    }

    /// Does the step; the script's reply.
    pub fn step(&mut self, step: &Step) -> Vec<Item> {
        match &step.act {
            Act::Request { id, clock, store_clock, costs, charge } => {
                let now_ms = match store_clock {
                    true => step.store_ms(),
                    false => (BASE_MS + step.at).saturating_add_signed(*clock),
                };
                let reply = match charge {
                    None => self.request(step, &id.as_str().into(), costs, now_ms),
                    Some((charge, print)) => match self.charges.get(charge) {
                        Some((_, text)) => repeated(text, print),
                        None => {
                            let mut reply = self.request(step, &id.as_str().into(), costs, now_ms);
                            if reply[0] == 1 {
                                reply.push(now_ms.max(EPOCH_MS) as i64);
                                let text: Vec<String> = reply.iter().map(i64::to_string).collect();
                                let text = format!("{print} {}", text.join(" "));
                                self.charges.insert(charge.clone(), (step.at + CHARGE_TTL_MS, text));
                            }
                            reply
                        }
                    },
                };
                reply.into_iter().map(Item::Number).collect()
            }
            _ => self.slot(step),
        }
    }

    fn request(&mut self, step: &Step, id: &Rc<str>, costs: &[u64], now_ms: u64) -> Vec<i64> {
        let store_ms = step.store_ms();
        let cost = |index: usize| costs.get(index).copied().unwrap_or(1);
        let mut checks = Vec::new();
        let mut seats = Vec::new();
        let mut mended = vec![false; self.subjects.len()];
        for (index, subject) in self.subjects.iter().enumerate() {
            let (quota, ban) = subject.in_force(now_ms);
            if quota.algorithm == Algorithm::Concurrency {
                let seat = subject.seat(id, quota, cost(index), now_ms, store_ms);
                seats.push(Some(Seat { wait: ban.unwrap_or(seat.wait), ..seat }));
                // Here in its place; it refuses where the seat does.
                let refuses =
                    ban.is_some() || seats[index].as_ref().is_some_and(|seat| seat.wait != Wait::None);
                let stand_in =
                    Quota { algorithm: Algorithm::FixedWindow, limit: 1, burst: 1, window_ms: 1_000 };
                let cost = if refuses { 2 } else { 0 };
                checks.push(Check { quota: stand_in, cost, ..check(subject.rule.shadow, None) });
                continue;
            }
            let mut state = subject.state.clone();
            mended[index] = state.as_mut().is_some_and(|state| state.repair(&quota, now_ms, store_ms));
            checks.push(Check { quota, cost: cost(index), ..check(subject.rule.shadow, state) });
            seats.push(None);
        }
        let decision = decide(&checks, now_ms);
        let mut reply = vec![i64::from(decision.allowed)];
        let mut fences = Vec::new();
        let decided = decision.verdicts.into_iter().zip(decision.writes).zip(seats);
        for (index, ((verdict, write), seat)) in decided.enumerate() {
            let subject = &mut self.subjects[index];
            let Some(seat) = seat else {
                reply.extend(numbers(&verdict));
                let Check { quota, state, .. } = &checks[index];
                let settled = || State::settle(state.as_ref(), quota, now_ms);
                if let Some(state) = write.or_else(|| mended[index].then(settled)) {
                    subject.life = Life::Until(step.at + quota.ttl_ms());
                    subject.state = Some(state);
                }
                continue;
            };
            let (quota, ban) = subject.in_force(now_ms);
            let Seat { mut holders, clock_ms, mended, wait } = seat;
            let taken = decision.allowed && wait == Wait::None && cost(index) > 0;
            let lease = taken.then(|| holders.take(id, quota.window_ms, clock_ms));
            fences.push(lease.map_or(0, |lease| lease.fence as i64));
            if ban.is_some() {
                reply.extend(numbers(&Verdict { limit: 0, remaining: 0, reset_ms: 0, wait }));
                continue;
            }
            reply.extend(numbers(&Verdict {
                limit: quota.limit,
                remaining: holders.free(quota.limit, clock_ms),
                reset_ms: holders.reset_ms(clock_ms),
                wait,
            }));
            if taken || mended {
                subject.write(holders, step.at);
            }
        }
        reply.extend(fences);
        reply
    }

    fn slot(&mut self, step: &Step) -> Vec<Item> {
        let clock = step.store_ms();
        let slots = self.slots();
        let subject = &mut self.subjects[slots];
        let (quota, ban) = subject.in_force(clock);
        let limit = if ban.is_some() { 0 } else { quota.limit };
        let mut holders = subject.holders();
        let whole = |number: u64| number as i64;
        let reply = match &step.act {
            Act::Request { .. } => panic!("a request is no slot's"),
            Act::Take { id, wait } => {
                let patience =
                    wait.map(|(wait_ms, patience_ms, most)| Patience { wait_ms, patience_ms, most });
                let id: Rc<str> = id.as_str().into();
                let refused = |code, wait, waiters| {
                    vec![code, waited(wait), whole(waiters), whole(clock), whole(limit)]
                };
                if let Some(ban) = ban.filter(|_| holders.lease(&id, clock).is_none()) {
                    return items(&refused(0, ban, 0));
                }
                let before = subject.waiting.clone();
                let pair = (&mut holders, &mut subject.waiting);
                let turn = waiting::take(pair, &id, (limit, quota.window_ms), patience, clock);
                if subject.waiting.all().is_empty() {
                    subject.queue_life = Life::None;
                }
                match turn {
                    Turn::Taken(lease) => {
                        subject.write(holders.clone(), step.at);
                        done(lease, clock, limit, &holders)
                    }
                    Turn::QueueFull(Ahead { wait, waiters }) => refused(4, wait, waiters),
                    Turn::Refused(Ahead { wait, waiters }) => {
                        if let Some(Patience { wait_ms, patience_ms, .. }) =
                            patience.filter(|patience| patience.wait_ms > 0)
                        {
                            // A queue whose waiters have all been dropped is another key.
                            if before.living(clock).count() == 0 {
                                subject.queue_life = Life::None;
                            }
                            let kept_ms = wait_ms.min(patience_ms);
                            subject.queue_life.kept(step.at, kept_ms + QUEUE_MARGIN_MS);
                        }
                        refused(0, wait, waiters)
                    }
                }
            }
            Act::Renew(id, fence) => match holders.renew(id, fence_in(*fence), quota.window_ms, clock) {
                Touch::Done(lease) => {
                    subject.write(holders.clone(), step.at);
                    done(lease, clock, limit, &holders)
                }
                other => vec![code(other)],
            },
            Act::Free(id, fence) => match holders.release(id, fence_in(*fence), clock) {
                Touch::Done(lease) => {
                    subject.write(holders.clone(), step.at);
                    done(lease, clock, limit, &holders)
                }
                other => vec![code(other)],
            },
            Act::Leave(id) => match subject.waiting.leave(id) {
                true => {
                    if subject.waiting.all().is_empty() {
                        subject.queue_life = Life::None;
                    }
                    done(Lease { fence: 0, expires_ms: 0 }, clock, limit, &holders)
                }
                false => vec![2],
            },
            Act::List => return subject.listed(limit, clock),
        };
        items(&reply)
    }
}

fn check(shadow: bool, state: Option<State>) -> Check {
    let quota = Quota { algorithm: Algorithm::FixedWindow, limit: 1, burst: 1, window_ms: 1 };
    Check { quota, cost: 0, shadow, state, holder: None, ahead_ms: None, more: 0 }
}

/// The reply that was kept under a charge id, or a conflict.
fn repeated(text: &str, print: &str) -> Vec<i64> {
    match text.split_once(' ') {
        Some((own, first)) if own == print => {
            first.split(' ').map(|number| number.parse().expect("an integer")).collect()
        }
        _ => vec![2],
    }
}

fn done(lease: Lease, clock: u64, limit: u64, holders: &Holders) -> Vec<i64> {
    let free = holders.free(limit, clock);
    [1, lease.fence, lease.expires_ms, clock, limit, free].map(|number| number as i64).to_vec()
}

fn code(touch: Touch) -> i64 {
    match touch {
        Touch::Done(_) => 1,
        Touch::Gone => 2,
        Touch::OtherFence => 3,
    }
}

fn waited(wait: Wait) -> i64 {
    match wait {
        Wait::None => 0,
        Wait::Ms(ms) => ms as i64,
        Wait::Never => -1,
    }
}

fn numbers(verdict: &Verdict) -> [i64; 4] {
    let wait = waited(verdict.wait);
    let reset = if wait > 0 { wait } else { verdict.reset_ms as i64 };
    [verdict.limit as i64, verdict.remaining as i64, reset, wait]
}

fn items(numbers: &[i64]) -> Vec<Item> {
    numbers.iter().copied().map(Item::Number).collect()
}
