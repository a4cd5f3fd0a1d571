//! What is kept of a decision: counts always, a log line for a refusal, a data point where Analytics Engine is bound.

use super::outcome::Outcome;
use super::{Gateway, analytics, log};

impl Gateway {
    /// Counts a decision and says what is to be said of it. `route` is its index; a check has none.
    pub(super) fn record(&mut self, outcome: &Outcome, route: Option<usize>, now_ms: u64) {
        self.metrics.decision(outcome, &self.rules.limits);
        let refused = !outcome.allowed();
        self.recent.note(outcome.tier, refused, now_ms);
        if !refused && !self.analytics {
            return;
        }
        let route = route.and_then(|index| self.rules.policy.router.routes().get(index));
        let route = route.map(|route| route.name.as_str());
        if refused && let Some(left_out) = self.sampler.line(now_ms) {
            self.log.push(log::refusal(outcome, &self.rules.limits, &self.digester, route, left_out));
        }
        if self.analytics {
            let route = route.unwrap_or_default();
            let digest = &self.rules.policy.digest;
            self.points.push(analytics::point(outcome, route, &self.rules.limits, &self.digester, digest));
        }
    }

    /// The data points since the last call, a line each; empty where there are none.
    pub fn take_points(&mut self) -> String {
        std::mem::take(&mut self.points).join("\n")
    }
}
