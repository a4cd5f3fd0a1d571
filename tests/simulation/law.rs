//! What a limit may let pass, by its own definition and from nothing but the list of what passed.
//!
//! The clock that counts is the one the decision was told, and one that is behind an earlier charge of the same
//! subject counts as standing at that: it never adds quota.

use sluicegate::limit::Quota;
use sluicegate::policy::Algorithm;

/// Units that passed at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Passed {
    /// The clock that was told, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Units, at least 1.
    pub units: u64,
}

/// Asserts the law of one subject of one limit over all that passed, in the order decided.
pub fn assert_kept(quota: &Quota, passed: &[Passed], whose: &str) {
    let mut latest = 0;
    let passed: Vec<Passed> = passed
        .iter()
        .map(|charge| {
            latest = charge.at_ms.max(latest);
            Passed { at_ms: latest, ..*charge }
        })
        .collect();
    for (index, last) in passed.iter().enumerate() {
        let until = &passed[..=index];
        let broken = match quota.algorithm {
            Algorithm::TokenBucket => bucket(quota, until),
            Algorithm::FixedWindow => in_window(quota, until, last.at_ms / quota.window_ms) > quota.limit,
            Algorithm::SlidingWindow => sliding(quota, until),
            Algorithm::SlidingLog => {
                units(until, |charge| charge.at_ms + quota.window_ms > last.at_ms) > quota.limit
            }
            Algorithm::Concurrency => unreachable!("leases have tests of their own"),
        };
        assert!(!broken, "{whose}: {quota:?} let pass {until:?}");
    }
}

/// In any time T no more than burst + T × limit / window.
fn bucket(quota: &Quota, passed: &[Passed]) -> bool {
    let last = passed[passed.len() - 1];
    let mut sum = 0;
    passed.iter().rev().any(|first| {
        sum += first.units;
        sum * quota.window_ms > quota.burst * quota.window_ms + (last.at_ms - first.at_ms) * quota.limit
    })
}

/// The count of this window and the one before, weighted by what the trailing window still covers of it.
fn sliding(quota: &Quota, passed: &[Passed]) -> bool {
    let last = passed[passed.len() - 1].at_ms;
    let number = last / quota.window_ms;
    let covered = quota.window_ms - last % quota.window_ms;
    let before = number.checked_sub(1).map_or(0, |number| in_window(quota, passed, number));
    before * covered + in_window(quota, passed, number) * quota.window_ms > quota.limit * quota.window_ms
}

fn in_window(quota: &Quota, passed: &[Passed], number: u64) -> u64 {
    units(passed, |charge| charge.at_ms / quota.window_ms == number)
}

fn units(passed: &[Passed], counts: impl Fn(&Passed) -> bool) -> u64 {
    passed.iter().filter(|charge| counts(charge)).map(|charge| charge.units).sum()
}

/// The most that a quota lets pass in a time of this length, whenever that begins: its capacity, and its own refill.
pub fn most(quota: &Quota, length_ms: u64) -> u64 {
    match quota.algorithm {
        Algorithm::TokenBucket => quota.burst + length_ms * quota.limit / quota.window_ms,
        Algorithm::SlidingLog => quota.limit * (length_ms / quota.window_ms + 1),
        // Aligned windows: a time of that length touches so many.
        Algorithm::FixedWindow | Algorithm::SlidingWindow => {
            quota.limit * (length_ms.div_ceil(quota.window_ms) + 1)
        }
        Algorithm::Concurrency => unreachable!("leases have tests of their own"),
    }
}
