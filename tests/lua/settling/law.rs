//! What settling promises, on the model: held against histories in which every request had cost from the beginning
//! what it really cost.

use sluicegate::limit::settlement::{Reservation, settle};
use sluicegate::limit::{Quota, State, TTL_MARGIN_MS, Wait};
use sluicegate::policy::Algorithm;

use super::super::random::{Random, seed};

const NOW: u64 = 1_785_432_000_000;
const ALGORITHMS: [Algorithm; 3] = [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow];

/// One subject, as it is and as it would be with the real costs.
struct Subject {
    quota: Quota,
    real: State,
    ideal: State,
}

impl Subject {
    fn new(quota: Quota) -> Self {
        Self { quota, real: State::idle(&quota, NOW), ideal: State::idle(&quota, NOW) }
    }

    fn charge(&mut self, units: u64, cost: u64, now: u64) -> Reservation {
        let quota = &self.quota;
        self.real = State::settle(Some(&self.real), quota, now);
        self.real.charge(quota, units, now);
        let reset_ms = self.real.reset_ms(quota, now);
        self.ideal = State::settle(Some(&self.ideal), quota, now);
        self.ideal.charge(quota, cost, now);
        Reservation { units, since_ms: now, reset_ms, rate: quota.limit }
    }

    fn settle(&mut self, reservation: &Reservation, cost: u64, now: u64) -> i64 {
        let settled = settle(Some(&self.real), &self.quota, reservation, cost, now);
        self.real = settled.state;
        settled.units
    }

    /// What is used now of both.
    fn used(&self, now: u64) -> (u64, u64) {
        let used = |state: &State| match State::settle(Some(state), &self.quota, now) {
            State::Bucket(bucket) => bucket.used,
            State::Windows(windows) => {
                let elapsed = now - windows.index * self.quota.window_ms;
                let sliding = self.quota.algorithm == Algorithm::SlidingWindow;
                let before = if sliding { windows.previous * (self.quota.window_ms - elapsed) } else { 0 };
                before + windows.current * self.quota.window_ms
            }
            other => panic!("{other:?}"),
        };
        (used(&self.real), used(&self.ideal))
    }
}

fn quota(random: &mut Random) -> Quota {
    let algorithm = random.pick(&ALGORITHMS);
    let limit = random.scaled(1, 10_000);
    let window_ms = random.pick(&[100, 1_000, 60_000, 3_600_000]);
    Quota { algorithm, limit, burst: limit, window_ms }
}

/// A refund never leaves less used than the others and the request itself have really used. Of a bucket that is so for
/// one request at a time; of several see `what_is_really_used_is_within_the_bound`.
#[test]
fn refunds_never_give_back_more_than_was_not_used() {
    let seed = seed();
    println!("SLUICEGATE_SEED={seed}");
    let mut random = Random::new(seed);
    for _ in 0..2_000 {
        let mut subject = Subject::new(quota(&mut random));
        let (mut now, mut open) = (NOW, Vec::new());
        for _ in 0..30 {
            now += match random.percent(50) {
                true => 0,
                false => random.scaled(1, subject.quota.window_ms * 2),
            };
            let bucket = subject.quota.algorithm == Algorithm::TokenBucket;
            match random.percent(50) {
                true => {
                    let units = random.scaled(1, subject.quota.limit);
                    // Others cost what they reserved while one of a bucket's is under way.
                    let others = bucket && !open.is_empty();
                    let cost = if others { units } else { random.between(0, units) };
                    let reservation = subject.charge(units, cost, now);
                    if others {
                        continue;
                    }
                    open.push((reservation, cost));
                }
                false if !open.is_empty() => {
                    let (reservation, cost) =
                        open.swap_remove(random.between(0, open.len() as u64 - 1) as usize);
                    let given = subject.settle(&reservation, cost, now);
                    assert!((-((reservation.units - cost) as i64)..=0).contains(&given));
                }
                false => {}
            }
            let (real, ideal) = subject.used(now);
            assert!(real >= ideal, "SLUICEGATE_SEED={seed}: {real} of {ideal} in {:?}", subject.quota);
        }
    }
}

/// What is really used in any time is within the algorithm's bound and what was reserved and not yet settled when that
/// time began: of several under way at once, one's refund does not know of another's.
#[test]
fn what_is_really_used_is_within_the_bound() {
    let seed = seed();
    println!("SLUICEGATE_SEED={seed}");
    let mut random = Random::new(seed);
    for _ in 0..2_000 {
        let quota = Quota { algorithm: Algorithm::TokenBucket, ..quota(&mut random) };
        let mut subject = Subject::new(quota);
        let (mut now, mut open, mut used) = (NOW, Vec::new(), Vec::<(u64, u64, u64)>::new());
        for _ in 0..40 {
            now += if random.percent(50) { 0 } else { random.scaled(1, quota.window_ms) };
            if random.percent(40) && !open.is_empty() {
                let (reservation, cost): (Reservation, u64) =
                    open.swap_remove(random.between(0, open.len() as u64 - 1) as usize);
                subject.settle(&reservation, cost, now);
                continue;
            }
            let units = random.scaled(1, quota.limit);
            let settled = State::settle(Some(&subject.real), &quota, now);
            if settled.wait(&quota, units, now) != Wait::None {
                continue;
            }
            let unsettled: u64 = open.iter().map(|(reservation, cost)| reservation.units - cost).sum();
            let cost = random.between(0, units);
            open.push((subject.charge(units, cost, now), cost));
            used.push((now, cost, unsettled));
            let mut sum = 0;
            for &(from, cost, unsettled) in used.iter().rev() {
                sum += cost;
                let bound = (quota.burst + unsettled) * quota.window_ms + (now - from) * quota.limit;
                assert!(sum * quota.window_ms <= bound, "SLUICEGATE_SEED={seed}: {sum} of {quota:?}");
            }
        }
    }
}

/// Settled before anything drains and before the window ends, nothing is lost either.
#[test]
fn what_settles_at_once_is_exact() {
    let mut random = Random::new(seed());
    for _ in 0..2_000 {
        let mut subject = Subject::new(quota(&mut random));
        for _ in 0..30 {
            let units = random.scaled(1, subject.quota.limit);
            let cost = random.between(0, units * 2);
            let reservation = subject.charge(units, cost, NOW);
            let change = subject.settle(&reservation, cost, NOW);
            let (real, ideal) = subject.used(NOW);
            // Of a bucket a millisecond's worth may count as drained.
            let slack =
                if subject.quota.algorithm == Algorithm::TokenBucket { subject.quota.limit } else { 0 };
            assert!((ideal..=ideal + slack).contains(&real), "{real} of {ideal} in {:?}", subject.quota);
            if slack == 0 {
                assert_eq!(change, cost as i64 - units as i64);
            }
            subject.ideal = subject.real.clone();
        }
    }
}

/// Nothing passes before a bucket's debt is paid, and its key outlives it.
#[test]
fn a_debt_is_paid_before_anything_passes() {
    let quota = Quota { algorithm: Algorithm::TokenBucket, limit: 10, burst: 10, window_ms: 1_000 };
    let mut subject = Subject::new(quota);
    let reservation = subject.charge(10, 10, NOW);
    let settled = settle(Some(&subject.real), &quota, &reservation, 60, NOW);
    assert_eq!((settled.units, settled.state.remaining(&quota, NOW)), (50, 0));
    assert_eq!(settled.state.wait(&quota, 1, NOW), Wait::Ms(5_100));
    assert_eq!(settled.ttl_ms, 6_000 + TTL_MARGIN_MS);
    let before = State::settle(Some(&settled.state), &quota, NOW + 5_099);
    assert_eq!(before.wait(&quota, 1, NOW + 5_099), Wait::Ms(1));
}
