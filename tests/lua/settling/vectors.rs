//! The rows of `tests/vectors/settling`: each is settled by the model alone, and by the scripts on a real Redis.

use super::super::clockwork::CLOCK;
use super::super::rows;
use super::super::suite::Suite;
use super::super::support::redis::Server;
use super::model::{Model, Said};
use super::play::Stage;
use super::trace::Trace;

fn hold(trace: &Trace, said: &[Said]) -> Result<(), String> {
    for (step, said) in trace.steps.iter().zip(said) {
        let wrong = step.said.as_ref().is_some_and(|row| *row != said.reply)
            || step.ttl.as_ref().is_some_and(|row| *row != said.ttl);
        if wrong {
            return Err(format!("at {}:\n  row  {:?} {:?}\n  said {said:?}", step.at, step.said, step.ttl));
        }
    }
    Ok(())
}

fn play(trace: &Trace) -> Result<Vec<Said>, String> {
    let mut model = Model::new(trace);
    let step = |step| model.prepare(step).map(|_| model.step(step));
    trace.steps.iter().map(step).collect()
}

#[test]
fn every_row_says_where_it_comes_from_and_what_must_hold() {
    rows::complete::<Stage>();
}

#[test]
fn the_model_settles_as_the_rows_say() {
    rows::judge::<Stage>(|trace| play(trace).and_then(|said| hold(trace, &said)));
}

#[test]
fn the_script_settles_as_the_rows_say() {
    let server = Server::start();
    let mut stage = Stage::new(server.client().confined(&[CLOCK]));
    rows::judge::<Stage>(|trace| {
        let said = stage.replay(trace).map_err(|fault| fault.to_string())?;
        hold(trace, &said)
    });
}
