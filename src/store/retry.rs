//! Whether a failed call is made once more: from a budget, after a random while, and only if the deadline allows.

use crate::policy::Retry as Config;

/// Retries that may be saved up.
const SAVED: f64 = 10.0;

/// The token budget: calls put in, retries take out.
#[derive(Debug, Clone)]
pub struct Budget {
    config: Config,
    tokens: f64,
}

impl Budget {
    /// A budget with one retry in it, so that a fresh isolate may use one.
    pub fn new(config: Config) -> Self {
        Self { config, tokens: if config.budget > 0.0 { 1.0 } else { 0.0 } }
    }

    /// Takes another policy's numbers; what was saved up stays, unless nothing is to be retried any more.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
        if config.budget <= 0.0 {
            self.tokens = 0.0;
        }
    }

    /// A call was made.
    pub fn earn(&mut self) {
        self.tokens = (self.tokens + self.config.budget).min(SAVED);
    }

    /// The wait before a retry in milliseconds, where one may be made: `left_ms` is what remains of the deadline,
    /// `random` is in [0, 1).
    pub fn spend(&mut self, left_ms: u64, random: f64) -> Option<u64> {
        let wait = (self.config.backoff_ms as f64 * random.clamp(0.0, 1.0)) as u64;
        if self.tokens < 1.0 || wait >= left_ms {
            return None;
        }
        self.tokens -= 1.0;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config { budget: 0.1, backoff_ms: 50 };

    #[test]
    fn one_in_ten() {
        let mut budget = Budget::new(CONFIG);
        let mut retries = 0;
        for _ in 0..1_000 {
            budget.earn();
            retries += u32::from(budget.spend(100, 0.5).is_some());
        }
        assert!((100..=101).contains(&retries), "{retries}");
    }

    #[test]
    fn nothing_is_saved_without_bound() {
        let mut budget = Budget::new(CONFIG);
        for _ in 0..100_000 {
            budget.earn();
        }
        assert_eq!((0..100).filter(|_| budget.spend(100, 0.0).is_some()).count(), 10);
    }

    #[test]
    fn not_past_the_deadline_and_not_without_a_budget() {
        let mut budget = Budget::new(CONFIG);
        assert_eq!(budget.spend(20, 0.5), None);
        assert_eq!(budget.spend(26, 0.5), Some(25));
        assert_eq!(Budget::new(Config { budget: 0.0, ..CONFIG }).spend(100, 0.0), None);
    }

    #[test]
    fn another_policy_keeps_what_was_saved_unless_nothing_is_retried() {
        let mut budget = Budget::new(CONFIG);
        budget.configure(Config { budget: 0.5, backoff_ms: 10 });
        assert_eq!(budget.spend(100, 0.5), Some(5));
        assert_eq!(budget.spend(100, 0.5), None);
        budget.earn();
        budget.earn();
        budget.configure(Config { budget: 0.0, ..CONFIG });
        assert_eq!(budget.spend(100, 0.0), None);
    }
}
