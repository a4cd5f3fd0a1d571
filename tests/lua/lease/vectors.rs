//! The rows of `tests/vectors/leases`: each is decided by the model alone, and by the scripts on a real Redis.

use super::super::clockwork::CLOCK;
use super::super::rows;
use super::super::support::redis::Server;
use super::model::Model;
use super::play::Stage;
use super::subject::Life;
use super::trace::{Act, Item, Step, Trace, relative, relative_request};

/// Whether a reply, and what the keys live on, is what the row says.
fn hold(step: &Step, reply: &[Item], model: &Model) -> Result<(), String> {
    let said = match step.act {
        Act::Request { .. } => relative_request(reply, model.fences()),
        _ => relative(&step.act, reply),
    };
    if step.said.as_ref().is_some_and(|row| *row != said) {
        return Err(format!("at {}:\n  row  {:?}\n  said {said:?}", step.at, step.said));
    }
    let subject = &model.subjects[model.slots()];
    let left = |life: Life| match life {
        Life::None => 0,
        Life::Forever => u64::MAX,
        Life::Until(due) => due - step.at,
    };
    let ttl = (left(subject.life), left(subject.queue_life));
    match step.ttl {
        Some(row) if row != ttl => Err(format!("at {}: lives {ttl:?}, not {row:?}", step.at)),
        _ => Ok(()),
    }
}

/// Plays a vector on the model alone.
fn play(trace: &Trace) -> Result<(), String> {
    let mut model = Model::new(trace);
    for step in &trace.steps {
        model.prepare(step)?;
        let reply = model.step(step);
        hold(step, &reply, &model)?;
    }
    Ok(())
}

#[test]
fn every_row_says_where_it_comes_from_and_what_must_hold() {
    rows::complete::<Stage>();
}

#[test]
fn the_model_decides_as_the_rows_say() {
    rows::judge::<Stage>(play);
}

#[test]
fn the_scripts_decide_as_the_rows_say() {
    let server = Server::start();
    let mut stage = Stage::new(server.client().confined(&[CLOCK]));
    rows::judge::<Stage>(|trace| {
        let mut lane = stage.lane(trace);
        trace.steps.iter().try_for_each(|step| {
            let reply = stage.play(&mut lane, step).map_err(|fault| fault.to_string())?;
            hold(step, &reply, &lane.model)
        })
    });
}
