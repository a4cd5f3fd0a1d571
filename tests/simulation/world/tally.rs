//! What runs came to, so that no rule is asserted of nothing.

/// How often what happened.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    pub calls: u64,
    pub retries: u64,
    pub lost: u64,
    pub cached: u64,
    pub kept_away: u64,
    pub local: u64,
    pub repeats: u64,
    pub conflicts: u64,
    pub reasks: u64,
    pub transitions: u64,
}

impl Tally {
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            retries: self.retries + other.retries,
            lost: self.lost + other.lost,
            cached: self.cached + other.cached,
            kept_away: self.kept_away + other.kept_away,
            local: self.local + other.local,
            repeats: self.repeats + other.repeats,
            conflicts: self.conflicts + other.conflicts,
            reasks: self.reasks + other.reasks,
            transitions: self.transitions + other.transitions,
        }
    }

    /// Everything that is asserted has happened, often.
    pub fn assert_nothing_is_vacuous(&self) {
        let Self { calls, retries, lost, cached, kept_away, local, repeats, conflicts, reasks, transitions } =
            self;
        let all = [calls, retries, lost, cached, kept_away, local, repeats, conflicts, reasks, transitions];
        assert!(all.into_iter().all(|count| *count >= 200), "too little happened: {self:?}");
    }
}
