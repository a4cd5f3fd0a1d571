//! What the fixed and the sliding window keep.

use super::Quota;
use crate::policy::Algorithm;

/// Counts of two neighbouring windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Number of the current window since the Unix epoch; never moves back.
    pub index: u64,
    /// Units in it.
    pub current: u64,
    /// Units in the one before (not used by the fixed window).
    pub previous: u64,
}

impl Windows {
    /// When the current window began, in milliseconds since the Unix epoch.
    pub fn start_ms(&self, quota: &Quota) -> u64 {
        self.index.saturating_mul(quota.window_ms)
    }

    /// Moves on to the window that `now_ms` lies in. A clock behind stays in the stored one.
    pub fn settle(self, quota: &Quota, now_ms: u64) -> Self {
        let index = now_ms.checked_div(quota.window_ms).unwrap_or(0);
        let sliding = quota.algorithm == Algorithm::SlidingWindow;
        match index.checked_sub(self.index) {
            None | Some(0) => self,
            Some(1) if sliding => Self { index, current: 0, previous: self.current },
            Some(_) => Self { index, current: 0, previous: 0 },
        }
    }
}
