//! What must hold of a token bucket that delays, over random histories on the model; `property` ties the script to it.

use sluicegate::policy::Algorithm;

use super::generate::{Clocks, Generator, Habits};
use super::model::{Model, Said};
use super::random::{Random, seed, setting};
use super::trace::{PAST_MS, Rule, Step};

/// Steps of a history.
const LENGTH: usize = 48;
/// Steps in all; `SLUICEGATE_STEPS` asks for a fifth of its number.
const STEPS: u64 = 40_000;
/// A store that contradicts no clock.
const ANY_MS: u64 = u64::MAX / 2;

const HONEST: Habits = Habits {
    clocks: Clocks::Honest,
    limits: 1,
    exceptions: false,
    changes: false,
    store: false,
    delays: true,
    permits: false,
};

/// A request and what came of it.
struct Asked {
    at: u64,
    cost: u64,
    said: Said,
}

impl Asked {
    fn moment(&self) -> u64 {
        self.at + self.said.hold(1, 0)
    }

    /// Whether it took something, and so leaves the gateway at its moment.
    fn leaves(&self) -> bool {
        self.cost > 0 && self.said.allowed()
    }
}

/// Plays histories of one limit that delays, honest callers asking; the model after each request is shown with it.
fn play(mut each: impl FnMut(&Model, &Step, &Said), mut over: impl FnMut(Rule, &[Asked])) {
    let seed = seed();
    println!("SLUICEGATE_SEED={seed}");
    let mut random = Random::new(seed);
    let histories = setting("SLUICEGATE_STEPS").map_or(STEPS, |steps| steps / 5) / LENGTH as u64;
    let mut held = 0;
    for _ in 0..histories.max(1) {
        let (mut generator, trace) = Generator::new(Random::new(random.next()), HONEST);
        let mut model = Model::new(&trace, PAST_MS);
        let rule = model.subjects[0].rule;
        if rule.ahead_ms.is_none() {
            continue;
        }
        assert_eq!(rule.quota.algorithm, Algorithm::TokenBucket);
        let mut asked = Vec::new();
        let mut last = None;
        for _ in 0..LENGTH {
            let step = generator.step(&model, last.as_ref());
            model.prepare(&step);
            let said = model.step(&step, ANY_MS);
            each(&model, &step, &said);
            last = Some(said.clone());
            asked.push(Asked { at: step.at, cost: step.cost_in(0), said });
        }
        held += asked.iter().filter(|asked| asked.leaves() && asked.moment() > asked.at).count();
        over(rule, &asked);
    }
    assert!(held > 100, "{held} requests held: the histories prove little");
}

#[test]
fn moments_come_in_the_order_of_asking_and_within_the_delay() {
    play(
        |_, _, _| {},
        |rule, asked| {
            let leaving: Vec<&Asked> = asked.iter().filter(|asked| asked.leaves()).collect();
            for pair in leaving.windows(2) {
                assert!(pair[0].moment() <= pair[1].moment(), "{rule}: {} overtaken", pair[0].at);
            }
            for asked in asked {
                assert!(asked.moment() - asked.at <= rule.ahead_ms.unwrap_or(0), "{rule}: {:?}", asked.said);
            }
        },
    );
}

#[test]
fn what_leaves_in_any_time_is_what_the_bucket_lets_pass() {
    play(
        |_, _, _| {},
        |rule, asked| {
            let quota = rule.quota;
            let (limit, window) = (u128::from(quota.limit), u128::from(quota.window_ms));
            let leaving: Vec<(u64, u128)> = asked
                .iter()
                .filter(|asked| asked.leaves())
                .map(|asked| (asked.moment(), u128::from(asked.cost)))
                .collect();
            for (first, (from, _)) in leaving.iter().enumerate() {
                let mut units = 0;
                for (to, cost) in &leaving[first..] {
                    units += cost;
                    // A moment is rounded up by less than a millisecond.
                    let apart = u128::from(to - from + 1);
                    assert!(
                        units * window <= u128::from(quota.burst) * window + apart * limit,
                        "{rule}: {units} units from {from} to {to}"
                    );
                }
            }
        },
    );
}

/// What the same caller would hear so many ms later.
fn later(model: &Model, step: &Step, ms: u64) -> Said {
    model.clone().step(&Step { at: step.at + ms, cost: step.cost.clone(), ..Step::default() }, ANY_MS)
}

#[test]
fn a_refusal_waits_until_it_would_be_held_and_not_a_millisecond_longer() {
    let mut seen = 0;
    play(
        |model, step, said| {
            let (_, _, reset, wait) = said.of(0);
            if wait > 0 {
                let ahead_ms = model.subjects[0].rule.ahead_ms.unwrap_or(0);
                assert_eq!(reset, wait);
                assert_eq!(said.hold(1, 0), 0, "a refusal holds nobody");
                assert!(!later(model, step, wait as u64 - 1).allowed());
                let then = later(model, step, wait as u64);
                assert!(then.allowed() && then.hold(1, 0) == ahead_ms, "{then:?}");
                seen += 1;
            }
        },
        |_, _| {},
    );
    assert!(seen > 100, "{seen}");
}

#[test]
fn who_passes_without_credit_is_not_held_and_the_same_passes_without_a_delay() {
    play(
        |_, _, _| {},
        |rule, asked| {
            let mut plain = Model::new(
                &super::trace::Trace {
                    limits: vec![Rule { ahead_ms: Some(0), ..rule }.to_string()],
                    ..Default::default()
                },
                PAST_MS,
            );
            // As long as nobody is held, the two limits are one.
            for asked in asked.iter().take_while(|asked| asked.moment() == asked.at && asked.said.allowed()) {
                let cost = Some(super::trace::Cost::All(asked.cost));
                let said = plain.step(&Step { at: asked.at, cost, ..Step::default() }, ANY_MS);
                assert_eq!(said.reply, asked.said.reply, "{rule}");
            }
        },
    );
}
