//! Permits over several isolates: calls that take their time, replies that are lost, tickets that nobody comes back for.
//! What passed, by the moment at which it was decided to pass, is held against what the limit may let pass; what was
//! charged, against what passed.

mod backend;

use std::collections::BTreeMap;

use sluicegate::gateway::{Bindings, Call, Gateway, Reply, Step};
use sluicegate::limit::Quota;
use sluicegate::policy::Algorithm;

use super::clock::START_MS;
use super::command::Command;
use super::law::{self, Passed};
use super::random::Random;
use super::redis::Server;
use super::seeds;
use super::verdicts::Told;
use backend::{Backend, Kind};

const TIMEOUT_MS: u64 = 150;

/// Requests of one run.
const REQUESTS: u64 = 250;

/// Algorithms that lend, with their names.
const LENDING: [(Algorithm, &str); 3] = [
    (Algorithm::TokenBucket, "token-bucket"),
    (Algorithm::FixedWindow, "fixed-window"),
    (Algorithm::SlidingWindow, "sliding-window"),
];

#[derive(Debug, Clone, Copy)]
struct Rule {
    quota: Quota,
    name: &'static str,
    /// Units of a batch and its time; none takes no permits.
    batch: Option<(u64, u64)>,
}

impl Rule {
    fn draw(random: &mut Random) -> Self {
        let (algorithm, name) = random.pick(&LENDING);
        let limit = random.pick(&[random.clone().between(2, 20), random.clone().between(20, 200)]);
        let burst = if algorithm == Algorithm::TokenBucket { random.between(2, 200) } else { limit };
        let window_ms = random.pick(&[500, 1_000, 4_000]);
        let ttl_ms = random.pick(&[100, 300, 500]);
        let batch = random.percent(80).then(|| (random.between(2, limit.min(burst)), ttl_ms));
        Self { quota: Quota { algorithm, limit, burst, window_ms }, name, batch }
    }

    fn policy(&self, index: usize) -> serde_json::Value {
        let mut limit = serde_json::json!({
            "name": format!("limit-{index}"), "algorithm": self.name, "limit": self.quota.limit,
            "window": format!("{}ms", self.quota.window_ms), "key": ["global"], "on_store_error": "closed",
        });
        if self.quota.algorithm == Algorithm::TokenBucket {
            limit["burst"] = self.quota.burst.into();
        }
        if let Some((units, ttl_ms)) = self.batch {
            limit["lease_batch"] = units.into();
            limit["lease_ttl"] = format!("{ttl_ms}ms").into();
        }
        limit
    }

    /// Holds what passed against what may. Of a window nothing more may pass than without permits; a bucket may let pass
    /// `ttl_ms` worth of its rate more, and no more than every isolate can have in hand.
    fn assert_kept(&self, passed: &[Passed], isolates: u64) {
        let Quota { algorithm, limit, burst, window_ms } = self.quota;
        let Some((units, ttl_ms)) = self.batch.filter(|_| algorithm == Algorithm::TokenBucket) else {
            return law::assert_kept(&self.quota, passed, "permits");
        };
        for last in 0..passed.len() {
            let mut sum = 0;
            for first in (0..=last).rev() {
                sum += passed[first].units;
                let time_ms = passed[last].at_ms - passed[first].at_ms;
                let late = ((time_ms + ttl_ms) * limit).min(time_ms * limit + isolates * units * window_ms);
                assert!(sum * window_ms <= burst * window_ms + late, "{self:?}: {sum} in {time_ms} ms");
            }
        }
    }
}

struct Isolate {
    gateway: Gateway,
    /// What its clock is ahead of the truth by.
    ahead_ms: i64,
}

/// A request that waits for the store.
struct Waiting {
    isolate: usize,
    ticket: u32,
    cost: u64,
    /// When its permits were held, by true time.
    held_ms: u64,
    /// Where the store decided, by index, and when.
    decided_ms: BTreeMap<usize, u64>,
}

enum Event {
    Ask { isolate: usize, cost: u64 },
    Reach { waiting: Waiting, body: String },
    Reply { waiting: Waiting, reply: Option<String> },
}

struct World {
    rules: Vec<Rule>,
    isolates: Vec<Isolate>,
    store: Backend,
    random: Random,
    events: BTreeMap<(u64, u64), Event>,
    order: u64,
    /// The latest clock that a limit was decided by.
    latest_ms: Vec<u64>,
    passed: Vec<Vec<Passed>>,
    charged: Vec<u64>,
    cached: u64,
    lossy: bool,
}

impl World {
    fn new(seed: u64, store: Backend) -> Self {
        let mut random = Random::new(seed);
        let rules: Vec<Rule> = (0..random.pick(&[1, 1, 2])).map(|_| Rule::draw(&mut random)).collect();
        let store_clock = random.percent(50);
        let policy = serde_json::json!({
            "version": 1,
            "gateway": { "origin": "http://127.0.0.1:8081" },
            "store": {
                "prefix": format!("seed-{seed}"), "timeout": format!("{TIMEOUT_MS}ms"), "breaker": { "min_calls": 1_000 },
                "clock": if store_clock { "store" } else { "edge" }, "exactly_once": random.percent(50),
                "remember": random.pick(&["0s", "1s"]), "retry": { "budget": 1.0 },
            },
            "limits": rules.iter().enumerate().map(|(index, rule)| rule.policy(index)).collect::<Vec<_>>(),
        });
        let bindings = Bindings {
            store_url: Some("https://store.example.com".to_owned()),
            has_token: true,
            ..Bindings::default()
        };
        let count = random.between(1, 4);
        let isolates = (0..count).map(|_| {
            let gateway = Gateway::new(&policy.to_string(), &bindings).expect("a policy");
            // Where callers' clocks count, a law by true time holds for those that tell it.
            let ahead_ms = if store_clock { random.between(0, 4_000) as i64 - 2_000 } else { 0 };
            Isolate { gateway, ahead_ms }
        });
        let isolates = isolates.collect();
        let lossy = random.percent(50);
        let passed = vec![Vec::new(); rules.len()];
        let (latest_ms, charged) = (vec![0; rules.len()], vec![0; rules.len()]);
        let (events, order, cached) = (BTreeMap::new(), 0, 0);
        let mut world =
            Self { rules, isolates, store, random, events, order, latest_ms, passed, charged, cached, lossy };
        let (mut at_ms, busy) = (START_MS, world.random.pick(&[1, 3, 20]));
        for _ in 0..REQUESTS {
            at_ms += world.random.between(0, busy);
            if world.random.percent(2) {
                at_ms += world.random.between(0, 1_500);
            }
            let isolate = world.random.between(0, count - 1) as usize;
            let cost = if world.random.percent(80) { 1 } else { world.random.between(0, 4) };
            world.at(at_ms, Event::Ask { isolate, cost });
        }
        world
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.order += 1;
        self.events.insert((at_ms, self.order), event);
    }

    fn play(&mut self) {
        while let Some(((true_ms, _), event)) = self.events.pop_first() {
            match event {
                Event::Ask { isolate, cost } => {
                    let names: Vec<String> =
                        (0..self.rules.len()).map(|index| format!("limit-{index}")).collect();
                    let question = serde_json::json!({ "limits": names, "cost": cost }).to_string();
                    let (now_ms, random) = (self.now(isolate, true_ms), self.random.part());
                    let step = self.isolates[isolate].gateway.check(Some(&question), now_ms, random);
                    let decided_ms = BTreeMap::new();
                    self.step(
                        &step,
                        Waiting { isolate, ticket: 0, cost, held_ms: true_ms, decided_ms },
                        true_ms,
                    );
                }
                Event::Reach { mut waiting, body } => {
                    let command = Command::read(&body);
                    let reply = match self.store.run(&body, true_ms) {
                        Ok(ran) => {
                            // A repeat may find that the first was charged, and what is not charged leaves no trace.
                            let asks = command.asks.iter().zip(ran.charged);
                            for (ask, units) in asks.filter(|(_, units)| *units > 0) {
                                let index = limit(&ask.state);
                                // A clock that is behind an earlier one counts as standing at that.
                                let latest_ms = &mut self.latest_ms[index];
                                *latest_ms = command.now_ms.unwrap_or(true_ms).max(*latest_ms);
                                waiting.decided_ms.insert(index, *latest_ms);
                                self.charged[index] += units;
                            }
                            serde_json::json!({ "result": ran.reply })
                        }
                        Err(text) => serde_json::json!({ "error": text }),
                    };
                    let lost = self.lossy && self.random.percent(10);
                    let slow_ms = if self.random.percent(10) { TIMEOUT_MS } else { 10 };
                    let back_ms = true_ms + self.random.between(1, slow_ms);
                    match lost {
                        false => self.at(back_ms, Event::Reply { waiting, reply: Some(reply.to_string()) }),
                        // Its client has left; or the gateway gives up, or sees the connection fail.
                        true if self.random.percent(50) => {}
                        true => self.at(back_ms, Event::Reply { waiting, reply: None }),
                    }
                }
                Event::Reply { waiting, reply } => {
                    let (now_ms, random) = (self.now(waiting.isolate, true_ms), self.random.part());
                    let reply = match &reply {
                        Some(body) => Reply::Whole { status: 200, body, retry_after_s: 0 },
                        None => Reply::None("connection"),
                    };
                    let gateway = &mut self.isolates[waiting.isolate].gateway;
                    let step = gateway.conclude(waiting.ticket, reply, now_ms, random);
                    self.step(&step, waiting, true_ms);
                }
            }
        }
    }

    fn now(&self, isolate: usize, true_ms: u64) -> u64 {
        true_ms.saturating_add_signed(self.isolates[isolate].ahead_ms)
    }

    fn step(&mut self, step: &Step, waiting: Waiting, true_ms: u64) {
        if let Step::Ask(Call { ticket, delay_ms, body, .. }) = step {
            let slow_ms = if self.random.percent(10) { 60 } else { 5 };
            let reach_ms = true_ms + delay_ms + self.random.between(1, slow_ms);
            let waiting = Waiting { ticket: *ticket, ..waiting };
            return self.at(reach_ms, Event::Reach { waiting, body: body.clone() });
        }
        let told = Told::of(step, true);
        let cached = told.tier.as_deref() == Some("cache");
        if !told.passed {
            return;
        }
        self.cached += u64::from(cached);
        assert!(waiting.cost == 0 || cached == waiting.decided_ms.is_empty(), "who decided: {told:?}");
        for index in (0..self.rules.len()).filter(|_| waiting.cost > 0) {
            let at_ms = waiting.decided_ms.get(&index).copied().unwrap_or(waiting.held_ms);
            self.passed[index].push(Passed { at_ms, units: waiting.cost });
        }
    }

    fn assert_kept(&mut self) {
        for (index, rule) in self.rules.iter().enumerate() {
            let passed = &mut self.passed[index];
            passed.sort_by_key(|passed| passed.at_ms);
            let units: u64 = passed.iter().map(|passed| passed.units).sum();
            let charged = self.charged[index];
            assert!(units <= charged, "{units} passed, {charged} charged: {rule:?}");
            rule.assert_kept(passed, self.isolates.len() as u64);
        }
    }
}

/// The index of the limit that a key belongs to.
fn limit(key: &str) -> usize {
    let name = key.split(':').nth(2).expect("a limit's name");
    name.trim_start_matches("limit-").parse().expect("a number")
}

/// Plays so many runs.
fn play(seeds: u64, store: impl Fn() -> Kind + Sync) {
    let ended = seeds::each(seeds, |seed| {
        let mut world = World::new(seed, Backend::new(store()));
        world.play();
        world.assert_kept();
        let end_ms = START_MS + 3_600_000;
        for isolate in &mut world.isolates {
            let counts = isolate.gateway.permit_counts(end_ms);
            // Tickets that nobody came back for may still hold some.
            assert!(world.lossy || counts.in_hand() == 0, "an hour later: {counts:?}");
            assert!(counts.spent + counts.lapsed <= counts.granted, "{counts:?}");
        }
        (world.cached, world.passed[0].len() as u64)
    });
    let (cached, passed) = ended.iter().fold((0, 0), |sum, end| (sum.0 + end.0, sum.1 + end.1));
    assert!(
        cached * 5 > passed,
        "{cached} of {passed} requests passed by permits, too few to prove anything"
    );
}

#[test]
fn no_more_passes_than_the_limit_says() {
    play(300, || Kind::Model(Box::default()));
}

#[test]
fn nor_on_a_real_redis() {
    let server = Server::start();
    play(100, || Kind::Redis(server.client()));
}
