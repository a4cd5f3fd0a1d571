//! Charge ids: what makes a repeat of one logical request charge once and get the first answer.
//!
//! The script notes the reply under the id when it charges, in the same EVAL, and a repeat finds it there. Costs one
//! `SET` more for a request that passes and nothing more for one that is refused; memory about 200 bytes for each
//! charged request for as long as the id is kept.

use std::rc::Rc;

/// Shortest and longest time that an idempotency key is kept, in milliseconds.
const KEPT_MS: (u64, u64) = (60_000, 86_400_000);

/// How much longer than the deadline the id of a single call is kept, in milliseconds.
const BEYOND_DEADLINE_MS: u64 = 2_000;

/// What tells one logical request from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeId {
    /// What the key ends with: a digest, or random.
    pub id: Rc<str>,
    /// Digest of the request; another request under the same id is a mistake of the client's. `-` where there can be
    /// no other.
    pub fingerprint: Rc<str>,
    /// How long it is kept, in milliseconds.
    pub kept_ms: u64,
}

impl ChargeId {
    /// The id of a client's idempotency key, kept for a window of the limit, at least a minute, at most a day.
    pub fn of_key(id: &str, fingerprint: &str, window_ms: u64) -> Self {
        let kept_ms = window_ms.clamp(KEPT_MS.0, KEPT_MS.1);
        Self { id: id.into(), fingerprint: fingerprint.into(), kept_ms }
    }

    /// The id of one call and its retry. `random` is in [0, 1); with the time and the count of this isolate's calls
    /// it meets no other's.
    pub fn of_call(random: f64, now_ms: u64, count: u64, timeout_ms: u64) -> Self {
        let drawn = (random.clamp(0.0, 1.0) * (1_u64 << 53) as f64) as u64;
        let id = format!("{drawn:x}-{now_ms:x}-{count:x}");
        Self {
            id: id.into(),
            fingerprint: "-".into(),
            kept_ms: timeout_ms.saturating_add(BEYOND_DEADLINE_MS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_call_holds_all_that_tells_it_from_others() {
        let half = ChargeId::of_call(0.5, 0x1a, 0x2b, 150);
        assert_eq!((&*half.id, half.kept_ms), ("10000000000000-1a-2b", 2_150));
        for (random, drawn) in [(0.0, "0"), (1.0, "20000000000000"), (-3.0, "0"), (f64::NAN, "0")] {
            assert_eq!(&*ChargeId::of_call(random, 0, 0, 0).id, format!("{drawn}-0-0"));
        }
    }

    #[test]
    fn a_key_is_kept_for_a_window_within_bounds() {
        let kept = [1, 60_001, u64::MAX].map(|window_ms| ChargeId::of_key("k", "f", window_ms).kept_ms);
        assert_eq!(kept, [60_000, 60_001, 86_400_000]);
    }
}
