//! The algorithms from their definitions, in numbers of any precision: slow, and written without a look at the model.
//!
//! A limit is a history of charges; what is used at a moment is a fraction of it. A request passes where what is used
//! and its cost do not exceed the capacity. Wait and reset are not computed but searched for: the first millisecond
//! at which the request passes, or at which nothing is used.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use num_bigint::BigInt;
use sluicegate::limit::Quota;
use sluicegate::policy::Algorithm;

/// A fraction; the denominator is positive.
#[derive(Debug, Clone)]
pub struct Ratio {
    top: BigInt,
    bottom: BigInt,
}

impl Ratio {
    fn new(top: impl Into<BigInt>, bottom: impl Into<BigInt>) -> Self {
        Self { top: top.into(), bottom: bottom.into() }
    }

    fn whole(number: u64) -> Self {
        Self::new(number, 1)
    }

    fn plus(&self, other: &Self) -> Self {
        if self.bottom == other.bottom {
            return Self::new(&self.top + &other.top, self.bottom.clone());
        }
        Self::new(&self.top * &other.bottom + &other.top * &self.bottom, &self.bottom * &other.bottom)
    }

    fn minus(&self, other: &Self) -> Self {
        self.plus(&Self::new(-&other.top, other.bottom.clone()))
    }

    fn not_negative(self) -> Self {
        if self.top < BigInt::from(0) { Self::whole(0) } else { self }
    }

    fn compare(&self, other: &Self) -> Ordering {
        (&self.top * &other.bottom).cmp(&(&other.top * &self.bottom))
    }

    fn is_zero(&self) -> bool {
        self.top == BigInt::from(0)
    }

    /// The whole part of a number that is not negative.
    fn floor(&self) -> u64 {
        u64::try_from(&self.top / &self.bottom).expect("not negative, below 2^64")
    }
}

/// What a limit on paper says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether the cost can be had now.
    pub passes: bool,
    /// ms until it can be had; `None`: never.
    pub wait: Option<u64>,
}

/// One subject of one limit.
#[derive(Debug, Clone, Default)]
pub struct Paper {
    /// Every charge of a log: moment and units.
    log: Vec<(u64, u64)>,
    /// Units by the window's number.
    counts: BTreeMap<u64, u64>,
    /// Tokens out of the bucket at the last charge, and when that was.
    drawn: Option<(Ratio, u64)>,
}

impl Paper {
    /// The moment a caller's clock stands for: time that something was charged at does not come back.
    fn moment(&self, quota: &Quota, now_ms: u64) -> u64 {
        let charged = match quota.algorithm {
            Algorithm::TokenBucket => self.drawn.as_ref().map(|(_, at)| *at),
            Algorithm::SlidingLog => self.log.last().map(|(at, _)| *at),
            // Of a window it is known that it has begun.
            _ => self.counts.last_key_value().map(|(index, _)| index * quota.window_ms),
        };
        now_ms.max(charged.unwrap_or(0))
    }

    fn count(&self, index: u64) -> u64 {
        self.counts.get(&index).copied().unwrap_or(0)
    }

    /// What is used at a moment.
    fn used(&self, quota: &Quota, now_ms: u64) -> Ratio {
        let moment = self.moment(quota, now_ms);
        let index = moment / quota.window_ms;
        match quota.algorithm {
            Algorithm::TokenBucket => self.drawn.as_ref().map_or(Ratio::whole(0), |(drawn, at)| {
                let refilled = BigInt::from(moment - at) * quota.limit;
                drawn.minus(&Ratio::new(refilled, quota.window_ms)).not_negative()
            }),
            Algorithm::SlidingLog => {
                let inside = self.log.iter().filter(|(at, _)| at + quota.window_ms > moment);
                Ratio::whole(inside.map(|(_, units)| units).sum())
            }
            Algorithm::FixedWindow => Ratio::whole(self.count(index)),
            Algorithm::SlidingWindow => {
                let before = index.checked_sub(1).map_or(0, |before| self.count(before));
                let covered = quota.window_ms - (moment - index * quota.window_ms);
                Ratio::new(BigInt::from(before) * covered, quota.window_ms)
                    .plus(&Ratio::whole(self.count(index)))
            }
            Algorithm::Concurrency => unreachable!("leases have tests of their own"),
        }
    }

    fn passes(&self, quota: &Quota, cost: u64, now_ms: u64) -> bool {
        let wanted = self.used(quota, now_ms).plus(&Ratio::whole(cost));
        cost == 0 || wanted.compare(&Ratio::whole(quota.capacity())) != Ordering::Greater
    }

    /// What is said of a request, nothing charged.
    pub fn ask(&self, quota: &Quota, cost: u64, now_ms: u64) -> Answer {
        let passes = self.passes(quota, cost, now_ms);
        let wait = match cost > quota.capacity() {
            true => None,
            false => Some(first(|wait| self.passes(quota, cost, now_ms + wait))),
        };
        Answer { passes, wait }
    }

    /// Whole units left.
    pub fn remaining(&self, quota: &Quota, now_ms: u64) -> u64 {
        Ratio::whole(quota.capacity()).minus(&self.used(quota, now_ms)).not_negative().floor()
    }

    /// ms until nothing is used; of a fixed window, until it ends.
    pub fn reset(&self, quota: &Quota, now_ms: u64) -> u64 {
        if quota.algorithm == Algorithm::FixedWindow {
            let index = self.moment(quota, now_ms) / quota.window_ms;
            return first(|wait| (now_ms + wait) / quota.window_ms > index);
        }
        first(|wait| self.used(quota, now_ms + wait).is_zero())
    }

    /// Charges.
    pub fn charge(&mut self, quota: &Quota, cost: u64, now_ms: u64) {
        let moment = self.moment(quota, now_ms);
        match quota.algorithm {
            Algorithm::TokenBucket => {
                self.drawn = Some((self.used(quota, now_ms).plus(&Ratio::whole(cost)), moment));
            }
            Algorithm::SlidingLog => self.log.push((moment, cost)),
            _ => *self.counts.entry(moment / quota.window_ms).or_default() += cost,
        }
    }
}

/// The first number for which it holds, of those for which it holds from one on.
fn first(holds: impl Fn(u64) -> bool) -> u64 {
    if holds(0) {
        return 0;
    }
    let mut above = 1;
    while !holds(above) {
        above *= 2;
    }
    let mut below = above / 2;
    while above - below > 1 {
        let middle = below.midpoint(above);
        if holds(middle) { above = middle } else { below = middle }
    }
    above
}
