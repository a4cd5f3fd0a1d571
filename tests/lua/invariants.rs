//! What must hold of any limiter, over random histories on the model; `property` ties the script to the model.

use sluicegate::limit::Quota;
use sluicegate::policy::Algorithm;

use super::generate::{Clocks, Generator, Habits};
use super::model::{Model, Said};
use super::random::{Random, seed, setting};
use super::trace::{Cost, PAST_MS, Rule, Step};

/// Steps of a history.
const LENGTH: usize = 48;
/// Steps in all; `SLUICEGATE_STEPS` asks for a fifth of its number.
const STEPS: u64 = 20_000;
/// A store that contradicts no clock.
const ANY_MS: u64 = u64::MAX / 2;

const ONE: Habits = Habits {
    clocks: Clocks::Honest,
    limits: 1,
    exceptions: false,
    changes: false,
    store: false,
    delays: false,
    permits: false,
};

/// A request, what came of it, and what was known before and after.
struct Turn<'h> {
    before: &'h Model,
    step: &'h Step,
    said: &'h Said,
    after: &'h Model,
}

impl Turn<'_> {
    /// The quota of the first limit.
    fn quota(&self) -> Quota {
        self.after.subjects[0].rule.quota
    }

    /// What the same caller would hear so many ms later, of another cost.
    fn later(&self, ms: u64, cost: Option<u64>) -> Said {
        later(self.after, self.step, ms, cost)
    }
}

fn later(model: &Model, step: &Step, ms: u64, cost: Option<u64>) -> Said {
    let cost = cost.map_or_else(|| step.cost.clone(), |cost| Some(Cost::All(cost)));
    model.clone().step(&Step { at: step.at + ms, clock: step.clock, cost, ..Step::default() }, ANY_MS)
}

/// Plays histories, and shows each turn with a number to make something of. One call of `begin` a history.
fn play<S>(habits: Habits, begin: impl Fn() -> S, mut turn: impl FnMut(&mut S, &Turn<'_>, &mut Random)) {
    let seed = seed();
    println!("SLUICEGATE_SEED={seed}");
    let mut random = Random::new(seed);
    let histories = setting("SLUICEGATE_STEPS").map_or(STEPS, |steps| steps / 5) / LENGTH as u64;
    for _ in 0..histories.max(1) {
        let (mut generator, trace) = Generator::new(Random::new(random.next()), habits);
        let mut after = Model::new(&trace, PAST_MS);
        let mut seen = begin();
        let mut last = None;
        for _ in 0..LENGTH {
            let step = generator.step(&after, last.as_ref());
            after.prepare(&step);
            let before = after.clone();
            let said = after.step(&step, ANY_MS);
            turn(&mut seen, &Turn { before: &before, step: &step, said: &said, after: &after }, &mut random);
            last = Some(said);
        }
    }
}

#[test]
fn remaining_is_between_nothing_and_the_capacity() {
    for clocks in [Clocks::Honest, Clocks::Off(3_600_000)] {
        play(
            Habits { clocks, limits: 4, changes: true, ..ONE },
            || (),
            |(), turn, _| {
                for (limit, subject) in turn.after.subjects.iter().enumerate() {
                    let (_, remaining, reset, wait) = turn.said.of(limit);
                    assert!(
                        (0..=subject.rule.quota.capacity() as i64).contains(&remaining),
                        "{:?}",
                        turn.said
                    );
                    assert!(reset >= 0 && wait >= -1, "{:?}", turn.said);
                }
            },
        );
    }
}

/// Whether what passed from `from` to `to` (true time, both included) is within the algorithm's bound, for callers
/// whose clocks are at most `off` ms away from the truth.
fn bounded(quota: &Quota, from: u64, to: u64, units: u128, off: u64) -> bool {
    let (limit, window) = (u128::from(quota.limit), u128::from(quota.window_ms));
    let apart = u128::from(to - from + 2 * off);
    match quota.algorithm {
        Algorithm::TokenBucket => units * window <= u128::from(quota.burst) * window + apart * limit,
        _ if apart >= window => true,
        Algorithm::SlidingLog => units <= limit,
        Algorithm::FixedWindow => units <= 2 * limit,
        // All of the window before may lie at its end, and weigh next to nothing at the end of this one; but while
        // it is inside the trailing window it weighs something.
        Algorithm::SlidingWindow => units < 2 * limit,
        Algorithm::Concurrency => unreachable!("leases have tests of their own"),
    }
}

#[test]
fn what_passes_in_any_time_is_within_the_bound() {
    for (clocks, off) in [(Clocks::Honest, 0), (Clocks::Off(700), 700)] {
        play(Habits { clocks, ..ONE }, Vec::<(u64, u64)>::new, |passed, turn, _| {
            if !turn.said.allowed() {
                return;
            }
            let (quota, to) = (turn.quota(), turn.step.at);
            passed.push((to, turn.step.cost_in(0)));
            let (mut units, mut aligned) = (0, 0);
            for &(from, cost) in passed.iter().rev() {
                units += u128::from(cost);
                assert!(bounded(&quota, from, to, units, off), "{units} from {from} to {to} of {quota:?}");
                if (PAST_MS + from) / quota.window_ms == (PAST_MS + to) / quota.window_ms {
                    aligned = units;
                }
            }
            let windows = matches!(quota.algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindow);
            assert!(
                !windows || off > 0 || aligned <= u128::from(quota.limit),
                "{aligned} in one of {quota:?}"
            );
        });
    }
}

#[test]
fn all_limits_are_charged_or_none() {
    play(
        Habits { limits: 6, changes: true, exceptions: true, ..ONE },
        || (),
        |(), turn, _| {
            if !turn.said.allowed() {
                assert_eq!(turn.before.stored(), turn.after.stored());
                assert!(turn.said.writes.iter().all(Option::is_none));
                return;
            }
            let (before, after) = (later(turn.before, turn.step, 0, Some(0)), turn.later(0, Some(0)));
            for (limit, subject) in turn.after.subjects.iter().enumerate() {
                let refused = turn.said.of(limit).3 != 0;
                assert!(!refused || subject.rule.shadow);
                let charged = if refused { 0 } else { turn.step.cost_in(limit) };
                assert_eq!(turn.said.writes[limit].is_some(), charged > 0);
                assert_eq!(
                    before.of(limit).1 - after.of(limit).1,
                    charged as i64,
                    "limit {limit} of {subject:?}"
                );
            }
        },
    );
}

#[test]
fn a_refused_request_passes_after_its_wait_and_not_before() {
    let clocks = Clocks::Off(60_000);
    play(
        Habits { limits: 4, changes: true, clocks, ..ONE },
        || (),
        |(), turn, _| {
            let waits: Vec<i64> = (0..turn.after.subjects.len()).map(|limit| turn.said.of(limit).3).collect();
            assert_eq!(turn.said.allowed(), waits.iter().all(|wait| *wait == 0));
            let longest = waits.iter().max().copied().unwrap_or(0) as u64;
            if waits.contains(&-1) || longest == 0 {
                return;
            }
            assert!(
                turn.later(longest, None).allowed(),
                "not after {longest} ms: {:?} {:?}",
                turn.step,
                turn.after
            );
            assert!(!turn.later(longest - 1, None).allowed(), "{longest} ms is too long: {:?}", turn.after);
        },
    );
}

#[test]
fn what_never_passes_does_not_pass_from_idle() {
    play(
        Habits { changes: true, ..ONE },
        || (),
        |(), turn, _| {
            let never = turn.said.of(0).3 == -1;
            assert_eq!(never, turn.step.cost_in(0) > turn.quota().capacity());
            let idle = turn.later(0, Some(0)).of(0).2 as u64;
            assert_eq!(never, !turn.later(idle, None).allowed(), "{:?}", turn.after);
        },
    );
}

#[test]
fn as_many_more_pass_as_remain() {
    play(
        Habits { changes: true, clocks: Clocks::Off(60_000), ..ONE },
        || (),
        |(), turn, random| {
            let remaining = turn.said.of(0).1 as u64;
            let mut model = turn.after.clone();
            let mut ask = |cost| {
                model.step(&Step { cost: Some(Cost::All(cost)), poll: None, ..turn.step.clone() }, ANY_MS)
            };
            let singly = random.between(0, remaining).min(20);
            assert!((0..singly).all(|_| ask(1).allowed()));
            assert!(ask(remaining - singly).allowed());
            assert!(!ask(1).allowed());
        },
    );
}

#[test]
fn the_reset_moment_stands_still() {
    play(
        ONE,
        || (),
        |(), turn, random| {
            let reset = turn.later(0, Some(0)).of(0).2 as u64;
            let some = random.between(0, reset.saturating_sub(1));
            if reset > 0 {
                assert_eq!(turn.later(some, Some(0)).of(0).2 as u64, reset - some, "{:?}", turn.after);
            }
            let (_, remaining, then, _) = turn.later(reset, Some(0)).of(0);
            assert_eq!(remaining as u64, turn.quota().capacity());
            let fixed = turn.quota().algorithm == Algorithm::FixedWindow;
            assert_eq!(then as u64, if fixed { turn.quota().window_ms } else { 0 });
            if !fixed && reset > 0 {
                assert_eq!(turn.later(reset - 1, Some(0)).of(0).2, 1);
            }
        },
    );
}

#[test]
fn another_limit_keeps_what_was_used() {
    play(
        ONE,
        || (),
        |(), turn, random| {
            let quota = turn.quota();
            let more = random.scaled(1, quota.capacity());
            let left = turn.later(0, Some(0)).of(0).1;
            for capacity in [quota.capacity() + more, quota.capacity().saturating_sub(more).max(1)] {
                let mut model = turn.after.clone();
                let bucket = quota.algorithm == Algorithm::TokenBucket;
                let limit = if bucket { quota.limit } else { capacity };
                let changed = Quota { limit, burst: capacity, ..quota };
                model.subjects[0].rule = Rule { quota: changed, shadow: false, ahead_ms: None };
                let (_, now_left, ..) = later(&model, turn.step, 0, Some(0)).of(0);
                let by = capacity as i64 - quota.capacity() as i64;
                // Where nothing is left, more may be used than the capacity.
                match left {
                    0 => assert!(now_left <= by.max(0), "{changed:?} of {:?}", turn.after),
                    _ => assert_eq!(now_left, (left + by).max(0), "{changed:?} of {:?}", turn.after),
                }
            }
        },
    );
}
