//! The model against arithmetic of any precision: allowed, remaining, reset and wait of every step.

use super::generate::{Clocks, Generator, Habits};
use super::model::{Model, Said};
use super::random::{Random, seed, setting};
use super::reference::Paper;
use super::trace::{Base, PAST_MS, Step, Trace};

/// Steps of a history.
const LENGTH: usize = 48;
/// Steps in all; `SLUICEGATE_STEPS` asks for a fifth of its number.
const STEPS: u64 = 20_000;
/// A store that contradicts no clock.
const ANY_MS: u64 = u64::MAX / 2;

/// The script's reply by the reference.
fn reply(papers: &mut [Paper], model: &Model, step: &Step, now_ms: u64) -> Vec<i64> {
    let quotas: Vec<_> = model.subjects.iter().map(|subject| subject.rule.quota).collect();
    let answers: Vec<_> = papers
        .iter()
        .zip(&quotas)
        .enumerate()
        .map(|(index, (paper, quota))| paper.ask(quota, step.cost_in(index), now_ms))
        .collect();
    let allowed = answers.iter().all(|answer| answer.passes);
    let mut reply = vec![i64::from(allowed)];
    for (index, ((paper, quota), answer)) in papers.iter_mut().zip(&quotas).zip(answers).enumerate() {
        if allowed && step.cost_in(index) > 0 {
            paper.charge(quota, step.cost_in(index), now_ms);
        }
        let remaining = paper.remaining(quota, now_ms);
        let wait = answer.wait.map_or(-1, |wait| wait as i64);
        let reset = if wait > 0 { wait } else { paper.reset(quota, now_ms) as i64 };
        reply.extend([quota.limit as i64, remaining as i64, reset, wait]);
    }
    reply
}

fn hold(trace: &Trace, model: &mut Model, papers: &mut [Paper], step: &Step) -> Result<Said, String> {
    model.prepare(step);
    let wanted = reply(papers, model, step, step.clock_ms(PAST_MS));
    let said = model.step(step, ANY_MS);
    if said.reply == wanted {
        return Ok(said);
    }
    let trace = serde_json::to_string(trace).expect("a trace is JSON");
    Err(format!("on paper  {wanted:?}\nthe model {:?}\n{trace}", said.reply))
}

#[test]
fn the_model_computes_what_paper_does() {
    let seed = seed();
    let mut random = Random::new(seed);
    let steps = setting("SLUICEGATE_STEPS").map_or(STEPS, |steps| steps / 5);
    let mut played = 0;
    while played < steps {
        let clocks = random.pick(&[Clocks::Honest, Clocks::Off(60_000), Clocks::Off(3_600_000)]);
        let changes = random.percent(40);
        let habits = Habits {
            clocks,
            limits: 3,
            exceptions: false,
            changes,
            store: false,
            delays: false,
            permits: false,
        };
        let (mut generator, mut trace) = Generator::new(Random::new(random.next()), habits);
        trace.base = Base::Past;
        let mut model = Model::new(&trace, PAST_MS);
        let mut papers = vec![Paper::default(); trace.limits.len()];
        let mut last = None;
        for _ in 0..LENGTH {
            let step = generator.step(&model, last.as_ref());
            trace.steps.push(step.clone());
            let said = hold(&trace, &mut model, &mut papers, &step);
            last =
                Some(said.unwrap_or_else(|fault| panic!("SLUICEGATE_SEED={seed}, step {played}:\n{fault}")));
            played += 1;
        }
    }
}
