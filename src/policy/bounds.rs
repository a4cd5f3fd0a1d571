//! The ranges of the policy's numbers.
//!
//! Redis computes in Lua's doubles, which hold every integer below 2^53 and skip some above. Every intermediate
//! value of every algorithm must therefore stay below 2^53: then the Lua, the Rust and the arithmetic on paper
//! give the same number, and no unit is ever lost or gained to rounding.

use super::error::Wrong;
use super::{Algorithm, Capacity, duration};

/// 2^53: integers below it are exact in a double.
pub const EXACT: u64 = 1 << 53;
/// Greatest number below [`EXACT`].
const LARGEST: u64 = EXACT - 1;

/// Most units in one window: the store keeps a window's count in four bytes (`limit::state`).
pub const MAX_COUNT: u64 = 0xffff_ffff;

/// `burst`, before [`check`] asks more of it.
pub const BURST: (u64, u64) = (1, LARGEST);

/// Shortest window in milliseconds. Below it the round trip to the store is longer than the window.
pub const MIN_WINDOW_MS: u64 = 100;
/// Longest window in milliseconds, 400 days: a year and some.
pub const MAX_WINDOW_MS: u64 = 34_560_000_000;
/// `lease` of a concurrency limit in milliseconds.
pub const LEASE_MS: (u64, u64) = (1_000, 86_400_000);
/// `lease_batch`, before the capacity bounds it: a batch of one would be no batch.
pub const BATCH: (u64, u64) = (2, MAX_COUNT);
/// `lease_ttl` in milliseconds: what is taken and not spent by then is lost, so nobody wants it long.
pub const BATCH_TTL_MS: (u64, u64) = (100, 60_000);
/// Most slots of a concurrency limit: what has expired is dropped by the one request that next takes a slot.
pub const MAX_SLOTS: u64 = 10_000;
/// How often a holder renews within one lease, so that one lost renewal costs nothing.
const RENEWALS: u64 = 3;
/// `over_limit.delay` in milliseconds: a minute is what clients and proxies before us bear without an answer.
pub const DELAY_MS: (u64, u64) = (1, 60_000);
/// `over_limit.waiting`: each is a request with its connection, kept in the isolate's memory.
pub const WAITING: (u64, u64) = (1, 10_000);
/// `store.timeout` in milliseconds.
pub const TIMEOUT_MS: (u64, u64) = (10, 10_000);
/// `store.remember` in milliseconds.
pub const REMEMBER_MS: (u64, u64) = (0, 600_000);
/// `gateway.origin_timeout` in milliseconds.
pub const ORIGIN_TIMEOUT_MS: (u64, u64) = (10, 3_600_000);
/// `store.max_in_flight`.
pub const IN_FLIGHT: (u64, u64) = (1, 10_000);
/// Durations of `[store.breaker]` in milliseconds.
pub const BREAKER_MS: (u64, u64) = (10, 600_000);
/// Counts of `[store.breaker]`.
pub const BREAKER_CALLS: (u64, u64) = (1, 1_000);
/// `store.retry.backoff` in milliseconds.
pub const BACKOFF_MS: (u64, u64) = (0, 10_000);
/// `jwt.leeway` in milliseconds.
pub const LEEWAY_MS: (u64, u64) = (0, 300_000);
/// `over_limit.max_body` in bytes. A queue takes messages of 128,000 bytes, in which a body stands as base64 beside the
/// URL and the headers.
pub const QUEUED_BODY: (u64, u64) = (0, 81_920);
/// `over_limit.max_depth`.
pub const QUEUE_DEPTH: (u64, u64) = (1, 10_000_000);
/// `over_limit.attempts`.
pub const ATTEMPTS: (u64, u64) = (1, 100);
/// `over_limit.backoff` in milliseconds; a queue counts delays in whole seconds.
pub const DELIVERY_BACKOFF_MS: (u64, u64) = (1_000, 3_600_000);
/// `over_limit.keep` in milliseconds.
pub const KEEP_MS: (u64, u64) = (60_000, 1_209_600_000);
/// Greatest cost of one request.
pub const MAX_COST: u64 = 1_000_000_000;
/// `settle.within` in milliseconds: what was settled is kept for so long, a key for each request.
pub const SETTLE_RANGE_MS: (u64, u64) = (60_000, 86_400_000);
/// The same where the policy does not say.
pub const SETTLE_WITHIN_MS: u64 = 600_000;
/// Most entries of a sliding log: each is an element in Redis, and all of them are read back in an outage.
pub const MAX_LOG: u64 = 10_000;
/// Most limits on one route: each is two keys of the one EVAL.
pub const MAX_LIMITS_PER_ROUTE: usize = 32;
/// `degraded.max_subjects`.
pub const SUBJECTS: (u64, u64) = (1, 1_000_000);
/// `gateway.ipv6_prefix`: a provider's whole allocation, to one address.
pub const IPV6_PREFIX: (u64, u64) = (32, 128);

/// How long after it was taken or last renewed a lease is renewed, in milliseconds.
pub fn renewal_ms(lease_ms: u64) -> u64 {
    lease_ms / RENEWALS
}

/// The shortest lease, in whole seconds and told in milliseconds, whose renewal is through before it ends: longer than
/// the renewal interval and a fifth, which timers may be late, plus the store's deadline and the wait before a retry.
pub fn least_lease_ms(timeout_ms: u64, backoff_ms: u64) -> u64 {
    // lease > lease / 3 × 6 / 5 + call, so lease > call × 5 / 3.
    let call_ms = timeout_ms.saturating_add(backoff_ms);
    let least_ms = (call_ms.saturating_mul(5) / 3).saturating_add(1);
    least_ms.div_ceil(1_000).saturating_mul(1_000).max(LEASE_MS.0)
}

/// The longest delay in milliseconds with which a token bucket's arithmetic stays exact: on credit as much more is used
/// as comes in meanwhile.
pub fn most_delay_ms(limit: u64, burst: u64, cost: u64, window_ms: u64) -> u64 {
    let full = burst.saturating_add(cost).saturating_mul(window_ms);
    LARGEST.saturating_sub(full).checked_div(limit).unwrap_or(0)
}

/// The most that a bucket may hold as used: what drains in as many milliseconds, with margins, is exact.
pub const MOST_DRAINING: u64 = LARGEST - 100_000;

/// The most units that the state of one subject can hold as used, debts included, and decide about exactly.
pub fn most_used(algorithm: Algorithm, window_ms: u64) -> u64 {
    let per_window = LARGEST.checked_div(window_ms).unwrap_or(0);
    match algorithm {
        Algorithm::TokenBucket => MOST_DRAINING.checked_div(window_ms).unwrap_or(0),
        // Both windows may be as full.
        Algorithm::SlidingWindow => MAX_COUNT.min(per_window / 2),
        _ => MAX_COUNT,
    }
}

/// Whether a quota's arithmetic stays exact, `cost` being the greatest cost of one request.
///
/// # Errors
/// It does not; the message has the greatest numbers that do.
pub fn check(algorithm: Algorithm, capacity: Capacity, cost: u64, window_ms: u64) -> Result<(), Wrong> {
    let (limit, burst) = (capacity.limit.get(), capacity.burst.get());
    // Greatest x with x × window below 2^53.
    let per_window = LARGEST.checked_div(window_ms).unwrap_or(0);
    let window = duration::to_text(window_ms);
    match algorithm {
        // The window's count is read, and the cost added to it.
        Algorithm::FixedWindow => {
            exact("the limit", limit, LARGEST.saturating_sub(cost), MAX_COUNT, "")?;
            countable(limit)
        }
        // The previous count × what is left of the window, plus the current count and the cost, × the window.
        Algorithm::SlidingWindow => {
            let most = per_window.saturating_sub(cost) / 2;
            let behind = format!(" for {window}; fixed-window goes further");
            exact("the limit", limit, most, MAX_COUNT, &behind)?;
            countable(limit)
        }
        Algorithm::SlidingLog if limit > MAX_LOG => Err(Wrong::new(
            format!("a sliding log of {limit} holds up to as many entries in the store for each subject"),
            format!("write at most {MAX_LOG}, or algorithm = \"sliding-window\""),
        )),
        Algorithm::SlidingLog => Ok(()),
        Algorithm::Concurrency if limit > MAX_SLOTS => Err(Wrong::new(
            format!("{limit} slots would be as many holders in the store for each subject"),
            format!("write at most {MAX_SLOTS}"),
        )),
        Algorithm::Concurrency => Ok(()),
        // Tokens are counted in units of 1/window, so that a millisecond refills exactly `limit` of them.
        Algorithm::TokenBucket => {
            let behind = format!(" for {window}; a shorter window with fewer goes further");
            exact("the limit", limit, per_window, per_window, &behind)?;
            let most = per_window.saturating_sub(cost);
            exact("the burst", burst, most, most, &behind)
        }
    }
}

/// `most` is the greatest number that is exact, `allowed` the greatest that another bound leaves of it.
fn exact(what: &str, number: u64, most: u64, allowed: u64, behind: &str) -> Result<(), Wrong> {
    if number <= most {
        return Ok(());
    }
    Err(Wrong::new(
        format!("{what} {number} would leave the integers a double holds (2^53)"),
        format!("write at most {}{behind}", most.min(allowed)),
    ))
}

fn countable(limit: u64) -> Result<(), Wrong> {
    if limit <= MAX_COUNT {
        return Ok(());
    }
    Err(Wrong::new(
        format!("the limit {limit} is more than the store counts in one window (2^32)"),
        format!("write at most {MAX_COUNT}, or count in larger units"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    fn capacity(limit: u64, burst: u64) -> Capacity {
        Capacity { limit: NonZeroU64::new(limit).unwrap(), burst: NonZeroU64::new(burst).unwrap() }
    }

    /// The greatest numbers that pass stay below 2^53, and the next leave it.
    #[test]
    fn edges() {
        for window in [MIN_WINDOW_MS, 1_000, 86_400_000, MAX_WINDOW_MS] {
            for cost in [0, 1, 7, 100] {
                let (w, c, exact) = (u128::from(window), u128::from(cost), u128::from(EXACT));
                let passes =
                    |algorithm, limit, burst| check(algorithm, capacity(limit, burst), cost, window).is_ok();
                let greatest = |fits: &dyn Fn(u64) -> bool| {
                    let (mut low, mut high) = (1, EXACT);
                    while low < high - 1 {
                        let middle = low.midpoint(high);
                        if fits(middle) { low = middle } else { high = middle }
                    }
                    u128::from(low)
                };
                let fixed = greatest(&|n| passes(Algorithm::FixedWindow, n, n));
                assert!(fixed + c < exact && fixed == u128::from(MAX_COUNT));
                let sliding = greatest(&|n| passes(Algorithm::SlidingWindow, n, n));
                assert!((2 * sliding + c) * w < exact);
                assert!((2 * (sliding + 1) + c) * w >= exact || sliding == u128::from(MAX_COUNT));
                let limit = greatest(&|n| passes(Algorithm::TokenBucket, n, 1));
                assert!(limit * w < exact && (limit + 1) * w >= exact);
                let burst = greatest(&|n| passes(Algorithm::TokenBucket, 1, n));
                assert!((burst + c) * w < exact && (burst + 1 + c) * w >= exact);
            }
        }
        for (algorithm, most) in [(Algorithm::SlidingLog, MAX_LOG), (Algorithm::Concurrency, MAX_SLOTS)] {
            assert!(check(algorithm, capacity(most, most), 1, 1_000).is_ok());
            assert!(check(algorithm, capacity(most + 1, most), 1, 1_000).is_err());
        }
    }

    /// lease > 1.2 × lease / 3 + call, times five: nothing shorter in whole seconds satisfies it.
    #[test]
    fn the_least_lease_outlasts_a_late_renewal() {
        let outlasts = |lease: u64, call: u64| lease * 5 > lease * 2 + call * 5;
        for call in [0, 10, 180, 599, 600, 601, 1_000, 20_000] {
            let least = least_lease_ms(call / 2, call - call / 2);
            assert!(outlasts(least, call) && renewal_ms(least) * 6 / 5 + call < least, "{call}");
            assert!(least == LEASE_MS.0 || !outlasts(least - 1_000, call), "{call}: {least}");
        }
        assert_eq!(least_lease_ms(150, 30), 1_000);
        assert_eq!(least_lease_ms(10_000, 10_000), 34_000);
    }
}
