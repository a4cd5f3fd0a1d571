//! Random histories on a real Redis: after every step the reply and the stored bytes are the model's.

use super::generate::{Generator, Habits};
use super::model::Said;
use super::play::Stage;
use super::random::{Random, seed, setting};
use super::suite::{Fault, Outcome, Suite};
use super::support::redis::Server;

/// Histories under way at once: their steps share round trips.
const LANES: usize = 16;
/// Steps of a history.
const LENGTH: usize = 48;
/// Steps in all, where `SLUICEGATE_STEPS` does not say.
const STEPS: u64 = 200_000;

/// Plays so many steps, or up to the first fault; counted are those that passed.
pub fn play(stage: &mut Stage, seed: u64, steps: u64) -> Outcome<Stage> {
    let mut random = Random::new(seed);
    let mut stale = 0;
    let mut outcome = Outcome { steps: 0, tally: 0, fault: None };
    while outcome.steps < steps {
        let mut generators = Vec::with_capacity(LANES);
        let mut lanes = Vec::with_capacity(LANES);
        for _ in 0..LANES {
            let habits = Habits::any(&mut random);
            let (generator, trace) = Generator::new(Random::new(random.next()), habits);
            lanes.push(stage.lane(&trace));
            generators.push(generator);
        }
        let mut last: Vec<Option<Said>> = vec![None; LANES];
        for _ in 0..LENGTH {
            let mut pairs = generators.iter_mut().zip(&lanes).zip(&last);
            let next =
                pairs.by_ref().map(|((generator, lane), last)| generator.step(&lane.model, last.as_ref()));
            let next = next.collect();
            let said = stage.play(&mut lanes, next);
            // The machine was away for so long that Redis may have expired a key: these histories prove nothing more.
            if said.iter().any(|said| matches!(said, Err(Fault::Stale))) {
                stale += 1;
                assert!(stale < 100, "{}", Fault::Stale);
                break;
            }
            for (index, said) in said.into_iter().enumerate() {
                match said {
                    Ok(said) => {
                        outcome.steps += 1;
                        outcome.tally += u64::from(said.allowed());
                        if said.decided() {
                            last[index] = Some(said);
                        }
                    }
                    Err(fault) => {
                        outcome.fault = Some((fault, lanes.swap_remove(index).trace));
                        return outcome;
                    }
                }
            }
        }
    }
    outcome
}

#[test]
fn the_script_answers_and_stores_what_the_model_does() {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    let seed = seed();
    let steps = setting("SLUICEGATE_STEPS").unwrap_or(STEPS);
    let (steps, passed) = stage.prove(seed, steps);
    // Histories in which hardly anything passes, or everything does, would prove little.
    let share = passed * 100 / steps.max(1);
    assert!((10..=90).contains(&share), "SLUICEGATE_SEED={seed}: {share} % of {steps} steps passed");
    println!("{steps} steps, {share} % passed, SLUICEGATE_SEED={seed}");
}
