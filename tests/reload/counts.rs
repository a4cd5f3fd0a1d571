//! What is counted, over a change of policy.

use serde_json::{Value, json};
use sluicegate::gateway::{Bindings, Gateway, Step};
use sluicegate::store::breaker::Phase;

use super::random::Random;
use super::setup::*;

/// Uses all of `/a` inside the isolate, changes the policy, and counts what passes then.
fn after(limits: &[Value]) -> usize {
    let alone = Bindings::default();
    let mut gateway = gateway(&policy("one", &[limit("a", json!({}))], json!({})), &alone);
    assert_eq!(passed(&mut gateway, "/a", 30, NOW), 10);
    gateway.reload(Some(&policy("two", limits, json!({}))), NOW + 1);
    assert_eq!(events(&mut gateway), ["policy-reloaded"]);
    passed(&mut gateway, "/a", 60, NOW + 2)
}

#[test]
fn a_changed_quota_keeps_what_was_used() {
    // FIELD-REPORTS B32: 10,000 raised to 15,000 after exhaustion leaves 5,000.
    assert_eq!(after(&[limit("a", json!({ "limit": 15 }))]), 5);
    assert_eq!(after(&[limit("a", json!({ "limit": 4 }))]), 0);
    assert_eq!(after(&[limit("a", json!({ "limit": 15, "on_store_error": "open" }))]), 5);
}

#[test]
fn it_goes_by_name_wherever_the_limit_stands() {
    let others = [limit("b", json!({})), limit("c", json!({})), limit("a", json!({ "limit": 12 }))];
    assert_eq!(after(&others), 2);
}

#[test]
fn another_algorithm_or_window_starts_anew() {
    assert_eq!(after(&[limit("a", json!({ "algorithm": "sliding-log" }))]), 10);
    assert_eq!(after(&[limit("a", json!({ "window": "2h" }))]), 10);
}

#[test]
fn a_limit_under_another_name_is_another() {
    let mut gateway = gateway(&policy("one", &[limit("a", json!({}))], json!({})), &Bindings::default());
    assert_eq!(passed(&mut gateway, "/a", 30, NOW), 10);
    gateway.reload(Some(&policy("two", &[limit("b", json!({ "limit": 3 }))], json!({}))), NOW);
    assert_eq!(passed(&mut gateway, "/b", 30, NOW), 3);
    // A path that no route names any more passes without a limit; the route that came back counts on.
    assert_eq!(passed(&mut gateway, "/a", 30, NOW), 30);
    gateway.reload(Some(&policy("one", &[limit("a", json!({}))], json!({}))), NOW);
    assert_eq!(passed(&mut gateway, "/a", 30, NOW), 0);
}

#[test]
fn any_order_of_policies_and_requests_counts_each_limit_by_its_quota_of_the_moment() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let names = ["a", "b", "c", "d"];
        let mut quotas = [5_u64; 4];
        let mut used = [0_u64; 4];
        let text = |quotas: &[u64; 4], random: &mut Random| {
            let mut limits: Vec<Value> = names
                .iter()
                .zip(quotas)
                .map(|(name, quota)| limit(name, json!({ "limit": quota })))
                .collect();
            let turn = random.between(0, 3) as usize;
            limits.rotate_left(turn);
            policy(&format!("p{}", random.next()), &limits, json!({}))
        };
        let mut gateway = gateway(&text(&quotas, &mut random), &Bindings::default());
        for _ in 0..200 {
            let which = random.between(0, 3) as usize;
            if random.between(0, 9) == 0 {
                quotas[which] = random.between(1, 20);
                gateway.reload(Some(&text(&quotas, &mut random)), NOW);
                continue;
            }
            let passes = passed(&mut gateway, &format!("/{}", names[which]), 1, NOW) == 1;
            assert_eq!(passes, used[which] < quotas[which], "seed {seed}: {used:?} of {quotas:?}");
            used[which] += u64::from(passes);
        }
    }
}

#[test]
fn remembered_refusals_are_dropped() {
    let one = policy("one", &[limit("a", json!({}))], json!({}));
    let two = policy("two", &[limit("a", json!({}))], json!({}));
    let mut gateway = gateway(&one, &with_store());
    let (ticket, _) = ask(&mut gateway, "/a", NOW);
    assert_eq!(told(&refuses(&mut gateway, ticket, 10, 9_000, NOW)), "429 store");
    assert_eq!(told(&receive(&mut gateway, "/a", "192.0.2.1", NOW)), "429 cache");
    gateway.reload(Some(&two), NOW);
    ask(&mut gateway, "/a", NOW);
    // The policy in force, sent again, is no change.
    let (ticket, _) = ask(&mut gateway, "/a", NOW);
    refuses(&mut gateway, ticket, 10, 9_000, NOW);
    gateway.reload(Some(&format!(" {two}\n")), NOW);
    assert_eq!(told(&receive(&mut gateway, "/a", "192.0.2.1", NOW)), "429 cache");
}

#[test]
fn what_the_store_said_keeps_the_isolate_warm_under_the_next_policy() {
    let text = |limit_: u64| policy("one", &[limit("a", json!({ "limit": limit_ }))], json!({}));
    let mut gateway = gateway(&text(100), &with_store());
    let (ticket, _) = ask(&mut gateway, "/a", NOW);
    passes(&mut gateway, ticket, &[(100, 4)], NOW);
    gateway.reload(Some(&text(110)), NOW);
    // A tenth of 110 is 11; of the tenth of 100 that the isolate grants, 6 were used.
    assert_eq!(degraded(&mut gateway, "/a", 30), 5);
}

/// Fails until the breaker is open.
fn open(gateway: &mut Gateway) {
    for _ in 0..100 {
        match receive(gateway, "/a", "192.0.2.1", NOW) {
            Step::Ask(call) => drop(fails(gateway, call.ticket, NOW)),
            _ => return,
        }
    }
    panic!("the breaker stays closed");
}

#[test]
fn breaker_counters_and_log_go_on() {
    let text = |origin: &str| policy(origin, &[limit("a", json!({ "limit": 1000 }))], json!({}));
    let mut gateway = gateway(&text("one"), &with_store());
    open(&mut gateway);
    let counters = gateway.counters().clone();
    assert_eq!(events(&mut gateway), ["store-failing"]);
    gateway.reload(Some(&text("two")), NOW);
    assert_eq!(gateway.breaker_phase(NOW), Phase::Open);
    assert_eq!(gateway.counters(), &counters);
    assert_eq!(told(&receive(&mut gateway, "/a", "192.0.2.1", NOW)), "two degraded");
    assert_eq!(events(&mut gateway), ["policy-reloaded"], "failing is not said again");
}

#[test]
fn the_breaker_takes_the_new_numbers() {
    let text = |min_calls: u64, window: &str| {
        let breaker = json!({ "min_calls": min_calls, "window": window, "failure_rate": 0.5 });
        policy("one", &[limit("a", json!({}))], json!({ "store": { "breaker": breaker } }))
    };
    let mut gateway = gateway(&text(1000, "10s"), &with_store());
    let fail = |gateway: &mut Gateway| {
        let (ticket, _) = ask(gateway, "/a", NOW);
        fails(gateway, ticket, NOW);
        gateway.breaker_phase(NOW)
    };
    (0..4).for_each(|_| assert_eq!(fail(&mut gateway), Phase::Closed));
    gateway.reload(Some(&text(5, "10s")), NOW);
    assert_eq!(fail(&mut gateway), Phase::Open, "the four before count");
    // Of another window nothing that was counted before.
    let mut other = super::setup::gateway(&text(1000, "10s"), &with_store());
    (0..9).for_each(|_| assert_eq!(fail(&mut other), Phase::Closed));
    other.reload(Some(&text(5, "20s")), NOW);
    (0..4).for_each(|_| assert_eq!(fail(&mut other), Phase::Closed));
    assert_eq!(fail(&mut other), Phase::Open);
}
