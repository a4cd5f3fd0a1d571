//! Settling: what a request really cost, once that is known, in place of what it had reserved. `lua/settle.lua`
//! computes the same.
//!
//! A debt is charged in full when it becomes known, also above the capacity. A refund goes where the reservation is: into
//! its window, as long as that counts; into a bucket as far as it has not drained yet. Had less been charged at first,
//! the bucket would have been idle for a while in which nothing drains, and the time of that is lost, not the refund's.

use super::windows::Windows;
use super::{Quota, State, TTL_MARGIN_MS};
use crate::policy::{Algorithm, bounds};

/// What a request had reserved of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// Units.
    pub units: u64,
    /// The clock by which it was made, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// How long after that nothing would have been used any more, had nobody used more: the reset of its verdict.
    pub reset_ms: u64,
    /// The limit that was in force.
    pub rate: u64,
}

/// What settling comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The state then.
    pub state: State,
    /// Whole units charged; below 0, given back.
    pub units: i64,
    /// Whether the state is another than before.
    pub changed: bool,
    /// Time to live of its key in milliseconds: it outlives a debt.
    pub ttl_ms: u64,
}

/// Settles a reservation at `cost` units. State of another kind than the quota's counts as none.
pub fn settle(
    found: Option<&State>,
    quota: &Quota,
    reservation: &Reservation,
    cost: u64,
    now_ms: u64,
) -> Settled {
    let mut state = State::settle(found, quota, now_ms);
    let owed = cost.checked_sub(reservation.units);
    let refund = reservation.units.saturating_sub(cost);
    let window = quota.window_ms.max(1);
    let ahead_ms = state.stamp_ms(quota).saturating_sub(now_ms.max(super::state::EPOCH_MS));
    let full = quota.ttl_ms();
    let (charged, given, exact, ttl_ms) = match &mut state {
        State::Bucket(bucket) => {
            let (charged, given) = match owed {
                Some(owed) => {
                    (owed.saturating_mul(window).min(bounds::MOST_DRAINING.saturating_sub(bucket.used)), 0)
                }
                None => (
                    0,
                    refund
                        .saturating_mul(window)
                        .min(undrained(reservation, quota, bucket.at_ms))
                        .min(bucket.used),
                ),
            };
            bucket.used = bucket.used.saturating_add(charged).saturating_sub(given);
            let drained = bucket.used.div_ceil(quota.limit.max(1));
            (charged, given, window, full.max(ahead_ms.saturating_add(drained).saturating_add(TTL_MARGIN_MS)))
        }
        State::Windows(windows) => {
            let charged = owed
                .unwrap_or(0)
                .min(bounds::most_used(quota.algorithm, window).saturating_sub(windows.current));
            windows.current = windows.current.saturating_add(charged);
            let given = give_back(windows, reservation, quota, refund);
            (charged, given, 1, full.saturating_add(ahead_ms))
        }
        State::Log(_) | State::Holders(_) => (0, 0, 1, full),
    };
    let whole = |units: u64| i64::try_from(units.checked_div(exact).unwrap_or(0)).unwrap_or(i64::MAX);
    Settled {
        units: whole(charged).saturating_sub(whole(given)),
        changed: charged > 0 || given > 0,
        state,
        ttl_ms,
    }
}

/// What cannot have drained yet of what was used when a bucket's units were reserved, in the bucket's units: never more,
/// and less by no more than a millisecond's.
fn undrained(reservation: &Reservation, quota: &Quota, at_ms: u64) -> u64 {
    let Reservation { since_ms, reset_ms, rate, .. } = *reservation;
    let left_ms = since_ms.saturating_add(reset_ms).saturating_sub(1).saturating_sub(at_ms);
    let faster = quota.limit.saturating_sub(rate).saturating_mul(at_ms.saturating_sub(since_ms));
    left_ms.saturating_mul(rate).saturating_sub(faster)
}

/// Takes a refund out of the window that it was reserved in, as far as that counts.
fn give_back(windows: &mut Windows, reservation: &Reservation, quota: &Quota, refund: u64) -> u64 {
    let (window, sliding) = (quota.window_ms.max(1), quota.algorithm == Algorithm::SlidingWindow);
    // The nearest edge: where the store's clock decided, the moment is known by ours alone.
    let over_ms = reservation.since_ms.saturating_add(reservation.reset_ms);
    let end = over_ms.saturating_mul(2).saturating_add(window).checked_div(window.saturating_mul(2));
    let own = end.unwrap_or(0).saturating_sub(if sliding { 2 } else { 1 });
    let count = if own == windows.index {
        &mut windows.current
    } else if sliding && own.saturating_add(1) == windows.index {
        &mut windows.previous
    } else {
        return 0;
    };
    let given = refund.min(*count);
    *count = count.saturating_sub(given);
    given
}
