//! Outcomes as no limiter may ever give them, for what is made of them.

use std::collections::HashMap;

use sluicegate::gateway::outcome::{Line, Outcome, Tier};
use sluicegate::gateway::prepared::{Prepared, prepare};
use sluicegate::limit::{Verdict, Wait};
use sluicegate::policy::document::read_json;

use crate::drive::Random;

/// Limits with every character that a name may have.
pub fn limits() -> Vec<Prepared> {
    let names = ["a", "tenant-minute", "~!@#$^&*()'`<>?|;=+[]", "a.b_c", "999", "w"];
    let limits: Vec<_> = names
        .iter()
        .map(|name| {
            serde_json::json!({"name": name, "algorithm": "fixed-window", "limit": 9, "window": "1s", "key": ["ip"],
                "on_store_error": "open"})
        })
        .collect();
    let policy = serde_json::json!({"version": 1, "gateway": {"origin": "http://a"}, "limits": limits});
    prepare(&read_json(&policy.to_string()).unwrap(), &HashMap::new())
}

/// Any outcome over these limits.
pub fn any(random: &mut Random, limits: &[Prepared]) -> Outcome {
    let tiers = [Tier::Store, Tier::Cache, Tier::Isolate, Tier::Degraded, Tier::Open, Tier::Closed];
    let mut named: Vec<usize> = (0..limits.len()).collect();
    for at in 0..named.len() {
        named.swap(at, random.below(limits.len()));
    }
    let silent = named.split_off(random.below(named.len() + 1));
    let tier = random.pick(&tiers);
    let lines = named.into_iter().map(|limit| {
        let wait = match random.between(0, 3) {
            0 => Wait::Ms(random.magnitude()),
            1 if random.percent(30) => Wait::Never,
            _ => Wait::None,
        };
        let verdict = Verdict {
            limit: random.magnitude(),
            remaining: random.magnitude(),
            reset_ms: random.magnitude(),
            wait,
        };
        let (window_ms, shadow) = (random.between(100, 100_000), random.percent(20));
        Line { limit, window_ms, shadow, cost: random.magnitude(), subject: "2001:db8::/64".into(), verdict }
    });
    let outcome = Outcome::of(tier, lines.collect());
    let silent = silent.into_iter().map(|limit| (limit, random.magnitude(), random.between(100, 100_000)));
    Outcome { silent: silent.collect(), ..outcome }
}
