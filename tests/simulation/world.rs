//! The run of one seed: events in the order of true time.

mod asked;
mod ended;
mod tally;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use sluicegate::gateway::Step;
use sluicegate::store::Class;

use super::command::{Ask, Command, Script};
use super::faults::{self, Back, Fault, Said};
use super::isolate::Isolate;
use super::random::Random;
use super::scenario::{Deed, Scenario};
use super::store::Store;
use super::verdicts::{Locals, Told};
pub use tally::Tally;

/// What happens next.
#[derive(Debug)]
enum Event {
    Arrive(usize),
    /// A call reaches the store.
    Reach(usize),
    /// Its reply reaches the isolate.
    Back(usize, Back, Option<Vec<i64>>),
    /// It has taken as long as it may.
    Deadline(usize),
    /// The platform's own limiter has answered.
    Located {
        request: usize,
        ticket: u32,
        answers: String,
    },
    Leave(usize),
    Deed(Deed),
}

/// One call to the store.
#[derive(Debug)]
struct Sent {
    request: usize,
    ticket: u32,
    command: Command,
    over: bool,
}

/// One request.
#[derive(Debug, Default)]
struct Live {
    /// Numbers of its calls.
    calls: Vec<usize>,
    /// When the store has to have answered, by the isolate's clock.
    deadline_ms: u64,
    /// Once a call of it may have been run without an answer.
    ambiguous: bool,
    retried: bool,
    /// How often the store charged it.
    charged: u32,
    /// The answer of the platform's limiter.
    located: Option<char>,
    left: bool,
    told: Option<Told>,
}

/// Why a step is taken.
enum Cause {
    Received,
    Answered(Vec<i64>),
    Failed(Class, Script),
    Located,
}

pub struct World {
    scenario: Scenario,
    random: Random,
    isolates: Vec<Isolate>,
    store: Store,
    locals: Locals,
    live: Vec<Live>,
    sent: Vec<Sent>,
    /// By limit and subject, once a call has named them.
    known: HashMap<(usize, u64), Ask>,
    /// State keys that others reset or overrode, and when.
    meddled: HashMap<String, u64>,
    /// Requests under idempotency keys by fingerprint, so that no two are taken for one, nor one for two.
    prints: HashMap<String, String>,
    /// First answers under idempotency keys, by the charge id's key.
    firsts: HashMap<String, Told>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    events: Vec<Option<Event>>,
    tally: Tally,
}

impl World {
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let scenario = Scenario::draw(&mut random);
        let isolates = scenario.clocks.iter().map(|clock| Isolate::new(&scenario, *clock)).collect();
        let store = Store::new(scenario.upstash == Some(false));
        let live = scenario.plans.iter().map(|_| Live::default()).collect();
        Self {
            scenario,
            random,
            isolates,
            store,
            live,
            locals: Locals::default(),
            sent: Vec::new(),
            known: HashMap::new(),
            meddled: HashMap::new(),
            prints: HashMap::new(),
            firsts: HashMap::new(),
            queue: BinaryHeap::new(),
            events: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Plays it to its end, and asserts what is due then.
    pub fn play(mut self) -> Tally {
        for index in 0..self.scenario.plans.len() {
            self.at(self.scenario.plans[index].at_ms, Event::Arrive(index));
        }
        for (at_ms, deed) in self.scenario.deeds.clone() {
            self.at(at_ms, Event::Deed(deed));
        }
        while let Some(Reverse((true_ms, index))) = self.queue.pop() {
            let event = self.events[index].take().expect("an event happens once");
            self.happen(event, true_ms);
        }
        self.settle();
        self.tally
    }

    fn at(&mut self, true_ms: u64, event: Event) {
        self.queue.push(Reverse((true_ms, self.events.len())));
        self.events.push(Some(event));
    }

    fn happen(&mut self, event: Event, true_ms: u64) {
        match event {
            Event::Arrive(request) => {
                let plan = self.scenario.plans[request].clone();
                if let Some(after_ms) = plan.leaves_after_ms {
                    self.at(true_ms + after_ms, Event::Leave(request));
                }
                let isolate = &mut self.isolates[plan.isolate];
                let now_ms = isolate.now(true_ms);
                let drawn = self.random.part();
                let step = isolate.receive(&plan, self.scenario.rules.len(), now_ms, drawn);
                self.follow(request, step, &Cause::Received, now_ms, true_ms);
            }
            Event::Reach(call) => self.reach(call, true_ms),
            Event::Back(call, back, numbers) => self.back(call, back, numbers, true_ms),
            Event::Deadline(call) => {
                let back = Back { reply: Some(Said::None("deadline")), class: Some(Class::Unreachable) };
                self.back(call, back, None, true_ms);
            }
            Event::Located { request, ticket, answers } if !self.live[request].left => {
                let isolate = &mut self.isolates[self.scenario.plans[request].isolate];
                let now_ms = isolate.now(true_ms);
                let step = isolate.gateway.conclude_location(ticket, &answers, now_ms);
                self.live[request].located = answers.chars().next();
                self.follow(request, step, &Cause::Located, now_ms, true_ms);
            }
            Event::Located { .. } => {}
            Event::Leave(request) => {
                let live = &mut self.live[request];
                if live.told.is_none() {
                    live.left = true;
                    let isolate = &mut self.isolates[self.scenario.plans[request].isolate];
                    live.calls.iter().for_each(|call| isolate.left(*call));
                }
            }
            Event::Deed(deed) => self.meddle(deed, true_ms),
        }
    }

    fn meddle(&mut self, deed: Deed, true_ms: u64) {
        let mut known: Vec<&Ask> = self.known.values().collect();
        known.sort_by(|one, other| one.state.cmp(&other.state));
        let ask = (!known.is_empty()).then(|| self.random.pick(&known).clone());
        match (deed, ask) {
            (Deed::ForgetScripts, _) => self.store.forget_scripts(),
            (_, None) => {}
            (Deed::Reset, Some(ask)) => {
                self.store.reset(&ask.state);
                self.meddled.insert(ask.state, true_ms);
            }
            (Deed::Override(limit), Some(ask)) => {
                self.store.set_override(&ask.over, limit);
                self.meddled.insert(ask.state, true_ms);
            }
        }
    }

    fn follow(&mut self, request: usize, step: Step, cause: &Cause, now_ms: u64, true_ms: u64) {
        self.isolates[self.scenario.plans[request].isolate].note_phase(now_ms);
        match step {
            Step::Ask(call) => self.ask(request, call, cause, now_ms, true_ms),
            Step::Location(location) => {
                self.explain(request, cause, now_ms);
                let answer = self.random.pick(&["1", "0", "x"]);
                let answers = answer.repeat(location.keys.len());
                let event = Event::Located { request, ticket: location.ticket, answers };
                let after_ms = self.random.between(0, 5);
                self.at(true_ms + after_ms, event);
            }
            Step::Body(_) => panic!("nobody asked for a body"),
            end => self.end(request, &end, cause, now_ms, true_ms),
        }
    }

    /// A request is to go on without the store.
    fn explain(&mut self, request: usize, cause: &Cause, now_ms: u64) {
        if let Cause::Received = cause {
            self.isolates[self.scenario.plans[request].isolate].kept_away(now_ms);
            self.tally.kept_away += 1;
        }
    }

    fn slowness(&mut self, true_ms: u64) -> u64 {
        let slow =
            self.scenario.spells.iter().filter(|spell| spell.is_on(true_ms)).map(|spell| spell.slow_ms);
        let most = slow.max().unwrap_or(0) / 2;
        self.random.between(0, most)
    }

    fn fault(&mut self, true_ms: u64) -> Option<Fault> {
        let spell = self.scenario.spells.iter().find(|spell| spell.is_on(true_ms))?;
        self.random.percent(spell.share).then(|| self.random.pick(&spell.faults))
    }

    fn reach(&mut self, call: usize, true_ms: u64) {
        let fault = self.fault(true_ms);
        let Sent { request, command, .. } = &self.sent[call];
        let (request, command) = (*request, command.clone());
        let mut numbers = None;
        let back = if fault.is_none_or(Fault::runs) {
            match self.store.run(&command, true_ms) {
                Err(text) => {
                    let class = if text.starts_with("NOSCRIPT") { Class::NoScript } else { Class::Dialect };
                    Back { reply: Some(faults::error(&text, &mut self.random)), class: Some(class) }
                }
                Ok(ran) => {
                    self.live[request].charged += u32::from(ran.charged);
                    match fault {
                        Some(fault) => fault.back(&ran.reply, &mut self.random),
                        None => {
                            let body = serde_json::json!({ "result": ran.reply }).to_string();
                            numbers = Some(ran.reply);
                            Back { reply: Some(Said::Whole(200, body, 0)), class: None }
                        }
                    }
                }
            }
        } else {
            fault.expect("a fault").back(&[], &mut self.random)
        };
        if back.reply.is_some() {
            let down_ms = self.random.between(1, 15) + self.slowness(true_ms);
            self.at(true_ms + down_ms, Event::Back(call, back, numbers));
        }
    }

    fn back(&mut self, call: usize, back: Back, numbers: Option<Vec<i64>>, true_ms: u64) {
        let sent = &mut self.sent[call];
        let (request, ticket, script) = (sent.request, sent.ticket, sent.command.script.clone());
        if std::mem::replace(&mut sent.over, true) || self.live[request].left {
            return;
        }
        let isolate = &mut self.isolates[self.scenario.plans[request].isolate];
        let now_ms = isolate.now(true_ms);
        let drawn = self.random.part();
        let reply = back.reply.expect("something came back");
        isolate.came_back(call);
        let step = isolate.conclude(ticket, &reply, now_ms, drawn);
        let cause = match back.class {
            None => Cause::Answered(numbers.expect("an answer")),
            Some(class) => {
                self.live[request].ambiguous |= matches!(class, Class::Unreachable | Class::Malformed);
                Cause::Failed(class, script)
            }
        };
        match (&cause, &step) {
            (Cause::Answered(_), _) => isolate.answers += 1,
            // In another form it would have gone on, but for the breaker, which has opened meanwhile.
            (
                Cause::Failed(Class::NoScript | Class::Dialect, _),
                Step::Answer(_) | Step::Forward(_) | Step::Location(_),
            ) if isolate.was_kept_away() => {
                isolate.kept_away(now_ms);
                isolate.reasks += 1;
            }
            (Cause::Failed(class, _), Step::Answer(_) | Step::Forward(_) | Step::Location(_)) => {
                isolate.failed(*class);
            }
            _ => {}
        }
        self.follow(request, step, &cause, now_ms, true_ms);
    }
}
