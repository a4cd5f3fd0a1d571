//! Random numbers that a seed brings back.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

pub use crate::support::random::Random;

impl Random {
    /// One of `low ..= high`, small ones as often as large ones.
    pub fn scaled(&mut self, low: u64, high: u64) -> u64 {
        let bits = self.between(0, (high / low.max(1)).max(1).ilog2().into());
        let top = high.min((low.max(1) << bits).saturating_mul(2));
        self.between(low, top)
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.between(1, 100) <= share
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.between(0, from.len() as u64 - 1) as usize]
    }

    /// A number or one of its neighbours.
    pub fn around(&mut self, number: u64) -> u64 {
        (number + self.between(0, 2)).saturating_sub(1)
    }
}

/// A number from the environment.
pub fn setting(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a whole number")))
}

/// `SLUICEGATE_SEED`, or another one each run: a failure prints it.
pub fn seed() -> u64 {
    setting("SLUICEGATE_SEED").unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
        u64::from(since.subsec_nanos()) ^ (since.as_secs() << 20)
    })
}
