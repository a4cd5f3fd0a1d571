//! Random histories on a real Redis: after every step reply, members and TTLs are the model's.

use std::collections::BTreeMap;

use super::super::random::{Random, seed, setting};
use super::super::suite::{Outcome, Suite};
use super::super::support::redis::Server;
use super::generate::{Generator, Habits};
use super::play::Stage;
use super::trace::{Act, Item};

/// Steps of a history.
const LENGTH: usize = 64;
/// Steps in all; `SLUICEGATE_STEPS` asks for a quarter of its number.
const STEPS: u64 = 40_000;

/// Plays so many steps, or up to the first fault; they are counted by kind and first number of the reply.
pub fn play(stage: &mut Stage, seed: u64, steps: u64) -> Outcome<Stage> {
    let mut random = Random::new(seed);
    let mut outcome = Outcome::<Stage> { steps: 0, tally: BTreeMap::new(), fault: None };
    while outcome.steps < steps {
        let habits = Habits::any(&mut random);
        let (mut generator, trace) = Generator::new(Random::new(random.next()), habits);
        let mut lane = stage.lane(&trace);
        for _ in 0..LENGTH {
            let step = generator.step(&lane.model);
            match stage.play(&mut lane, &step) {
                Ok(said) => {
                    generator.saw(&step.act, &said, lane.model.fences());
                    *outcome.tally.entry(kind(&step.act, &said)).or_default() += 1;
                    outcome.steps += 1;
                }
                Err(fault) => {
                    outcome.fault = Some((fault, lane.trace));
                    return outcome;
                }
            }
        }
    }
    outcome
}

fn kind(act: &Act, said: &[Item]) -> String {
    let name = match act {
        Act::Request { .. } => "request",
        Act::Take { wait: None, .. } => "take",
        Act::Take { .. } => "wait",
        Act::Renew(..) => "renew",
        Act::Free(..) => "free",
        Act::Leave(_) => "leave",
        Act::List => "list",
    };
    match said.first() {
        Some(Item::Number(code)) => format!("{name} {code}"),
        _ => name.to_owned(),
    }
}

#[test]
fn both_scripts_answer_and_store_what_the_model_does() {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    let seed = seed();
    let steps = setting("SLUICEGATE_STEPS").map_or(STEPS, |steps| (steps / 4).max(1));
    let (steps, kinds) = stage.prove(seed, steps);
    println!("{steps} steps, SLUICEGATE_SEED={seed}: {kinds:?}");
    // Histories in which something hardly happens would prove little of it.
    if steps >= 10_000 {
        for known in [
            "request 0",
            "request 1",
            "request 2",
            "take 0",
            "take 1",
            "wait 0",
            "wait 1",
            "wait 4",
            "renew 1",
            "renew 2",
            "renew 3",
            "free 1",
            "free 2",
            "free 3",
            "leave 1",
            "leave 2",
            "list 1",
        ] {
            let times = kinds.get(known).copied().unwrap_or(0);
            assert!(times * 2_000 > steps, "SLUICEGATE_SEED={seed}: {known} only {times} times");
        }
    }
}
