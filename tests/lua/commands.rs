//! Commands that a decision costs, by Redis's own counters, and what a refusal leaves alone.

use std::collections::BTreeMap;

use super::generate::{Clocks, Generator, Habits};
use super::play::{Lane, Stage};
use super::random::{Random, seed};
use super::suite::Fault;
use super::support::redis::{Client, Reply, Server};
use super::trace::{Base, Cost, Step, Trace};

const ALGORITHMS: [&str; 4] = ["token-bucket", "fixed-window", "sliding-window", "sliding-log"];

/// Calls by command since the counters were reset, those that read them left out.
fn counted(stage: &mut Stage, work: impl FnOnce(&mut Stage)) -> BTreeMap<String, u64> {
    stage.client.call(&["CONFIG", "RESETSTAT"]);
    work(stage);
    calls(&mut stage.client)
}

/// Calls by command since the counters were reset.
pub fn calls(client: &mut Client) -> BTreeMap<String, u64> {
    let info = client.call(&["INFO", "commandstats"]);
    let lines = info.text().lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    lines
        .filter(|(name, _)| !name.starts_with("config") && *name != "info")
        .map(|(name, rest)| (name.to_owned(), rest.split(',').next().unwrap().parse().unwrap()))
        .collect()
}

/// What `EVALSHA` comes to: one, an `MGET`, and so many `SET` and `TIME`.
fn commands(set: u64, time: u64) -> BTreeMap<String, u64> {
    let all = [("evalsha", 1), ("mget", 1), ("set", set), ("time", time)];
    all.into_iter().filter(|(_, calls)| *calls > 0).map(|(name, calls)| (name.to_owned(), calls)).collect()
}

/// Limits of one rule, at the store's present.
fn lane(stage: &mut Stage, rules: &[String]) -> Lane {
    stage.lane(&Trace { limits: rules.to_vec(), base: Base::Now, ..Trace::default() })
}

fn step(cost: u64) -> Step {
    Step { cost: Some(Cost::All(cost)), ..Step::default() }
}

fn asked(stage: &mut Stage, lane: &Lane, step: &Step, allowed: i64) -> BTreeMap<String, u64> {
    counted(stage, |stage| assert_eq!(stage.ask(lane, step)[0], allowed))
}

#[test]
fn n_limits_cost_two_commands_and_n_when_passed_and_two_when_refused() {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    for algorithm in ALGORITHMS {
        for n in [1, 2, 3, 10, 32] {
            let rules = vec![format!("{algorithm}(5/1h)"); n as usize];
            let lane = lane(&mut stage, &rules);
            assert_eq!(asked(&mut stage, &lane, &step(5), 1), commands(n, 0), "{n} {algorithm} passed");
            assert_eq!(asked(&mut stage, &lane, &step(1), 0), commands(0, 0), "{n} {algorithm} refused");
            assert_eq!(asked(&mut stage, &lane, &step(6), 0), commands(0, 0), "{n} {algorithm} never");
            assert_eq!(asked(&mut stage, &lane, &step(0), 1), commands(0, 0), "{n} {algorithm} looked at");
        }
    }
}

#[test]
fn overrides_bans_and_plans_cost_nothing_more() {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    for algorithm in ALGORITHMS {
        let rules = vec![format!("{algorithm}(5/1h)"); 3];
        let mut own = lane(&mut stage, &rules);
        stage.client.call(&["SET", &own.over_keys[1], "10 0"]);
        assert_eq!(asked(&mut stage, &own, &step(5), 1), commands(3, 0), "{algorithm} with an override");
        assert_eq!(asked(&mut stage, &own, &step(1), 0), commands(0, 0), "{algorithm} refused by the others");
        // What a plan comes to: other numbers for the same keys.
        let richer = Step { limits: Some(vec![format!("{algorithm}(50/1h)"); 3]), ..Step::default() };
        own.model.prepare(&richer);
        assert_eq!(asked(&mut stage, &own, &step(1), 1), commands(3, 0), "{algorithm} on another plan");
        stage.client.call(&["SET", &own.over_keys[2], "0 0"]);
        assert_eq!(asked(&mut stage, &own, &step(1), 0), commands(0, 0), "{algorithm} banned");
    }
}

#[test]
fn a_charge_id_costs_one_command_and_none_when_it_comes_again() {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    for algorithm in ALGORITHMS {
        let own = lane(&mut stage, &vec![format!("{algorithm}(5/1h)"); 3]);
        let charge = |id: &str, fingerprint: &str| Some((id.to_owned(), fingerprint.to_owned()));
        let first = Step { charge: charge("a", "x"), ..step(5) };
        assert_eq!(asked(&mut stage, &own, &first, 1), commands(4, 0), "{algorithm}");
        assert_eq!(asked(&mut stage, &own, &first, 1), commands(0, 0), "{algorithm} again");
        let other = Step { charge: charge("a", "y"), ..step(5) };
        assert_eq!(asked(&mut stage, &own, &other, 2), commands(0, 0), "{algorithm} of another request");
        let refused = Step { charge: charge("b", "x"), ..step(1) };
        assert_eq!(asked(&mut stage, &own, &refused, 0), commands(0, 0), "{algorithm} refused");
    }
}

#[test]
fn a_limit_in_shadow_that_refuses_is_not_written() {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    for algorithm in ALGORITHMS {
        let own = lane(&mut stage, &[format!("{algorithm}(1/1h) shadow"), format!("{algorithm}(5/1h)")]);
        assert_eq!(asked(&mut stage, &own, &step(1), 1), commands(2, 0), "{algorithm}");
        assert_eq!(asked(&mut stage, &own, &step(1), 1), commands(1, 0), "{algorithm} over its shadow limit");
    }
}

#[test]
fn the_stores_clock_is_asked_once_and_only_where_it_is_needed() {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    for algorithm in ALGORITHMS {
        let rules = vec![format!("{algorithm}(5/1s)"); 3];
        let fast = Step { clock: 3_600_000, ..step(5) };
        let slow = Step { clock: -3_600_000, ..step(1) };
        let by_store = |cost| Step { store_clock: true, ..step(cost) };

        let own = lane(&mut stage, &rules);
        assert_eq!(
            asked(&mut stage, &own, &by_store(1), 1),
            commands(3, 1),
            "{algorithm} by the store's clock"
        );
        assert_eq!(asked(&mut stage, &own, &by_store(6), 0), commands(0, 1), "{algorithm} refused");
        // The stored times are an hour ahead of this caller, who is an hour behind: one question settles all three.
        assert_eq!(
            asked(&mut stage, &own, &Step { clock: slow.clock, ..step(0) }, 1),
            commands(0, 1),
            "{algorithm}"
        );

        let own = lane(&mut stage, &rules);
        assert_eq!(asked(&mut stage, &own, &fast, 1), commands(3, 0), "{algorithm} an hour ahead");
        assert_eq!(asked(&mut stage, &own, &step(1), 0), commands(3, 1), "{algorithm} mended by a refusal");
        assert_eq!(asked(&mut stage, &own, &step(1), 0), commands(0, 0), "{algorithm} mended before");

        let own = lane(&mut stage, &rules);
        stage.ask(&own, &fast);
        assert_eq!(
            asked(&mut stage, &own, &by_store(1), 0),
            commands(3, 1),
            "{algorithm} mended by its clock"
        );
    }
}

/// Everything a database holds, and until when.
fn contents(stage: &mut Stage) -> Vec<(Reply, Reply)> {
    let mut keys: Vec<Reply> = stage.client.call(&["KEYS", "*"]).array().to_vec();
    keys.sort_by(|one, other| one.bulk().cmp(&other.bulk()));
    keys.iter().for_each(|key| stage.client.queue(&["DUMP", key.text()]));
    keys.into_iter().zip(stage.client.flush()).collect()
}

#[test]
fn a_refusal_and_a_look_change_no_key() {
    let server = Server::start();
    let mut stage = Stage::new(server.client());
    let seed = seed();
    let mut random = Random::new(seed);
    let mut refused = 0;
    for _ in 0..40 {
        let habits = Habits {
            clocks: Clocks::Off(30_000),
            limits: 4,
            exceptions: true,
            changes: true,
            store: false,
            delays: true,
            permits: true,
        };
        let (mut generator, trace) = Generator::new(Random::new(random.next()), habits);
        let mut own = stage.lane(&Trace { base: Base::Past, ..trace });
        stage.client.call(&["FLUSHALL"]);
        let mut last = None;
        for _ in 0..40 {
            let step = Step { overrides: Vec::new(), ..generator.step(&own.model, last.as_ref()) };
            let said = match stage.play(std::slice::from_mut(&mut own), vec![step.clone()]).remove(0) {
                Ok(said) => said,
                Err(Fault::Stale) => break,
                Err(fault) => panic!("SLUICEGATE_SEED={seed}: {fault}"),
            };
            let before = contents(&mut stage);
            // The same again, up to nothing being charged.
            let again =
                Step { cost: if said.allowed() { Some(Cost::All(0)) } else { step.cost.clone() }, ..step };
            let reply = stage.ask(&own, &again);
            assert_eq!(reply[0], i64::from(said.allowed()), "SLUICEGATE_SEED={seed}");
            assert!(before == contents(&mut stage), "SLUICEGATE_SEED={seed}: {:?} {again:?}", own.trace);
            refused += u64::from(!said.allowed());
            last = Some(said);
        }
    }
    assert!(refused > 200, "SLUICEGATE_SEED={seed}: {refused} refusals prove little");
}
