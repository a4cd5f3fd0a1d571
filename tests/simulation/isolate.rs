//! One isolate: its gateway, and what must hold of every step it takes.

use std::collections::HashMap;

use sluicegate::gateway::{Bindings, Counters, Gateway, Reply, Request, Step};
use sluicegate::store::Class;
use sluicegate::store::breaker::Phase;
use sluicegate::subject::Platform;

use super::clock::Clock;
use super::faults::{Said, WORDS};
use super::scenario::{Plan, Scenario, Settings};

/// Stands in every secret, host and value of a client's, and must come out nowhere.
const RAW: &str = "-raw-";

/// How long after its deadline a call that nobody came back for counts as under way.
const LOST_AFTER_MS: u64 = 1_000;

/// Retries that a budget saves up at most.
const SAVED: f64 = 10.0;

/// A call that was asked for and has not come back.
#[derive(Debug, Clone, Copy)]
struct Out {
    deadline_ms: u64,
    probe: bool,
    /// Its request was given up by its client; nobody comes back.
    left: bool,
}

pub struct Isolate {
    pub gateway: Gateway,
    pub clock: Clock,
    settings: Settings,
    /// Calls by the number that the world gives them.
    out: HashMap<usize, Out>,
    /// The latest reading: a clock that steps back counts as standing still.
    latest_ms: u64,
    /// The budget by its rule: a call puts part of a retry in, a retry takes one out.
    tokens: f64,
    first_calls: u64,
    failing: bool,
    fell_back: bool,
    expected: Counters,
    pub answers: u64,
    pub reasks: u64,
    pub transitions: u64,
}

/// A request as the platform shows it.
struct Shown<'a>(&'a Plan);

impl Platform for Shown<'_> {
    fn header(&self, name: &str) -> Option<String> {
        match name {
            "cf-connecting-ip" => Some(address(self.0)),
            "x-tenant" => Some(tenant(self.0)),
            "x-cost" => self.0.cost.map(|cost| cost.to_string()),
            "idempotency-key" => self.0.idempotency.map(|key| format!("key{RAW}{key}")),
            _ => None,
        }
    }

    fn country(&self) -> Option<String> {
        None
    }

    fn asn(&self) -> Option<String> {
        None
    }
}

fn address(plan: &Plan) -> String {
    format!("198.51.100.{}", plan.address)
}

fn tenant(plan: &Plan) -> String {
    format!("tenant{RAW}{}", plan.tenant)
}

impl Isolate {
    pub fn new(scenario: &Scenario, clock: Clock) -> Self {
        let host = if scenario.upstash.is_some() { "upstash.io" } else { "example.com" };
        let bindings = Bindings {
            store_url: Some(format!("https://store{RAW}host.{host}")),
            has_token: true,
            admin_token: Some(format!("admin{RAW}token")),
            key_secret: Some(format!("secret{RAW}key")),
            ..Bindings::default()
        };
        let policy = scenario.policy.to_string();
        let gateway = Gateway::new(&policy, &bindings).unwrap_or_else(|wrong| panic!("{wrong:?}: {policy}"));
        let settings = scenario.settings.clone();
        Self {
            gateway,
            clock,
            tokens: if settings.budget > 0.0 { 1.0 } else { 0.0 },
            settings,
            out: HashMap::new(),
            latest_ms: 0,
            first_calls: 0,
            failing: false,
            fell_back: false,
            expected: Counters::default(),
            answers: 0,
            reasks: 0,
            transitions: 0,
        }
    }

    pub fn now(&mut self, true_ms: u64) -> u64 {
        let now_ms = self.clock.reads(true_ms);
        self.latest_ms = self.latest_ms.max(now_ms);
        now_ms
    }

    pub fn receive(&mut self, plan: &Plan, limits: usize, now_ms: u64, random: f64) -> Step {
        let step = if plan.check {
            let names: Vec<String> = (0..limits).map(|index| format!("limit-{index}")).collect();
            let mut question = serde_json::json!({
                "limits": names,
                "subject": { "ip": address(plan), "header:x-tenant": tenant(plan) },
                "cost": plan.cost.unwrap_or(1),
            });
            if let Some(key) = plan.idempotency {
                question["subject"]["header:idempotency-key"] = format!("key{RAW}{key}").into();
            }
            self.gateway.check(Some(&question.to_string()), now_ms, random)
        } else {
            let url = format!("https://api.example.com{}", plan.path);
            let request = Request { method: "GET", url: &url, platform: &Shown(plan) };
            self.gateway.receive(&request, now_ms, random)
        };
        self.assert_secret_and_quiet(&step);
        step
    }

    pub fn conclude(&mut self, ticket: u32, said: &Said, now_ms: u64, random: f64) -> Step {
        let reply = match said {
            Said::Whole(status, body, retry_after_s) => {
                Reply::Whole { status: *status, body, retry_after_s: *retry_after_s }
            }
            Said::None(why) => Reply::None(why),
        };
        let step = self.gateway.conclude(ticket, reply, now_ms, random);
        self.assert_secret_and_quiet(&step);
        step
    }

    /// A call of a request that came in just now: the breaker lets it, and the bulkhead has room.
    pub fn asked_first(&mut self, call: usize, deadline_ms: u64, now_ms: u64) {
        self.first_calls += 1;
        self.tokens = (self.tokens + self.settings.budget).min(SAVED);
        self.asked(call, deadline_ms, now_ms);
    }

    /// A call made once more as it was: there is budget for it.
    pub fn asked_again(&mut self, call: usize, deadline_ms: u64, now_ms: u64) {
        self.expected.retries += 1;
        self.tokens -= 1.0;
        assert!(self.tokens > -1e-9, "more retries than the budget of {}", self.settings.budget);
        // What that comes to over a whole life.
        let most = 1.0 + self.settings.budget * self.first_calls as f64;
        assert!(self.expected.retries as f64 <= most + 1e-9, "more than {most} retries");
        self.asked(call, deadline_ms, now_ms);
    }

    /// Any call.
    pub fn asked(&mut self, call: usize, deadline_ms: u64, now_ms: u64) {
        self.expected.calls += 1;
        let phase = self.gateway.breaker_phase(now_ms);
        assert!(phase != Phase::Open, "a call is made while the breaker is open");
        let probe = phase == Phase::HalfOpen;
        self.out.insert(call, Out { deadline_ms, probe, left: false });
        let latest_ms = self.latest_ms;
        let probes = self.out.values().filter(|out| out.probe && out.counts(latest_ms)).count();
        assert!(probes <= self.settings.probes, "{probes} probes are out at once");
        let under_way =
            self.out.values().filter(|out| !out.left && out.deadline_ms + LOST_AFTER_MS > now_ms).count();
        assert!(under_way <= self.settings.max_in_flight, "{under_way} calls are under way");
    }

    /// A call came back, as an answer or a failure.
    pub fn came_back(&mut self, call: usize) {
        self.out.remove(&call);
    }

    /// The client of a call has left.
    pub fn left(&mut self, call: usize) {
        if let Some(out) = self.out.get_mut(&call) {
            out.left = true;
        }
    }

    /// A failure of this class was taken for what it is.
    pub fn failed(&mut self, class: Class) {
        self.expected.failures[class.index()] += 1;
        assert!(self.failing, "a failure leaves a line in the log, unless there is one already");
    }

    /// The breaker may have changed: what was a probe is one only while it is half-open.
    pub fn note_phase(&mut self, now_ms: u64) {
        if self.gateway.breaker_phase(now_ms) != Phase::HalfOpen {
            self.out.values_mut().for_each(|out| out.probe = false);
        }
    }

    /// Whether one more request than is accounted for was kept from the store.
    pub fn was_kept_away(&self) -> bool {
        self.gateway.counters().breaker > self.expected.breaker
    }

    /// A request that was kept from the store: the breaker or the bulkhead has a reason.
    pub fn kept_away(&mut self, now_ms: u64) {
        let counters = self.gateway.counters();
        if counters.breaker > self.expected.breaker {
            self.expected.breaker += 1;
            let phase = self.gateway.breaker_phase(now_ms);
            assert!(phase != Phase::Closed, "a closed breaker keeps nobody away");
            let probes = self.out.values().filter(|out| out.probe && out.counts(self.latest_ms)).count();
            let full = probes >= self.settings.probes;
            assert!(phase == Phase::Open || full, "half-open with {probes} probes out refuses another");
        } else {
            self.expected.bulkhead += 1;
            // Calls are given up in the order asked, so that an old one holds up those behind it for a while. (Where
            // the clock stepped back, until it has caught up.)
            let held_ms = LOST_AFTER_MS + self.settings.timeout_ms;
            let kept = self.out.values().filter(|out| out.deadline_ms + held_ms > now_ms).count();
            let stepped = matches!(self.clock, Clock::StepsBack(..));
            assert!(kept >= self.settings.max_in_flight || stepped, "the bulkhead is full with {kept}");
        }
        assert_eq!(*self.gateway.counters(), self.expected);
    }

    /// Everything that was counted, against what the world saw; at the end also that it adds up.
    pub fn assert_counted(&self) {
        assert_eq!(*self.gateway.counters(), self.expected);
        let failures: u64 = self.expected.failures.iter().sum();
        let lost = self.out.len() as u64;
        assert_eq!(self.expected.calls, self.answers + failures + self.reasks + lost);
    }

    /// Calls that are not heard of any more.
    pub fn lost(&self) -> u64 {
        self.out.len() as u64
    }

    /// Retries made.
    pub fn retries(&self) -> u64 {
        self.expected.retries
    }

    fn assert_secret_and_quiet(&mut self, step: &Step) {
        for line in self.gateway.take_log() {
            assert_secret(&line, "log");
            let said: serde_json::Value = serde_json::from_str(&line).expect("a JSON object");
            match said["event"].as_str().expect("an event") {
                "store-failing" => {
                    assert!(!self.failing, "failing is said twice in a row");
                    (self.failing, self.transitions) = (true, self.transitions + 1);
                }
                "store-recovered" => {
                    assert!(self.failing, "recovered is said of a store that did not fail");
                    (self.failing, self.transitions) = (false, self.transitions + 1);
                }
                "dialect" => {
                    assert!(!self.fell_back, "falling back is said twice");
                    self.fell_back = true;
                }
                "refused" => {}
                other => panic!("an event of no kind known: {other}"),
            }
        }
        let (headers, body) = match step {
            Step::Answer(answer) => (&answer.headers, answer.body.as_str()),
            Step::Forward(forward) => (&forward.headers, ""),
            _ => return,
        };
        assert_secret(body, "answer");
        headers.iter().for_each(|(_, value)| assert_secret(value, "answer"));
    }
}

impl Out {
    /// Whether it holds a place: it may come back, or has not been given up yet.
    fn counts(&self, now_ms: u64) -> bool {
        self.deadline_ms + LOST_AFTER_MS >= now_ms
    }
}

fn assert_secret(text: &str, what: &str) {
    for secret in [RAW, WORDS, "sg:1:", "redis.call"] {
        assert!(!text.contains(secret), "the {what} shows {secret}: {text}");
    }
}
