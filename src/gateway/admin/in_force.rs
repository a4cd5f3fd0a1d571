//! The part of `status` that says what is in force: the limits' and the routes' own words, what became of the
//! namespace that policies are reloaded from, and the decisions of the last ten minutes. Written as text, as `status` is.

use std::fmt::{Display, Write as _};

use crate::gateway::Gateway;
use crate::gateway::metrics::TIERS;
use crate::gateway::recent::STEP_MS;
use crate::gateway::reload::Reload;
use crate::policy::{Limit, Quota, Route};

impl Gateway {
    /// The members `rules`, `routes`, `reload` and `recent`.
    pub(super) fn in_force(&self, now_ms: u64) -> String {
        let policy = &self.rules.policy;
        let rules = list(policy.limits.iter().map(rule));
        let routes = list(policy.router.routes().iter().map(|shown| route(shown, &policy.limits)));
        let tiers = TIERS.iter().map(|tier| (tier.word(), self.recent.tier(*tier, now_ms)));
        let tiers = tiers.filter(|(_, counts)| counts.iter().any(|count| *count > 0));
        let tiers: Vec<String> =
            tiers.map(|(tier, counts)| format!("\"{tier}\":{}", list(counts.into_iter()))).collect();
        format!(
            "\"rules\":{rules},\"routes\":{routes},\"reload\":{},\
             \"recent\":{{\"step_ms\":{STEP_MS},\"now_ms\":{now_ms},\"tiers\":{{{}}},\"refused\":{}}}",
            reload(self.reload_state()),
            tiers.join(","),
            list(self.recent.refused(now_ms).into_iter()),
        )
    }
}

fn rule(limit: &Limit) -> String {
    let (units, burst) = match limit.quota {
        Quota::Limited(capacity) => (capacity.limit.to_string(), capacity.burst.to_string()),
        Quota::Unlimited => (quoted("unlimited"), "null".to_owned()),
        Quota::Blocked => (quoted("blocked"), "null".to_owned()),
    };
    format!(
        "{{\"name\":{},\"algorithm\":\"{}\",\"limit\":{units},\"burst\":{burst},\"window_ms\":{},\"key\":{},\
         \"plans\":{},\"shadow\":{}}}",
        quoted(&limit.name),
        limit.algorithm.word(),
        limit.window_ms,
        list(limit.key.iter().map(|part| quoted(&part.to_string()))),
        list(limit.plans.keys().map(|plan| quoted(plan))),
        limit.shadow,
    )
}

fn route(route: &Route, limits: &[Limit]) -> String {
    let names = route.limits.iter().filter_map(|index| limits.get(*index));
    format!(
        "{{\"name\":{},\"methods\":{},\"host\":{},\"path\":{},\"limits\":{}}}",
        quoted(&route.name),
        list(route.methods.iter().map(|method| quoted(method))),
        route.host.as_deref().map_or("null".to_owned(), quoted),
        quoted(&route.path),
        list(names.map(|limit| quoted(&limit.name))),
    )
}

fn reload(reload: &Reload) -> String {
    format!(
        "{{\"source\":\"{}\",\"reads\":{},\"unread\":{},\"failing\":{},\"reloads\":{},\"reloaded_at_ms\":{},\
         \"errors\":{}}}",
        reload.source.word(),
        reload.reads,
        reload.unread,
        reload.failing,
        reload.reloads,
        reload.reloaded_at_ms.map_or("null".to_owned(), |ms| ms.to_string()),
        list(reload.errors.iter().map(|error| quoted(error))),
    )
}

/// Text as JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

fn list(items: impl Iterator<Item = impl Display>) -> String {
    let mut text = "[".to_owned();
    for item in items {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{item}", if text.len() == 1 { "" } else { "," });
    }
    text.push(']');
    text
}
