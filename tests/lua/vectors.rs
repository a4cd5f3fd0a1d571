//! The rows of `tests/vectors`: each is decided by the model alone, and by the script on a real Redis.

use super::model::{Model, Said};
use super::play::Stage;
use super::rows;
use super::suite::Suite;
use super::support::redis::Server;
use super::trace::{Base, PAST_MS, Step, Trace};

/// Whether what came of each step is what its row says.
fn hold(trace: &Trace, said: &[Said]) -> Result<(), String> {
    let mut said = said.iter();
    for step in &trace.steps {
        let times = step.poll.as_ref().map_or(1, |poll| poll.times as usize);
        let own: Vec<&Said> = said.by_ref().take(times).collect();
        let at = step.at;
        let Some(first) = own.first() else { return Err(format!("at {at}: not played")) };
        if let Some(poll) = &step.poll {
            let passed = own.iter().filter(|said| said.allowed()).count() as u64;
            if passed != poll.passes {
                return Err(format!("at {at}: {passed} of {times} passed, not {}", poll.passes));
            }
        }
        if let Some(reply) = &step.reply
            && *reply != first.reply
        {
            return Err(format!("at {at}:\n  row  {reply:?}\n  said {:?}", first.reply));
        }
        let ttl: Vec<u64> =
            first.writes.iter().map(|write| write.as_ref().map_or(0, |(_, ttl)| *ttl)).collect();
        if step.ttl.as_ref().is_some_and(|wanted| *wanted != ttl) {
            return Err(format!("at {at}: TTL {ttl:?}, not {:?}", step.ttl));
        }
        let hex = |(bytes, _): &(Vec<u8>, u64)| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let stored: Vec<String> =
            first.writes.iter().map(|write| write.as_ref().map_or(String::new(), hex)).collect();
        if step.stored.as_ref().is_some_and(|wanted| *wanted != stored) {
            return Err(format!("at {at}: stored {stored:?}, not {:?}", step.stored));
        }
    }
    Ok(())
}

/// Plays a vector on the model alone. The store's clock stands at time 0, or where it contradicts nobody.
fn play(trace: &Trace) -> Result<Vec<Said>, String> {
    let base_ms = trace.base_ms(PAST_MS);
    let store_ms = if trace.base == Base::Now { PAST_MS } else { u64::MAX / 2 };
    let mut model = Model::new(trace, base_ms);
    let mut step = |step: Step| {
        model.expire(step.at)?;
        model.expire_charges(step.at);
        model.prepare(&step);
        Ok(model.step(&step, store_ms))
    };
    trace.unrolled().map(&mut step).collect()
}

#[test]
fn every_row_says_where_it_comes_from_and_what_must_hold() {
    rows::complete::<Stage>();
}

#[test]
fn the_model_decides_as_the_rows_say() {
    rows::judge::<Stage>(|trace| play(trace).and_then(|said| hold(trace, &said)));
}

#[test]
fn the_script_decides_as_the_rows_say() {
    let server = Server::start();
    let mut stage = Stage::new(server.client().confined(&[]));
    rows::judge::<Stage>(|trace| {
        let said = stage.replay(trace).map_err(|fault| fault.to_string())?;
        // Numbers that depend on how the store's present lies to the windows, or passes between two calls, are the
        // model's for the moment it saw; the rows are for one moment.
        if trace.base == Base::Now { Ok(()) } else { hold(trace, &said) }
    });
}
