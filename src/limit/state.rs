//! What is kept for one subject of one limit, and its form in the store.
//!
//! Twelve bytes, big endian, for all but the log: short enough for the smallest allocation that Redis makes for a
//! string of its kind, and read without parsing text. `lua/check.lua` reads and writes the same bytes.
//!
//! | algorithm | bytes |
//! |---|---|
//! | token bucket | 7 used, 5 time |
//! | fixed and sliding window | 4 index of the window mod 2^32, 4 current, 4 previous |
//! | sliding log | 2 units in all, then per entry 5 time, 2 units |
//!
//! The holders of a concurrency limit are a sorted set, which the scripts alone read and write.
//!
//! Times are milliseconds since [`EPOCH_MS`]; 5 bytes last until November 2059.

use super::concurrency::Holders;
use super::sliding_log::Log;
use super::token_bucket::Bucket;
use super::windows::Windows;
use super::{CLOCK_SLACK_MS, Check, Quota, Wait, fixed_window, sliding_window};
use crate::policy::Algorithm;

/// 2025-01-01T00:00:00Z, the zero of stored times. A clock before it is taken to stand at it.
pub const EPOCH_MS: u64 = 1_735_689_600_000;

/// State of one subject of one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Of a token bucket.
    Bucket(Bucket),
    /// Of a fixed or sliding window.
    Windows(Windows),
    /// Of a sliding log.
    Log(Log),
    /// Of a concurrency limit.
    Holders(Holders),
}

impl State {
    /// A subject that nothing is known of.
    pub fn idle(quota: &Quota, now_ms: u64) -> Self {
        match quota.algorithm {
            Algorithm::TokenBucket => Self::Bucket(Bucket::idle(now_ms)),
            Algorithm::SlidingLog => Self::Log(Log::default()),
            Algorithm::Concurrency => Self::Holders(Holders::default()),
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                let index = now_ms.checked_div(quota.window_ms).unwrap_or(0);
                Self::Windows(Windows { index, current: 0, previous: 0 })
            }
        }
    }

    /// Brings a state to `now_ms`. State of another kind than the quota's counts as none.
    pub fn settle(found: Option<&Self>, quota: &Quota, now_ms: u64) -> Self {
        let now_ms = now_ms.max(EPOCH_MS);
        match (found, quota.algorithm) {
            (Some(Self::Bucket(bucket)), Algorithm::TokenBucket) => {
                Self::Bucket(bucket.settle(quota, now_ms))
            }
            (Some(Self::Log(log)), Algorithm::SlidingLog) => {
                let mut log = log.clone();
                log.settle(quota, now_ms);
                Self::Log(log)
            }
            (Some(Self::Windows(windows)), Algorithm::FixedWindow | Algorithm::SlidingWindow) => {
                Self::Windows(windows.settle(quota, now_ms))
            }
            (Some(Self::Holders(holders)), Algorithm::Concurrency) => Self::Holders(holders.clone()),
            _ => Self::idle(quota, now_ms),
        }
    }

    /// When `cost` more can be had, of a settled state.
    pub fn wait(&self, quota: &Quota, cost: u64, now_ms: u64) -> Wait {
        let now_ms = now_ms.max(EPOCH_MS);
        match self {
            Self::Bucket(bucket) => bucket.wait(quota, cost, now_ms),
            Self::Log(log) => log.wait(quota, cost, now_ms),
            Self::Holders(holders) => holders.wait(None, quota.limit, now_ms),
            Self::Windows(windows) if quota.algorithm == Algorithm::FixedWindow => {
                fixed_window::wait(windows, quota, cost, now_ms)
            }
            Self::Windows(windows) => sliding_window::wait(windows, quota, cost, now_ms),
        }
    }

    /// The same of a check that may pass ahead of its moment, and for how many milliseconds it is then held. Only a token
    /// bucket has a moment for each request.
    pub fn wait_ahead(&self, check: &Check, now_ms: u64) -> (Wait, u64) {
        match (self, check.ahead_ms) {
            (Self::Bucket(bucket), Some(ahead_ms)) => {
                bucket.wait_ahead(&check.quota, check.cost, now_ms.max(EPOCH_MS), ahead_ms)
            }
            _ => (self.wait(&check.quota, check.cost, now_ms), 0),
        }
    }

    /// Charges a settled state. A slot is taken under an id, so that holders are charged by [`super::decide`] alone.
    pub fn charge(&mut self, quota: &Quota, cost: u64, now_ms: u64) {
        match self {
            Self::Bucket(bucket) => bucket.charge(quota, cost),
            Self::Log(log) => log.charge(cost, now_ms.max(EPOCH_MS)),
            Self::Windows(windows) => windows.current = windows.current.saturating_add(cost),
            Self::Holders(_) => {}
        }
    }

    /// Whole units left of a settled state.
    pub fn remaining(&self, quota: &Quota, now_ms: u64) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.remaining(quota),
            Self::Log(log) => log.remaining(quota),
            Self::Holders(holders) => holders.free(quota.limit, now_ms),
            Self::Windows(windows) if quota.algorithm == Algorithm::FixedWindow => {
                fixed_window::remaining(windows, quota)
            }
            Self::Windows(windows) => sliding_window::remaining(windows, quota, now_ms.max(EPOCH_MS)),
        }
    }

    /// Milliseconds until nothing is used any more, of a settled state; of holders until the first lease ends.
    pub fn reset_ms(&self, quota: &Quota, now_ms: u64) -> u64 {
        let now_ms = now_ms.max(EPOCH_MS);
        match self {
            Self::Bucket(bucket) => bucket.reset_ms(quota, now_ms),
            Self::Log(log) => log.reset_ms(quota, now_ms),
            Self::Holders(holders) => holders.reset_ms(now_ms),
            Self::Windows(windows) if quota.algorithm == Algorithm::FixedWindow => {
                fixed_window::reset_ms(windows, quota, now_ms)
            }
            Self::Windows(windows) => sliding_window::reset_ms(windows, quota, now_ms),
        }
    }

    /// Milliseconds from which on a settled state says no more than none, if nothing is charged meanwhile.
    pub fn idle_ms(&self, quota: &Quota, now_ms: u64) -> u64 {
        match self {
            Self::Holders(holders) => holders.idle_ms(now_ms.max(EPOCH_MS)),
            _ => self.reset_ms(quota, now_ms),
        }
    }

    /// Takes back what a clock running ahead has written: where the stored time is more than [`CLOCK_SLACK_MS`]
    /// past both the caller's clock and `arbiter_ms`, the store's, it is set to the arbiter's. What is used stays.
    /// Answers whether it was so.
    pub fn repair(&mut self, quota: &Quota, now_ms: u64, arbiter_ms: u64) -> bool {
        if let Self::Holders(holders) = self {
            return holders.mend(quota.window_ms, arbiter_ms);
        }
        let bound = now_ms.max(EPOCH_MS).max(arbiter_ms).saturating_add(CLOCK_SLACK_MS);
        if self.stamp_ms(quota) <= bound {
            return false;
        }
        match self {
            Self::Bucket(bucket) => bucket.at_ms = arbiter_ms,
            Self::Windows(windows) => windows.index = arbiter_ms.checked_div(quota.window_ms).unwrap_or(0),
            Self::Log(log) => {
                let kept = log.entries.iter().filter(|(at, _)| *at < arbiter_ms).copied();
                let mut repaired: std::collections::VecDeque<_> = kept.collect();
                let moved = log.entries.iter().filter(|(at, _)| *at >= arbiter_ms);
                repaired.push_back((arbiter_ms, moved.fold(0, |sum, (_, units)| units.saturating_add(sum))));
                log.entries = repaired;
            }
            Self::Holders(_) => {}
        }
        true
    }

    /// The latest moment a state speaks of, in milliseconds since the Unix epoch.
    pub fn stamp_ms(&self, quota: &Quota) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.at_ms,
            Self::Windows(windows) => windows.start_ms(quota),
            Self::Log(log) => log.entries.back().map_or(0, |&(at, _)| at),
            Self::Holders(holders) => holders.all().map(|(_, lease)| lease.expires_ms).max().unwrap_or(0),
        }
    }

    /// The bytes that the store holds; none of holders, which are no string there.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12);
        match self {
            Self::Bucket(bucket) => {
                put(&mut bytes, bucket.used, 7);
                put(&mut bytes, bucket.at_ms.saturating_sub(EPOCH_MS), 5);
            }
            Self::Windows(windows) => {
                put(&mut bytes, windows.index, 4);
                put(&mut bytes, windows.current, 4);
                put(&mut bytes, windows.previous, 4);
            }
            Self::Log(log) => {
                put(&mut bytes, log.used(), 2);
                for &(at, units) in &log.entries {
                    put(&mut bytes, at.saturating_sub(EPOCH_MS), 5);
                    put(&mut bytes, units, 2);
                }
            }
            Self::Holders(_) => {}
        }
        bytes
    }
}

/// Appends the lowest `width` bytes of a number, big endian.
fn put(bytes: &mut Vec<u8>, number: u64, width: usize) {
    let all = number.to_be_bytes();
    bytes.extend(all.iter().skip(all.len().saturating_sub(width)));
}
