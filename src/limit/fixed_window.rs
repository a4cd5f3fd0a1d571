//! Fixed window, aligned to the Unix epoch: no more than `limit` in each, at most twice that across an edge.

use super::windows::Windows;
use super::{Quota, Wait};

/// When `cost` more can be had: now, or when the window ends.
pub fn wait(windows: &Windows, quota: &Quota, cost: u64, now_ms: u64) -> Wait {
    if cost > quota.limit {
        return Wait::Never;
    }
    if cost == 0 || windows.current.saturating_add(cost) <= quota.limit {
        return Wait::None;
    }
    Wait::Ms(reset_ms(windows, quota, now_ms))
}

/// Units left in this window.
pub fn remaining(windows: &Windows, quota: &Quota) -> u64 {
    quota.limit.saturating_sub(windows.current)
}

/// Milliseconds until the window ends, however much is used: the moment stands still within a window.
pub fn reset_ms(windows: &Windows, quota: &Quota, now_ms: u64) -> u64 {
    windows.start_ms(quota).saturating_add(quota.window_ms).saturating_sub(now_ms)
}
