//! Plays the cases of a target, and says how to see a failing one again.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

pub use crate::generator::Random;

impl Random {
    /// True so many times in a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.between(1, 100) <= share
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// An index into so many.
    pub fn below(&mut self, count: usize) -> usize {
        self.between(0, count as u64 - 1) as usize
    }

    /// A number of any magnitude.
    pub fn magnitude(&mut self) -> u64 {
        let bits = self.between(0, 63);
        self.next() >> bits
    }
}

fn setting(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a whole number")))
}

/// The kept seeds of a target: lines of `TARGET SEED`.
fn kept(target: &str) -> impl Iterator<Item = u64> {
    let lines = include_str!("seeds.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(move |line| line.strip_prefix(target)?.strip_prefix(' '))
        .map(|seed| seed.parse().unwrap())
}

/// Plays a target's cases: as many new ones as `SLUICEGATE_CASES` says, or else `usual`.
pub fn each(target: &str, usual: u64, case: impl Fn(&mut Random)) {
    let play = |seed: u64| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| case(&mut Random::new(seed)))) {
            eprintln!("{target}: again: SLUICEGATE_SEED={seed} cargo test --test fuzz {target}");
            resume_unwind(panic);
        }
    };
    if let Some(seed) = setting("SLUICEGATE_SEED") {
        return play(seed);
    }
    kept(target).for_each(play);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
    let mut seeds = Random::new(since.as_nanos() as u64);
    for _ in 0..setting("SLUICEGATE_CASES").unwrap_or(usual) {
        play(seeds.next());
    }
}
