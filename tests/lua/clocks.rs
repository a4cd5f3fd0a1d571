//! Callers whose clocks are wrong, in random order on a real Redis, whose own clock is the truth.

use sluicegate::limit::{CLOCK_SLACK_MS, Quota, State, Wait};
use sluicegate::policy::Algorithm;

use super::generate::{exact, quota};
use super::model::Said;
use super::play::{Lane, Stage};
use super::random::{Random, seed, setting};
use super::suite::Fault;
use super::support::redis::Server;
use super::trace::{Base, Cost, Rule, Step, Trace};

const HOUR_MS: u64 = 3_600_000;
/// Requests of a history.
const LENGTH: usize = 30;
/// Requests in all; `SLUICEGATE_STEPS` asks for a fifth of its number.
const STEPS: u64 = 20_000;

/// What a state holds, in the units of its algorithm.
fn weight(state: &State) -> u64 {
    match state {
        State::Bucket(bucket) => bucket.used,
        State::Windows(windows) => windows.current + windows.previous,
        State::Log(log) => log.used(),
        State::Holders(_) => unreachable!("leases have tests of their own"),
    }
}

/// Plays one history of skewed callers on one limit; `each` sees every request.
fn skewed(
    stage: &mut Stage,
    random: &mut Random,
    mut each: impl FnMut(&Quota, Option<&State>, &Step, &Said, &Lane),
) -> Option<(Quota, Lane)> {
    let quota = quota(random);
    let rule = Rule { quota, shadow: false, ahead_ms: None }.to_string();
    let mut lane = stage.lane(&Trace { limits: vec![rule], base: Base::Now, ..Trace::default() });
    for _ in 0..LENGTH {
        let off = random.scaled(1, HOUR_MS) as i64;
        let clock = random.pick(&[off, -off, HOUR_MS as i64, -(HOUR_MS as i64), 0, 61_000, 59_000]);
        let cost = Some(Cost::All(random.scaled(1, quota.capacity())));
        let step = Step { clock, cost, ..Step::default() };
        let before = lane.model.subjects[0].state.clone();
        match stage.play(std::slice::from_mut(&mut lane), vec![step.clone()]).remove(0) {
            Ok(said) => each(&quota, before.as_ref(), &step, &said, &lane),
            Err(Fault::Stale) => return None,
            Err(fault) => panic!("{fault}\n{:?}", lane.trace),
        }
    }
    Some((quota, lane))
}

fn histories(mut each: impl FnMut(&mut Stage, &mut Random)) {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    let seed = seed();
    println!("SLUICEGATE_SEED={seed}");
    let mut random = Random::new(seed);
    let steps = setting("SLUICEGATE_STEPS").map_or(STEPS, |steps| steps / 5);
    for _ in 0..(steps / LENGTH as u64).max(1) {
        each(&mut stage, &mut random);
    }
}

#[test]
fn a_slow_caller_lowers_nothing_and_moves_no_time_back() {
    histories(|stage, random| {
        skewed(stage, random, |quota, before, step, said, lane| {
            let (Some(before), Some(after)) = (before, lane.model.subjects[0].state.as_ref()) else { return };
            // What a mend does is told by the vectors.
            if before.stamp_ms(quota) > lane.base_ms + CLOCK_SLACK_MS {
                return;
            }
            assert!(after.stamp_ms(quota) >= before.stamp_ms(quota), "{before:?} {step:?} {after:?}");
            if step.clock_ms(lane.base_ms) <= before.stamp_ms(quota) {
                let units = if quota.algorithm == Algorithm::TokenBucket { quota.window_ms } else { 1 };
                let charged = if said.allowed() { step.cost_in(0) * units } else { 0 };
                assert_eq!(weight(after), weight(before) + charged, "{before:?} {step:?} {after:?}");
                assert_eq!(after.stamp_ms(quota), before.stamp_ms(quota));
            }
        });
    });
}

/// ms until `cost` passes by the truth, had everything that passed been charged at the true moment.
fn true_wait(quota: &Quota, costs: &[u64], cost: u64, now_ms: u64) -> u64 {
    let mut state = State::idle(quota, now_ms);
    costs.iter().for_each(|cost| state.charge(quota, *cost, now_ms));
    match state.wait(quota, cost, now_ms) {
        Wait::None => 0,
        Wait::Ms(ms) => ms,
        Wait::Never => panic!("{cost} is above {quota:?}"),
    }
}

/// For buckets and logs, whose charges carry their moment. A window's carry the window only, and one that a fast
/// clock opened a moment early is the next one's by the truth too: its wait is at most the longest there is.
#[test]
fn an_honest_caller_waits_at_most_a_minute_past_the_truth() {
    histories(|stage, random| {
        let mut passed = Vec::new();
        let Some((quota, mut lane)) = skewed(stage, random, |_, _, step, said, _| {
            if said.allowed() {
                passed.push(step.cost_in(0));
            }
        }) else {
            return;
        };
        let cost = random.between(1, quota.capacity());
        let honest = Step { store_clock: true, cost: Some(Cost::All(cost)), ..Step::default() };
        let said = match stage.play(std::slice::from_mut(&mut lane), vec![honest]).remove(0) {
            Ok(said) => said,
            Err(Fault::Stale) => return,
            Err(fault) => panic!("{fault}"),
        };
        // The truth has gone on meanwhile.
        let late = stage.store_ms() - lane.base_ms;
        let longest = match quota.algorithm {
            Algorithm::TokenBucket | Algorithm::SlidingLog => true_wait(&quota, &passed, cost, lane.base_ms),
            Algorithm::FixedWindow => quota.window_ms,
            Algorithm::SlidingWindow => quota.window_ms * 2,
            Algorithm::Concurrency => unreachable!("leases have tests of their own"),
        };
        let wait = said.of(0).3;
        assert!(wait >= 0 && exact(quota));
        assert!(
            wait as u64 <= longest + CLOCK_SLACK_MS + late,
            "{wait} ms, by the truth {longest} ms, {late} ms later: {quota:?} {:?}",
            lane.trace
        );
    });
}

#[test]
fn with_the_stores_clock_the_callers_do_not_matter() {
    histories(|stage, random| {
        let quota = quota(random);
        let rule = Rule { quota, shadow: false, ahead_ms: None }.to_string();
        let mut lane = stage.lane(&Trace { limits: vec![rule], base: Base::Now, ..Trace::default() });
        for _ in 0..LENGTH {
            let clock = random.between(0, 2 * HOUR_MS) as i64 - HOUR_MS as i64;
            let cost = Some(Cost::All(random.scaled(1, quota.capacity())));
            let step = Step { clock, cost, store_clock: true, ..Step::default() };
            // The model, which is given the store's clock, is what the script must answer.
            match stage.play(std::slice::from_mut(&mut lane), vec![step]).remove(0) {
                Ok(_) => {}
                Err(Fault::Stale) => return,
                Err(fault) => panic!("{fault}"),
            }
            let stamp = lane.model.subjects[0].state.as_ref().map_or(0, |state| state.stamp_ms(&quota));
            assert!(stamp <= stage.store_ms());
        }
    });
}
