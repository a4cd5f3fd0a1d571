//! What an isolate's clock reads.

use sluicegate::limit::state::EPOCH_MS;

use super::random::Random;

/// When simulations begin, in milliseconds since the Unix epoch.
pub const START_MS: u64 = 1_785_432_000_000;

/// An isolate's clock beside true time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// True time.
    Honest,
    /// Behind by this many milliseconds.
    Behind(u64),
    /// Ahead by this many milliseconds; less than the minute that the store takes for slack.
    Ahead(u64),
    /// Stands still between multiples of this many milliseconds.
    Coarse(u64),
    /// Reads 0 until this moment, as at module load.
    ZeroUntil(u64),
    /// Goes back by the second number at the first.
    StepsBack(u64, u64),
}

impl Clock {
    /// One that is not honest, for a run of this length.
    pub fn odd(random: &mut Random, length_ms: u64) -> Self {
        let moment = START_MS + random.between(0, length_ms);
        match random.between(0, 4) {
            0 => Self::Behind(random.between(1, 30_000)),
            1 => Self::Ahead(random.between(1, 30_000)),
            2 => Self::Coarse(random.pick(&[10, 100, 1_000, 5_000])),
            3 => Self::ZeroUntil(moment),
            _ => Self::StepsBack(moment, random.pick(&[5, 200, 3_000, 100_000])),
        }
    }

    /// What it reads.
    pub fn reads(self, true_ms: u64) -> u64 {
        match self {
            Self::Honest => true_ms,
            Self::Behind(by) => true_ms - by,
            Self::Ahead(by) => true_ms + by,
            Self::Coarse(step) => true_ms - true_ms % step,
            Self::ZeroUntil(moment) if true_ms < moment => 0,
            Self::StepsBack(moment, by) if true_ms >= moment => true_ms - by,
            Self::ZeroUntil(_) | Self::StepsBack(..) => true_ms,
        }
    }
}

/// A reading as `limit` takes it: none is before its epoch.
pub fn told(now_ms: u64) -> u64 {
    now_ms.max(EPOCH_MS)
}
