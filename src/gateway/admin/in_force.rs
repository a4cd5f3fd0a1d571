//! The part of `status` that says what is in force: the limits' and the routes' own words, and what became of the
//! namespace that policies are reloaded from.

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::gateway::metrics::TIERS;
use crate::gateway::recent::{STEP_MS, STEPS};
use crate::policy::{Algorithm, Limit, Quota, Route};

impl Gateway {
    /// `"rules":[…],"routes":[…],"reload":{…},"recent":{…}`: the members of `status` for the page.
    pub(super) fn in_force(&self, now_ms: u64) -> String {
        let policy = &self.rules.policy;
        let rules: Vec<Value> = policy.limits.iter().map(rule).collect();
        let routes = policy.router.routes().iter();
        let routes: Vec<Value> = routes.map(|shown| route(shown, &policy.limits)).collect();
        let tiers = TIERS.map(|tier| (tier.word().to_owned(), self.recent.tier(tier, now_ms)));
        let tiers = tiers.into_iter().filter(|(_, counts)| counts.iter().any(|count| *count > 0));
        let recent = json!({
            "step_ms": STEP_MS,
            "steps": STEPS,
            "now_ms": now_ms,
            "tiers": tiers.map(|(tier, counts)| (tier, json!(counts))).collect::<serde_json::Map<_, _>>(),
            "refused": self.recent.refused(now_ms),
        });
        let reload = serde_json::to_string(self.reload_state()).unwrap_or_default();
        format!(
            "\"rules\":{},\"routes\":{},\"reload\":{reload},\"recent\":{recent}",
            Value::Array(rules),
            Value::Array(routes)
        )
    }
}

fn rule(limit: &Limit) -> Value {
    let (units, burst) = match limit.quota {
        Quota::Limited(capacity) => (json!(capacity.limit), json!(capacity.burst)),
        Quota::Unlimited => (json!("unlimited"), Value::Null),
        Quota::Blocked => (json!("blocked"), Value::Null),
    };
    json!({
        "name": limit.name,
        "algorithm": algorithm(limit.algorithm),
        "limit": units,
        "burst": burst,
        "window_ms": limit.window_ms,
        "key": limit.key.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "plans": limit.plans.keys().collect::<Vec<_>>(),
        "shadow": limit.shadow,
    })
}

fn algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::FixedWindow => "fixed-window",
        Algorithm::SlidingWindow => "sliding-window",
        Algorithm::SlidingLog => "sliding-log",
        Algorithm::TokenBucket => "token-bucket",
    }
}

fn route(route: &Route, limits: &[Limit]) -> Value {
    let names = route.limits.iter().filter_map(|index| limits.get(*index));
    json!({
        "name": route.name,
        "methods": route.methods,
        "host": route.host,
        "path": route.path,
        "limits": names.map(|limit| limit.name.as_str()).collect::<Vec<_>>(),
    })
}
