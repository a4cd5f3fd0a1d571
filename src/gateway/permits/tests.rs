use serde_json::{Value, json};

use super::super::{Bindings, Call, Reply, Step};
use super::*;

const NOW: u64 = 1_785_432_000_000;

/// A window of 100 with permits, one without, and one that counts while the store is away.
fn policy() -> Value {
    let limit = |name: &str| {
        json!({"name": name, "algorithm": "fixed-window", "limit": 100, "window": "1h", "key": ["ip"],
            "on_store_error": "closed"})
    };
    let with = |name: &str, more: Value| {
        let mut limit = limit(name);
        limit.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        limit
    };
    let batch = json!({"lease_batch": 5, "lease_ttl": "5s"});
    json!({"version": 1, "gateway": {"origin": "http://o.invalid"},
        "store": {"timeout": "100ms", "breaker": {"min_calls": 1000}, "retry": {"budget": 1}},
        "degraded": {"share": 0.1},
        "limits": [with("leased", batch.clone()), limit("plain"),
            with("warm", json!({"on_store_error": "degraded"})),
            with("both", json!({"on_store_error": "degraded", "lease_batch": 5, "lease_ttl": "5s"})),
            with("keyed", json!({"idempotency": "header:idempotency-key"}))]})
}

fn gateway_of(policy: &Value) -> Gateway {
    let store_url = Some("http://store.invalid".to_owned());
    let bindings = Bindings { store_url, has_token: true, ..Bindings::default() };
    Gateway::new(&policy.to_string(), &bindings).unwrap()
}

fn gateway() -> Gateway {
    gateway_of(&policy())
}

fn ask(gateway: &mut Gateway, limits: &[&str], now_ms: u64) -> Step {
    let subject = json!({"ip": "192.0.2.1", "header:idempotency-key": "k"});
    let question = json!({"limits": limits, "subject": subject, "cost": 1});
    gateway.check(Some(&question.to_string()), now_ms, 0.5)
}

fn call(step: Step) -> Call {
    match step {
        Step::Ask(call) => call,
        other => panic!("no call: {other:?}"),
    }
}

fn answer(step: Step) -> Value {
    match step {
        Step::Answer(answer) => serde_json::from_str(&answer.body).unwrap(),
        other => panic!("no answer: {other:?}"),
    }
}

fn conclude(gateway: &mut Gateway, call: &Call, reply: &str, now_ms: u64) -> Step {
    let body = format!(r#"{{"result":[{reply}]}}"#);
    gateway.conclude(call.ticket, Reply::Whole { status: 200, body: &body, retry_after_s: 0 }, now_ms, 0.5)
}

fn lost(gateway: &mut Gateway, call: &Call, now_ms: u64) -> Step {
    gateway.conclude(call.ticket, Reply::None("connection"), now_ms, 0.5)
}

fn words(call: &Call) -> Vec<String> {
    serde_json::from_str(&call.body).unwrap()
}

/// Takes a batch: one unit for the request and four in hand, 95 left in the store.
fn filled(gateway: &mut Gateway, limit: &str) {
    let call = call(ask(gateway, &[limit], NOW));
    answer(conclude(gateway, &call, "1,100,95,60000,0,4", NOW + 20));
}

#[test]
fn one_call_in_five_and_the_numbers_go_on_counting() {
    let mut gateway = gateway();
    let first = call(ask(&mut gateway, &["leased"], NOW));
    let words = words(&first);
    assert_eq!((words[5].as_str(), words[6].as_str(), words[11].as_str()), ("", "f+4", "1"));
    let told = answer(conclude(&mut gateway, &first, "1,100,95,60000,0,4", NOW + 20));
    assert_eq!((&told["tier"], &told["limits"][0]["remaining"]), (&json!("store"), &json!(99)));
    for left in [98, 97, 96, 95] {
        let told = answer(ask(&mut gateway, &["leased"], NOW + 1_500));
        let limit =
            json!({"name": "leased", "allowed": true, "limit": 100, "remaining": left, "reset_ms": 58_500});
        assert_eq!((&told["tier"], &told["limits"][0]), (&json!("cache"), &limit));
    }
    assert_eq!(self::words(&call(ask(&mut gateway, &["leased"], NOW + 1_500)))[6], "f+4");
    assert_eq!(gateway.counters().calls, 2);
    assert_eq!(gateway.permit_counts(NOW), Counts { batches: 2, granted: 4, spent: 4, lapsed: 0 });
}

#[test]
fn while_a_batch_is_under_way_others_ask_for_themselves() {
    let mut gateway = gateway();
    let first = call(ask(&mut gateway, &["leased"], NOW));
    let second = call(ask(&mut gateway, &["leased"], NOW));
    assert_eq!((words(&first)[6].as_str(), words(&second)[6].as_str()), ("f+4", "f"));
    // Refused, since the batch has taken the rest; that is remembered, and does not stand in the permits' way.
    let told = answer(conclude(&mut gateway, &second, "0,100,0,60000,60000", NOW + 5));
    assert_eq!(told["allowed"], false);
    answer(conclude(&mut gateway, &first, "1,100,0,60000,0,2", NOW + 6));
    for _ in 0..2 {
        let told = answer(ask(&mut gateway, &["leased"], NOW + 7));
        assert_eq!((&told["allowed"], &told["tier"]), (&json!(true), &json!("cache")));
    }
    let told = answer(ask(&mut gateway, &["leased"], NOW + 8));
    assert_eq!((&told["allowed"], &told["tier"]), (&json!(false), &json!("cache")));
}

#[test]
fn permits_are_spent_only_if_the_store_lets_the_others_pass() {
    let mut gateway = gateway();
    filled(&mut gateway, "leased");
    let limits = ["leased", "plain"];
    let asked = call(ask(&mut gateway, &limits, NOW + 30));
    assert_eq!(words(&asked)[6], "f", "only the other is asked about");
    assert!(asked.body.contains(":plain:") && !asked.body.contains(":leased:"));
    let told = answer(conclude(&mut gateway, &asked, "0,100,0,60000,60000", NOW + 40));
    assert_eq!((&told["allowed"], &told["limits"][0]["name"]), (&json!(false), &json!("leased")));
    assert_eq!(told["limits"][0]["remaining"], 99, "nothing was spent");
    assert_eq!(gateway.permit_counts(NOW + 40).spent, 0);
    let mut gateway = self::gateway();
    filled(&mut gateway, "leased");
    let asked: Vec<Call> = (0..4).map(|_| call(ask(&mut gateway, &limits, NOW + 30))).collect();
    assert_eq!(words(&call(ask(&mut gateway, &limits, NOW + 30)))[2], "4", "none is left to hold");
    let told = answer(conclude(&mut gateway, &asked[0], "1,100,99,60000,0", NOW + 40));
    assert_eq!((&told["allowed"], &told["tier"]), (&json!(true), &json!("store")));
    // One is lost, one is not heard of again: its ticket goes half a minute after its time.
    assert_eq!(answer(lost(&mut gateway, &asked[1], NOW + 40))["allowed"], false);
    assert_eq!(gateway.permit_counts(NOW + 40), Counts { batches: 2, granted: 4, spent: 1, lapsed: 0 });
    assert_eq!(answer(ask(&mut gateway, &["leased"], NOW + 50))["tier"], "cache", "the lost one's is back");
    assert_eq!(answer(conclude(&mut gateway, &asked[2], "1,100,98,60000,0", NOW + 60))["allowed"], true);
    assert_eq!(gateway.permit_counts(NOW + 60).in_hand(), 1);
}

#[test]
fn permits_outlive_the_store_and_then_each_limit_has_its_say() {
    let mut gateway = gateway();
    filled(&mut gateway, "both");
    // Warm, with its share: the store has 95 left, of which an isolate grants ten.
    for tier in ["cache", "cache", "cache", "cache"] {
        assert_eq!(answer(ask(&mut gateway, &["both"], NOW + 30))["tier"], tier);
    }
    let degraded = (0..20).map(|_| {
        let asked = call(ask(&mut gateway, &["both"], NOW + 30));
        answer(lost(&mut gateway, &asked, NOW + 30))
    });
    let told: Vec<Value> = degraded.collect();
    assert!(told.iter().all(|told| told["tier"] == "degraded"));
    assert_eq!(told.iter().filter(|told| told["allowed"] == true).count(), 10);
    // Beside a limit that counts by itself, and beside one that refuses.
    filled(&mut gateway, "leased");
    let asked = call(ask(&mut gateway, &["leased", "warm"], NOW + 30));
    let told = answer(lost(&mut gateway, &asked, NOW + 30));
    assert_eq!((&told["allowed"], &told["tier"]), (&json!(true), &json!("degraded")));
    assert_eq!(told["limits"].as_array().unwrap().len(), 2);
    let asked = call(ask(&mut gateway, &["leased", "plain"], NOW + 30));
    assert_eq!(answer(lost(&mut gateway, &asked, NOW + 30))["tier"], "closed");
    assert_eq!(gateway.permit_counts(NOW + 30).in_hand(), 3);
}

#[test]
fn what_the_store_has_left_is_what_the_isolate_is_warm_by() {
    let mut gateway = gateway();
    let asked = call(ask(&mut gateway, &["both"], NOW));
    answer(conclude(&mut gateway, &asked, "1,100,3,60000,0,4", NOW + 20));
    let decided = (0..12).map(|_| match ask(&mut gateway, &["both"], NOW + 30) {
        Step::Ask(call) => answer(lost(&mut gateway, &call, NOW + 30)),
        step => answer(step),
    });
    let passed = decided.filter(|told| told["allowed"] == true).count();
    assert_eq!(passed, 4 + 3, "what is in hand, and what was left");
}

#[test]
fn permits_end_with_the_window_that_the_store_counts() {
    let mut gateway = gateway();
    let asked = call(ask(&mut gateway, &["leased"], NOW));
    answer(conclude(&mut gateway, &asked, "1,100,95,300,0,4", NOW + 90));
    assert_eq!(answer(ask(&mut gateway, &["leased"], NOW + 299))["tier"], "cache");
    call(ask(&mut gateway, &["leased"], NOW + 300));
    // A batch that took longer than it is good for.
    let mut gateway = self::gateway();
    let asked = call(ask(&mut gateway, &["leased"], NOW));
    answer(conclude(&mut gateway, &asked, "1,100,95,80,0,4", NOW + 90));
    call(ask(&mut gateway, &["leased"], NOW + 90));
    assert_eq!(gateway.permit_counts(NOW + 90).lapsed, 4);
}

#[test]
fn a_repeat_is_told_what_the_first_came_to_so_its_time_counts_from_there() {
    let mut policy = policy();
    policy["store"]["exactly_once"] = true.into();
    let mut gateway = gateway_of(&policy);
    let first = call(ask(&mut gateway, &["leased"], NOW));
    let Step::Ask(again) = lost(&mut gateway, &first, NOW + 40) else { panic!("no repeat") };
    answer(conclude(&mut gateway, &again, "1,100,95,300,0,4", NOW + 90));
    assert_eq!(answer(ask(&mut gateway, &["leased"], NOW + 299))["tier"], "cache");
    call(ask(&mut gateway, &["leased"], NOW + 300));
}

#[test]
fn a_repeat_of_a_client_takes_nothing_and_spends_nothing() {
    let mut gateway = gateway();
    let asked = call(ask(&mut gateway, &["leased", "keyed"], NOW));
    assert_eq!(words(&asked)[9], "f");
    answer(conclude(&mut gateway, &asked, "1,100,99,60000,0,100,99,60000,0", NOW));
    filled(&mut gateway, "leased");
    let asked = call(ask(&mut gateway, &["leased", "keyed"], NOW + 30));
    assert_eq!(words(&asked)[2], "5", "both are asked about");
}

#[test]
fn another_policy_keeps_the_permits_of_limits_that_stay() {
    let mut gateway = gateway();
    filled(&mut gateway, "leased");
    let mut other = policy();
    other["limits"][1]["limit"] = 50.into();
    gateway.reload(Some(&other.to_string()), NOW);
    assert_eq!(answer(ask(&mut gateway, &["leased"], NOW + 30))["tier"], "cache");
    other["limits"][0]["limit"] = 50.into();
    gateway.reload(Some(&other.to_string()), NOW);
    call(ask(&mut gateway, &["leased"], NOW + 30));
    let mut gateway = self::gateway();
    filled(&mut gateway, "leased");
    other = policy();
    other["limits"][0].as_object_mut().unwrap().retain(|field, _| !field.starts_with("lease_"));
    gateway.reload(Some(&other.to_string()), NOW);
    assert_eq!(words(&call(ask(&mut gateway, &["leased"], NOW + 30)))[6], "f");
    assert_eq!(gateway.permit_counts(NOW).lapsed, 4);
}

#[test]
fn a_limit_in_shadow_takes_permits_too() {
    let mut policy = policy();
    policy["limits"][0]["shadow"] = true.into();
    let mut gateway = gateway_of(&policy);
    let asked = call(ask(&mut gateway, &["leased"], NOW));
    assert_eq!(words(&asked)[6], "F+4");
    answer(conclude(&mut gateway, &asked, "1,100,0,60000,0,1", NOW + 20));
    assert_eq!(answer(ask(&mut gateway, &["leased"], NOW + 30))["tier"], "cache");
    // It would refuse, and does not: no permits came, and the request passes.
    let asked = call(ask(&mut gateway, &["leased"], NOW + 30));
    let told = answer(conclude(&mut gateway, &asked, "1,100,0,60000,60000,0", NOW + 40));
    assert_eq!(told["allowed"], true);
}
