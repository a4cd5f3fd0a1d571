//! How long store calls take: a histogram with fixed bounds, so that counting one is a few integer additions.

/// Upper bounds of the buckets in milliseconds; calls that took longer fall into one more. The platform's clock has a
/// millisecond's resolution, so finer ones would say nothing.
pub const BOUNDS_MS: [u64; 16] = [1, 2, 3, 5, 10, 15, 20, 30, 50, 75, 100, 150, 250, 500, 1_000, 2_500];

/// Buckets, the one without a bound included.
const BUCKETS: usize = BOUNDS_MS.len() + 1;

/// The histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latency {
    buckets: [u64; BUCKETS],
    sum_ms: u64,
}

impl Latency {
    /// A call took this long.
    pub fn note(&mut self, took_ms: u64) {
        let index = BOUNDS_MS.iter().position(|bound| took_ms <= *bound).unwrap_or(BOUNDS_MS.len());
        if let Some(count) = self.buckets.get_mut(index) {
            *count = count.saturating_add(1);
        }
        self.sum_ms = self.sum_ms.saturating_add(took_ms);
    }

    /// How many calls were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// How long they took together, in milliseconds.
    pub fn sum_ms(&self) -> u64 {
        self.sum_ms
    }

    /// Each bound with how many calls took no longer; `None` is all of them.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let bounds = BOUNDS_MS.into_iter().map(Some).chain([None]);
        bounds.zip(&self.buckets).scan(0_u64, |below, (bound, count)| {
            *below = below.saturating_add(*count);
            Some((bound, *below))
        })
    }

    /// The duration in milliseconds that this part of the calls (0 to 1) stayed within: exact to its bucket, evenly
    /// spread inside it. `None` before the first call; beyond the last bound it is that bound.
    pub fn quantile_ms(&self, part: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = part.clamp(0.0, 1.0) * count as f64;
        let (mut from, mut below) = (0, 0);
        for (bound, up_to) in self.cumulative() {
            let Some(bound) = bound else { break };
            if up_to as f64 >= rank && up_to > below {
                let inside = (rank - below as f64) / up_to.saturating_sub(below) as f64;
                return Some(from as f64 + inside.clamp(0.0, 1.0) * bound.saturating_sub(from) as f64);
            }
            (from, below) = (bound, up_to);
        }
        Some(from as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(calls: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::default();
        calls.into_iter().for_each(|ms| latency.note(ms));
        latency
    }

    #[test]
    fn nothing_is_known_before_the_first_call() {
        assert_eq!(of([]).quantile_ms(0.5), None);
    }

    #[test]
    fn quantiles_lie_in_the_right_bucket() {
        // 98 calls of 4 ms, two of 120.
        let latency = of(std::iter::repeat_n(4, 98).chain([120, 120]));
        let p50 = latency.quantile_ms(0.5).unwrap();
        assert!((3.0..=5.0).contains(&p50), "{p50}");
        let p99 = latency.quantile_ms(0.99).unwrap();
        assert!((100.0..=150.0).contains(&p99), "{p99}");
        assert_eq!((latency.count(), latency.sum_ms()), (100, 98 * 4 + 240));
    }

    #[test]
    fn a_bound_belongs_to_its_bucket_and_the_last_holds_the_rest() {
        let latency = of([0, 1, 2, 2_500, 2_501, u64::MAX]);
        let counts: Vec<_> = latency.cumulative().collect();
        assert_eq!(counts[0], (Some(1), 2));
        assert_eq!(counts[1], (Some(2), 3));
        assert_eq!(counts[15], (Some(2_500), 4));
        assert_eq!(counts[16], (None, 6));
        assert_eq!(latency.quantile_ms(1.0), Some(2_500.0));
        assert_eq!(latency.sum_ms(), u64::MAX, "saturates");
    }
}
