//! Sliding window counter: this window's count plus the previous one's, weighted by how much of it the trailing
//! window still covers. Compared exactly, as integers times the window:
//! `previous × (window − elapsed) + (current + cost) × window ≤ limit × window`.

use super::windows::Windows;
use super::{Quota, Wait};

/// When `cost` more can be had.
pub fn wait(windows: &Windows, quota: &Quota, cost: u64, now_ms: u64) -> Wait {
    if cost > quota.limit {
        return Wait::Never;
    }
    let window = quota.window_ms;
    let wanted = used(windows, quota, now_ms).saturating_add(cost.saturating_mul(window));
    if cost == 0 || wanted <= quota.limit.saturating_mul(window) {
        return Wait::None;
    }
    // The moment counted from the start of the stored window. While `current + cost` fits the limit by itself, the
    // previous window only has to fade; else this one has to, after it has become the previous one.
    let moment = match quota.limit.checked_sub(windows.current.saturating_add(cost)) {
        Some(room) => window.saturating_sub(fading(room, window, windows.previous)),
        None => {
            let room = quota.limit.saturating_sub(cost);
            window.saturating_mul(2).saturating_sub(fading(room, window, windows.current))
        }
    };
    Wait::Ms(windows.start_ms(quota).saturating_add(moment).saturating_sub(now_ms))
}

/// Whole units left.
pub fn remaining(windows: &Windows, quota: &Quota, now_ms: u64) -> u64 {
    let left = quota.limit.saturating_mul(quota.window_ms).saturating_sub(used(windows, quota, now_ms));
    left.checked_div(quota.window_ms).unwrap_or(0)
}

/// Milliseconds until neither window counts any more.
pub fn reset_ms(windows: &Windows, quota: &Quota, now_ms: u64) -> u64 {
    let counted = match (windows.current, windows.previous) {
        (0, 0) => return 0,
        (0, _) => quota.window_ms,
        _ => quota.window_ms.saturating_mul(2),
    };
    windows.start_ms(quota).saturating_add(counted).saturating_sub(now_ms)
}

/// What is used, times the window.
fn used(windows: &Windows, quota: &Quota, now_ms: u64) -> u64 {
    let elapsed = now_ms.saturating_sub(windows.start_ms(quota));
    let previous = windows.previous.saturating_mul(quota.window_ms.saturating_sub(elapsed));
    previous.saturating_add(windows.current.saturating_mul(quota.window_ms))
}

/// How long before the end of a window a count weighs no more than `room`.
fn fading(room: u64, window: u64, count: u64) -> u64 {
    room.saturating_mul(window).checked_div(count).unwrap_or(window)
}
