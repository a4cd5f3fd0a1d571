//! What a seed stands for: a policy, isolates with their clocks, clients' requests, and the store's weather.

use serde_json::{Value, json};
use sluicegate::limit::Quota;
use sluicegate::policy::Algorithm;

use super::clock::{Clock, START_MS};
use super::faults::{Fault, Spell};
use super::random::Random;

/// A failure policy, as the policy's text has it.
pub const POLICIES: [&str; 3] = ["degraded", "open", "closed"];
/// Algorithms with their names.
pub const ALGORITHMS: [(Algorithm, &str); 4] = [
    (Algorithm::TokenBucket, "token-bucket"),
    (Algorithm::FixedWindow, "fixed-window"),
    (Algorithm::SlidingWindow, "sliding-window"),
    (Algorithm::SlidingLog, "sliding-log"),
];
/// Greatest cost of a limit whose costs come from a header.
const MAX_COST: u64 = 3;

/// One limit.
#[derive(Debug, Clone)]
pub struct Rule {
    pub quota: Quota,
    pub on_store_error: &'static str,
    /// Counts by tenant, by address, or everybody together.
    pub key: &'static str,
    pub shadow: bool,
    /// Its cost comes from a header.
    pub costed: bool,
    pub idempotency: bool,
}

/// `[store]` and `[degraded]`, as far as the assertions need them.
#[derive(Debug, Clone)]
pub struct Settings {
    pub timeout_ms: u64,
    pub remember_ms: u64,
    pub max_in_flight: usize,
    pub budget: f64,
    pub backoff_ms: u64,
    pub probes: usize,
    pub exactly_once: bool,
    pub share: f64,
    pub store_clock: bool,
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub at_ms: u64,
    pub isolate: usize,
    pub tenant: u64,
    pub address: u64,
    pub path: &'static str,
    pub cost: Option<u64>,
    pub idempotency: Option<u64>,
    /// Through the decision API.
    pub check: bool,
    /// When its client leaves, counted from its beginning.
    pub leaves_after_ms: Option<u64>,
}

/// What others do to the store.
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    ForgetScripts,
    Reset,
    Override(u64),
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub settings: Settings,
    pub rules: Vec<Rule>,
    pub policy: Value,
    pub clocks: Vec<Clock>,
    pub plans: Vec<Plan>,
    pub spells: Vec<Spell>,
    pub deeds: Vec<(u64, Deed)>,
    /// The store is called like Upstash's, and takes its dialect or not.
    pub upstash: Option<bool>,
}

impl Scenario {
    /// Draws one.
    pub fn draw(random: &mut Random) -> Self {
        let length_ms = random.between(2_000, 20_000);
        let settings = Settings {
            timeout_ms: random.pick(&[50, 150, 300]),
            remember_ms: random.pick(&[0, 1_000, 10_000]),
            max_in_flight: random.pick(&[1, 2, 4, 256]),
            budget: random.pick(&[0.0, 0.1, 0.1, 0.5, 1.0]),
            backoff_ms: random.pick(&[0, 30, 100]),
            probes: random.pick(&[1, 2, 3]),
            exactly_once: random.percent(30),
            share: random.pick(&[0.01, 0.1, 0.34, 0.5, 1.0]),
            store_clock: random.percent(20),
        };
        let rules: Vec<Rule> = (0..random.between(1, 3)).map(|_| rule(random)).collect();
        let odd = random.percent(30);
        let clocks: Vec<Clock> = (0..random.between(1, 4))
            .map(|_| if odd { Clock::odd(random, length_ms) } else { Clock::Honest })
            .collect();
        let upstash = random.percent(20).then(|| random.percent(50));
        let binding = random.percent(10).then_some("NEARBY");
        let policy = policy(&settings, &rules, binding, random);
        let plans = plans(length_ms, clocks.len(), random);
        let spells = (0..random.between(0, 3)).map(|_| spell(length_ms, random)).collect();
        let meddled = random.percent(15);
        let deeds = (0..random.between(0, 3))
            .map(|_| {
                let limit = random.pick(&[0, 1, 50]);
                let deed = if meddled {
                    random.pick(&[Deed::Reset, Deed::Override(limit)])
                } else {
                    Deed::ForgetScripts
                };
                (START_MS + random.between(0, length_ms), deed)
            })
            .collect();
        Self { settings, rules, policy, clocks, plans, spells, deeds, upstash }
    }

    /// Whether every isolate's clock tells true time.
    pub fn honest(&self) -> bool {
        self.clocks.iter().all(|clock| *clock == Clock::Honest)
    }

    /// What a request costs in a limit.
    pub fn cost(&self, limit: usize, plan: &Plan) -> u64 {
        match plan.cost {
            Some(cost) if plan.check || self.rules[limit].costed => cost,
            _ => 1,
        }
    }

    /// Whether a repeat of a request is the same request.
    pub fn keyed(&self, plan: &Plan) -> bool {
        plan.idempotency.is_some() && self.rules.iter().any(|rule| rule.idempotency)
    }

    /// Whom a request is counted as in a limit.
    pub fn subject(&self, limit: usize, plan: &Plan) -> u64 {
        match self.rules[limit].key {
            "ip" => plan.address,
            "header:x-tenant" => plan.tenant,
            _ => 0,
        }
    }

    /// What one isolate grants while the store fails: max(1, ⌊limit × share⌋), a burst in proportion.
    pub fn share(&self, limit: usize) -> Quota {
        let quota = self.rules[limit].quota;
        let granted = ((quota.limit as f64 * self.settings.share).floor() as u64).max(1);
        Quota { limit: granted, burst: (quota.burst * granted).div_ceil(quota.limit), ..quota }
    }
}

fn rule(random: &mut Random) -> Rule {
    let (algorithm, _) = random.pick(&ALGORITHMS);
    let limit: u64 = random.pick(&[1, 2, 5, 10, 30]);
    let bucket = algorithm == Algorithm::TokenBucket;
    let burst = if bucket { random.pick(&[limit, limit * 2, limit.div_ceil(2)]) } else { limit };
    let window_ms = random.pick(&[500, 1_000, 7_000, 60_000]);
    Rule {
        quota: Quota { algorithm, limit, burst, window_ms },
        on_store_error: random.pick(&POLICIES),
        key: random.pick(&["header:x-tenant", "header:x-tenant", "ip", "global"]),
        shadow: random.percent(10),
        costed: limit.min(burst) >= MAX_COST && random.percent(50),
        idempotency: random.percent(20),
    }
}

fn policy(settings: &Settings, rules: &[Rule], binding: Option<&str>, random: &mut Random) -> Value {
    let ms = |ms: u64| format!("{ms}ms");
    let limits: Vec<Value> = rules.iter().enumerate().map(|(index, rule)| limit(index, rule)).collect();
    let names: Vec<&Value> = limits.iter().map(|limit| &limit["name"]).collect();
    let open_ms = random.pick(&[100, 1_000]);
    let mut policy = json!({
        "version": 1,
        "gateway": { "origin": "http://127.0.0.1:8081", "tier_header": true, "unmatched": "deny" },
        "store": {
            "timeout": ms(settings.timeout_ms),
            "remember": ms(settings.remember_ms),
            "max_in_flight": settings.max_in_flight,
            "exactly_once": settings.exactly_once,
            "clock": if settings.store_clock { "store" } else { "edge" },
            "retry": { "budget": settings.budget, "backoff": ms(settings.backoff_ms) },
            "breaker": {
                "window": ms(random.pick(&[1_000, 5_000])),
                "min_calls": random.pick(&[1, 3, 5, 20]),
                "failure_rate": random.pick(&[0.3, 0.5, 1.0]),
                "open": ms(open_ms),
                "max_open": ms(open_ms * random.pick(&[1, 4])),
                "long_open": ms(random.pick(&[500, 5_000])),
                "probes": settings.probes,
            },
        },
        "degraded": { "share": settings.share },
        "limits": limits,
        "routes": [{ "name": "all", "path": "/v1/{*rest}", "limits": names }],
    });
    if let Some(binding) = binding {
        policy["degraded"]["binding"] = json!(binding);
    }
    policy
}

fn limit(index: usize, rule: &Rule) -> Value {
    let quota = rule.quota;
    let name = ALGORITHMS.iter().find(|(algorithm, _)| *algorithm == quota.algorithm).unwrap().1;
    let mut limit = json!({
        "name": format!("limit-{index}"),
        "algorithm": name,
        "limit": quota.limit,
        "window": format!("{}ms", quota.window_ms),
        "key": [rule.key],
        "shadow": rule.shadow,
        "on_store_error": rule.on_store_error,
    });
    if quota.algorithm == Algorithm::TokenBucket {
        limit["burst"] = json!(quota.burst);
    }
    if rule.costed {
        limit["cost"] = json!({ "header": "x-cost", "default": 1, "max": MAX_COST });
    }
    if rule.idempotency {
        limit["idempotency"] = json!("header:idempotency-key");
    }
    limit
}

fn plans(length_ms: u64, isolates: usize, random: &mut Random) -> Vec<Plan> {
    let clients = random.between(1, 5);
    let mut plans = Vec::new();
    while plans.len() < 60 {
        let at_ms = START_MS + random.between(0, length_ms);
        // Some come together, so that the bulkhead and half-open have a choice to make.
        let together = if random.percent(20) { random.between(2, 8) } else { 1 };
        for _ in 0..together {
            let idempotency = random.percent(25).then(|| random.between(0, 3));
            let tenant = random.between(1, clients);
            let free = idempotency.is_none();
            plans.push(Plan {
                at_ms,
                isolate: random.between(0, isolates as u64 - 1) as usize,
                tenant,
                address: if free { random.between(1, clients) } else { tenant },
                path: if random.percent(if free { 50 } else { 15 }) { "/v1/b" } else { "/v1/a" },
                cost: (free && random.percent(30)).then(|| random.between(0, MAX_COST)),
                idempotency,
                check: random.percent(20),
                leaves_after_ms: random.percent(6).then(|| random.between(0, 200)),
            });
        }
    }
    plans
}

fn spell(length_ms: u64, random: &mut Random) -> Spell {
    let from_ms = START_MS + random.between(0, length_ms);
    let faults = (0..random.between(1, 3)).map(|_| Fault::any(random)).collect();
    Spell {
        from_ms,
        until_ms: from_ms + random.between(100, length_ms),
        share: random.pick(&[10, 50, 100, 100]),
        faults,
        slow_ms: random.pick(&[0, 0, 100, 500]),
        flapping_ms: random.percent(20).then(|| random.pick(&[50, 300, 1_000])),
    }
}
