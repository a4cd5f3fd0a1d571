//! Sliding log: every charge with its time, so that no window of any alignment holds more than `limit`.
//! An entry counts from its moment until just before `window` later. Memory and work are bounded by the limit:
//! each entry is worth at least one unit, and charges of one millisecond share an entry.

use std::collections::VecDeque;

use super::{Quota, Wait};

/// Charges still inside the window, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// (time in milliseconds since the Unix epoch, units), times strictly rising.
    pub entries: VecDeque<(u64, u64)>,
}

impl Log {
    /// Drops what has left the window. A clock behind the newest entry drops nothing that the newest would keep.
    pub fn settle(&mut self, quota: &Quota, now_ms: u64) {
        let now = self.clock(now_ms);
        while let Some(&(at, _)) = self.entries.front() {
            if at.saturating_add(quota.window_ms) > now {
                break;
            }
            self.entries.pop_front();
        }
    }

    /// When `cost` more can be had: as soon as enough of the oldest entries have left.
    pub fn wait(&self, quota: &Quota, cost: u64, now_ms: u64) -> Wait {
        if cost > quota.limit {
            return Wait::Never;
        }
        let missing = self.used().saturating_add(cost).saturating_sub(quota.limit);
        if cost == 0 || missing == 0 {
            return Wait::None;
        }
        let mut freed: u64 = 0;
        for &(at, units) in &self.entries {
            freed = freed.saturating_add(units);
            if freed >= missing {
                return Wait::Ms(at.saturating_add(quota.window_ms).saturating_sub(now_ms));
            }
        }
        Wait::Never
    }

    /// Notes `cost` units at this moment.
    pub fn charge(&mut self, cost: u64, now_ms: u64) {
        let now = self.clock(now_ms);
        match self.entries.back_mut() {
            Some((at, units)) if *at == now => *units = units.saturating_add(cost),
            _ => self.entries.push_back((now, cost)),
        }
    }

    /// Units left.
    pub fn remaining(&self, quota: &Quota) -> u64 {
        quota.limit.saturating_sub(self.used())
    }

    /// Milliseconds until the newest entry has left.
    pub fn reset_ms(&self, quota: &Quota, now_ms: u64) -> u64 {
        let newest = self.entries.back().map_or(0, |&(at, _)| at.saturating_add(quota.window_ms));
        newest.saturating_sub(now_ms)
    }

    /// Units inside the window.
    pub fn used(&self) -> u64 {
        self.entries.iter().fold(0, |sum, &(_, units)| sum.saturating_add(units))
    }

    /// The caller's clock, or the newest entry's where that is later.
    fn clock(&self, now_ms: u64) -> u64 {
        self.entries.back().map_or(now_ms, |&(at, _)| at.max(now_ms))
    }
}
