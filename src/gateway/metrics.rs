//! What the isolate counts of its decisions: integers in arrays indexed by limit, so that counting costs a decision a
//! few additions and no hashing or allocation.

use std::collections::HashMap;

use super::latency::Latency;
use super::outcome::{Outcome, Reason, Tier};
use super::prepared::Prepared;
use crate::policy::OnStoreError;

/// All tiers; a tier's place is its number.
pub const TIERS: [Tier; 6] =
    [Tier::Store, Tier::Cache, Tier::Isolate, Tier::Degraded, Tier::Open, Tier::Closed];

/// All reasons; a reason's place is its number.
pub const REASONS: [Reason; 4] =
    [Reason::QuotaExceeded, Reason::CostExceedsCapacity, Reason::Blocked, Reason::StoreUnavailable];

/// What a limit came to in one decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Let the request through, and so did the others.
    Allowed,
    /// Refused it.
    Refused(Reason),
    /// Would have let it through, or was not asked, and another limit refused it.
    Spared,
    /// Would have refused it, but is in shadow.
    Shadowed,
}

/// All that a limit can come to, in the order of the cells.
pub const SAID: [Said; 7] = [
    Said::Allowed,
    Said::Spared,
    Said::Shadowed,
    Said::Refused(Reason::QuotaExceeded),
    Said::Refused(Reason::CostExceedsCapacity),
    Said::Refused(Reason::Blocked),
    Said::Refused(Reason::StoreUnavailable),
];

/// Cells of one tier, then of the next.
const CELLS: usize = SAID.len() * TIERS.len();

impl Said {
    /// As metrics and the status say it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused(_) => "refused",
            Self::Spared => "spared",
            Self::Shadowed => "shadowed",
        }
    }

    /// Why, where it refused.
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::Refused(reason) => Some(reason),
            _ => None,
        }
    }

    fn cell(self, tier: Tier) -> usize {
        let said = match self {
            Self::Allowed => 0,
            Self::Spared => 1,
            Self::Shadowed => 2,
            Self::Refused(reason) => 3_usize.saturating_add(reason as usize),
        };
        (tier as usize).saturating_mul(SAID.len()).saturating_add(said)
    }
}

/// Counts by tier and by what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts([u64; CELLS]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; CELLS])
    }
}

impl Counts {
    /// One count.
    pub fn of(&self, tier: Tier, said: Said) -> u64 {
        self.0.get(said.cell(tier)).copied().unwrap_or(0)
    }

    /// The counts of one thing said, over all tiers and reasons.
    pub fn sum(&self, word: &str) -> u64 {
        let all = TIERS.into_iter().flat_map(|tier| SAID.map(|said| (tier, said)));
        let these = all.filter(|(_, said)| said.word() == word);
        these.fold(0, |sum, (tier, said)| sum.saturating_add(self.of(tier, said)))
    }

    fn add(&mut self, tier: Tier, said: Said) {
        if let Some(count) = self.0.get_mut(said.cell(tier)) {
            *count = count.saturating_add(1);
        }
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Of whole decisions.
    pub decisions: Counts,
    /// Of each limit, in its place.
    limits: Vec<Counts>,
    /// The places by name. They are given once for good, so that counts outlive a change of policy and are right for
    /// requests that were asked under another one.
    places: HashMap<String, usize>,
    /// Of store calls.
    pub latency: Latency,
    /// When the isolate took its first request in, in milliseconds since the Unix epoch; 0 before that.
    pub since_ms: u64,
    /// Drawn with the first request; tells isolates apart.
    pub isolate: u32,
}

impl Metrics {
    /// Tells limits the places that their names have.
    pub fn place(&mut self, limits: &mut [Prepared]) {
        for limit in limits {
            let next = self.limits.len();
            limit.counted_at = *self.places.entry(limit.limit.name.clone()).or_insert(next);
            if limit.counted_at == next {
                self.limits.push(Counts::default());
            }
        }
    }

    /// Limits with their counts.
    pub fn of<'a>(&'a self, limits: &'a [Prepared]) -> impl Iterator<Item = (&'a Prepared, &'a Counts)> {
        limits.iter().filter_map(|limit| Some((limit, self.limits.get(limit.counted_at)?)))
    }

    /// A request came in. Only the first says when the isolate began: the clock reads 0 while a Worker loads.
    pub fn request(&mut self, now_ms: u64, random: f64) {
        if self.since_ms == 0 {
            self.since_ms = now_ms;
            self.isolate = (random.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
        }
    }

    /// A decision was made.
    pub fn decision(&mut self, outcome: &Outcome, limits: &[Prepared]) {
        let refused = outcome.refused;
        self.decisions.add(outcome.tier, refused.map_or(Said::Allowed, Said::Refused));
        for line in &outcome.lines {
            let said = match (line.verdict.allowed(), line.shadow) {
                (false, true) => Said::Shadowed,
                (false, false) if refused == Some(Reason::StoreUnavailable) => {
                    Said::Refused(Reason::StoreUnavailable)
                }
                (false, false) => Said::Refused(line.reason()),
                (true, _) if refused.is_some() => Said::Spared,
                (true, _) => Said::Allowed,
            };
            self.add(limits, line.limit, outcome.tier, said);
        }
        for &(limit, ..) in &outcome.silent {
            let policy = limits.get(limit).map(|prepared| prepared.limit.on_store_error);
            match refused {
                Some(_) => self.add(limits, limit, outcome.tier, Said::Spared),
                // Only a store that fails leaves limits of a request that passes without a word.
                None if policy == Some(OnStoreError::Open) => {
                    self.add(limits, limit, Tier::Open, Said::Allowed)
                }
                None => self.add(limits, limit, outcome.tier, Said::Allowed),
            }
        }
    }

    fn add(&mut self, limits: &[Prepared], limit: usize, tier: Tier, said: Said) {
        let place = limits.get(limit).map(|prepared| prepared.counted_at);
        if let Some(counts) = place.and_then(|place| self.limits.get_mut(place)) {
            counts.add(tier, said);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::outcome::Line;
    use crate::limit::{Verdict, Wait};
    use crate::policy::document::read_json;

    fn line(limit: usize, shadow: bool, wait: Wait) -> Line {
        let verdict = Verdict { limit: 5, remaining: 0, reset_ms: 0, wait };
        Line { limit, window_ms: 1000, shadow, cost: 1, subject: "s".into(), verdict }
    }

    /// Limits with these names; the first fails open.
    fn prepared(names: &str) -> Vec<Prepared> {
        let limits: Vec<serde_json::Value> = names
            .chars()
            .enumerate()
            .map(|(place, name)| {
                let on_store_error = if place == 0 { "open" } else { "degraded" };
                serde_json::json!({
                    "name": name, "algorithm": "fixed-window", "limit": 5, "window": "1m", "key": ["ip"],
                    "on_store_error": on_store_error,
                })
            })
            .collect();
        let gateway = serde_json::json!({ "origin": "http://o.invalid" });
        let text = serde_json::json!({ "version": 1, "gateway": gateway, "limits": limits }).to_string();
        crate::gateway::prepared::prepare(&read_json(&text).unwrap(), &Default::default())
    }

    fn placed(names: &str) -> (Metrics, Vec<Prepared>) {
        let (mut metrics, mut limits) = (Metrics::default(), prepared(names));
        metrics.place(&mut limits);
        (metrics, limits)
    }

    #[test]
    fn counts_go_by_name_from_policy_to_policy() {
        let (mut metrics, before) = placed("abc");
        let passed = |limit| Outcome::of(Tier::Store, vec![line(limit, false, Wait::None)]);
        metrics.decision(&passed(0), &before);
        metrics.decision(&passed(2), &before);
        let mut after = prepared("cxa");
        metrics.place(&mut after);
        metrics.decision(&passed(0), &after);
        // One that was asked under the policy before.
        metrics.decision(&passed(0), &before);
        metrics.decision(&passed(1), &before);
        let counted = |limits: &[Prepared]| -> Vec<u64> {
            metrics.of(limits).map(|(_, counts)| counts.of(Tier::Store, Said::Allowed)).collect()
        };
        assert_eq!(counted(&after), [2, 0, 2]);
        assert_eq!(counted(&before), [2, 1, 2]);
    }

    #[test]
    fn tiers_and_reasons_stand_where_their_numbers_say() {
        for (place, tier) in TIERS.into_iter().enumerate() {
            assert_eq!(tier as usize, place);
        }
        for (place, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
            assert_eq!(SAID[3 + place], Said::Refused(reason));
        }
        let mut cells: Vec<usize> =
            TIERS.into_iter().flat_map(|tier| SAID.map(|said| said.cell(tier))).collect();
        cells.sort_unstable();
        assert_eq!(cells, (0..CELLS).collect::<Vec<_>>());
    }

    #[test]
    fn each_limit_of_a_decision_is_counted_once_for_what_it_said() {
        let (mut metrics, limits) = placed("abcd");
        let refused = vec![
            line(0, false, Wait::Ms(5)),
            line(1, false, Wait::None),
            line(2, true, Wait::Ms(9)),
            line(3, false, Wait::Never),
        ];
        metrics.decision(&Outcome::of(Tier::Store, refused), &limits);
        let passed = vec![line(0, false, Wait::None), line(2, true, Wait::Never)];
        metrics.decision(&Outcome::of(Tier::Store, passed), &limits);
        let of = |limit: usize, said| metrics.limits[limit].of(Tier::Store, said);
        assert_eq!((of(0, Said::Refused(Reason::QuotaExceeded)), of(0, Said::Allowed)), (1, 1));
        assert_eq!(of(1, Said::Spared), 1);
        assert_eq!(of(2, Said::Shadowed), 2);
        assert_eq!(of(3, Said::Refused(Reason::CostExceedsCapacity)), 1);
        assert_eq!(metrics.limits.iter().map(|counts| counts.0.iter().sum::<u64>()).sum::<u64>(), 6);
        assert_eq!(metrics.decisions.sum("refused") + metrics.decisions.sum("allowed"), 2);
    }

    #[test]
    fn limits_that_said_nothing_are_counted_too() {
        let (mut metrics, limits) = placed("ab");
        let open = Outcome { silent: vec![(0, 5, 1000)], ..Outcome::of(Tier::Open, Vec::new()) };
        metrics.decision(&open, &limits);
        let cache = Outcome {
            silent: vec![(1, 5, 1000)],
            ..Outcome::of(Tier::Cache, vec![line(0, false, Wait::Ms(5))])
        };
        metrics.decision(&cache, &limits);
        let located =
            Outcome { silent: vec![(0, 5, 1000), (1, 5, 1000)], ..Outcome::of(Tier::Degraded, Vec::new()) };
        metrics.decision(&located, &limits);
        assert_eq!(metrics.limits[0].of(Tier::Open, Said::Allowed), 2);
        assert_eq!(metrics.limits[1].of(Tier::Degraded, Said::Allowed), 1);
        assert_eq!(metrics.limits[1].of(Tier::Cache, Said::Spared), 1);
    }

    #[test]
    fn only_the_first_request_says_when_the_isolate_began() {
        let mut metrics = Metrics::default();
        metrics.request(1_785_432_000_000, 0.5);
        metrics.request(1_785_432_009_000, 0.9);
        assert_eq!(metrics.since_ms, 1_785_432_000_000);
        assert_eq!(metrics.isolate, u32::MAX / 2);
    }
}
