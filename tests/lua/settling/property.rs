//! Random histories on a real Redis: after every step the reply, the stored bytes and the TTLs are the model's.

use super::super::random::{Random, seed, setting};
use super::super::suite::{Fault, Outcome, Suite};
use super::super::support::redis::Server;
use super::generate::Generator;
use super::play::Stage;
use super::trace::Act;

/// Steps of a history.
const LENGTH: usize = 40;
/// Steps in all; `SLUICEGATE_STEPS` asks for a fifth of its number.
const STEPS: u64 = 40_000;

/// Plays so many steps, or up to the first fault; counted are settlements that charged, that gave back, that changed
/// nothing, and repeats.
pub fn play(stage: &mut Stage, seed: u64, steps: u64) -> Outcome<Stage> {
    let mut random = Random::new(seed);
    let (mut stale, mut outcome) = (0, Outcome::<Stage> { steps: 0, tally: [0; 4], fault: None });
    while outcome.steps < steps {
        let (mut generator, trace) = Generator::new(Random::new(random.next()));
        let mut lane = stage.lane(&trace);
        let mut last = None;
        for _ in 0..LENGTH {
            let step = generator.step(&lane.model, last.as_ref());
            match stage.play(&mut lane, &step) {
                Ok(said) => {
                    outcome.steps += 1;
                    match step.act {
                        Act::Ask(_) => last = Some(said),
                        Act::Settle(..) => {
                            let change: i64 =
                                said.reply[1..].iter().step_by(2).map(|units| units.signum()).sum();
                            let kind = match (said.reply[0], change.signum()) {
                                (0, _) => 3,
                                (_, 1) => 0,
                                (_, -1) => 1,
                                _ => 2,
                            };
                            outcome.tally[kind] += 1;
                        }
                    }
                }
                Err(Fault::Stale) => {
                    stale += 1;
                    assert!(stale < 100, "{}", Fault::Stale);
                    break;
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

#[test]
fn the_script_settles_as_the_model_does() {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    let seed = seed();
    let steps = setting("SLUICEGATE_STEPS").map_or(STEPS, |steps| (steps / 5).max(4_000));
    let (steps, kinds) = stage.prove(seed, steps);
    // Histories that hardly settle anything would prove little.
    let enough = kinds.iter().all(|kind| kind * 200 > steps);
    assert!(enough, "SLUICEGATE_SEED={seed}: {kinds:?} of {steps} steps");
    println!("{steps} steps, {kinds:?}, SLUICEGATE_SEED={seed}");
}
