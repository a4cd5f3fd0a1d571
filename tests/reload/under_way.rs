//! Requests that were asked under one policy and come back under another.

use serde_json::json;
use sluicegate::gateway::{Bindings, Step};

use super::setup::*;

fn one() -> String {
    let limits = [limit("a", json!({ "limit": 40 })), limit("b", json!({ "on_store_error": "closed" }))];
    policy("one", &limits, json!({}))
}

/// None of the first one's names, fewer limits, another origin.
fn two() -> String {
    policy("two", &[limit("z", json!({ "limit": 20 }))], json!({ "gateway": { "tier_header": false } }))
}

#[test]
fn an_answer_is_given_under_the_policy_that_asked() {
    let mut gateway = gateway(&one(), &with_store());
    let (pass, _) = ask(&mut gateway, "/all", NOW);
    let (refuse, _) = ask(&mut gateway, "/b", NOW);
    gateway.reload(Some(&two()), NOW);
    let step = passes(&mut gateway, pass, &[(40, 39), (10, 9)], NOW);
    assert_eq!(told(&step), "one store");
    let Step::Forward(forward) = &step else { panic!() };
    let policies = forward.headers.iter().find(|(name, _)| *name == "RateLimit-Policy").unwrap();
    assert_eq!(policies.1, r#""b";q=10;w=3600, "a";q=40;w=3600"#);
    let refusal = refuses(&mut gateway, refuse, 10, 9_000, NOW);
    assert_eq!(told(&refusal), "429 store");
    let Step::Answer(answer) = &refusal else { panic!() };
    assert!(answer.body.contains(r#""violated-policies":["b"]"#), "{}", answer.body);
    // The next request is the new policy's.
    let (ticket, _) = ask(&mut gateway, "/z", NOW);
    assert_eq!(told(&passes(&mut gateway, ticket, &[(20, 19)], NOW)), "two -");
}

#[test]
fn its_failure_policy_is_the_one_that_asked() {
    let mut gateway = gateway(&one(), &with_store());
    let (closed, _) = ask(&mut gateway, "/b", NOW);
    let (shared, _) = ask(&mut gateway, "/a", NOW);
    gateway.reload(Some(&two()), NOW);
    assert_eq!(told(&fails(&mut gateway, closed, NOW)), "503 closed");
    assert_eq!(told(&fails(&mut gateway, shared, NOW)), "one degraded");
    // It was counted as a's: z, which now stands where a did, has its whole share of 20.
    let through = degraded(&mut gateway, "/z", 10);
    assert_eq!(through, 2);
}

#[test]
fn a_call_made_again_names_the_same_keys() {
    let mut gateway = gateway(&one(), &with_store());
    let (ticket, body) = ask(&mut gateway, "/a", NOW);
    assert!(body.contains("sg:1:a:f1h:192.0.2.1"), "{body}");
    gateway.reload(Some(&two()), NOW);
    let noscript = r#"{"error":"NOSCRIPT No matching script. Please use EVAL."}"#;
    let Step::Ask(call) = gateway.conclude(ticket, whole(noscript), NOW, 0.5) else { panic!("no EVAL") };
    assert!(call.body.starts_with(r#"["EVAL""#) && call.body.contains("sg:1:a:f1h:192.0.2.1"));
    // A second change on the way is no matter either.
    gateway.reload(Some(&one()), NOW);
    assert_eq!(told(&passes(&mut gateway, call.ticket, &[(40, 39)], NOW)), "one store");
}

#[test]
fn the_platforms_limiter_is_read_under_the_policy_that_asked_it() {
    let limits = [limit("b", json!({ "on_store_error": "open" })), limit("a", json!({}))];
    let text = policy("one", &limits, json!({ "degraded": { "binding": "LIMITER" } }));
    let mut gateway = gateway(&text, &with_store());
    let located = |gateway: &mut _| {
        let (ticket, _) = ask(gateway, "/a", NOW);
        match fails(gateway, ticket, NOW) {
            Step::Location(location) => location.ticket,
            other => panic!("{other:?}"),
        }
    };
    let (pass, refuse, silent) = (located(&mut gateway), located(&mut gateway), located(&mut gateway));
    gateway.reload(Some(&two()), NOW);
    assert_eq!(told(&gateway.conclude_location(pass, "1", NOW)), "one degraded");
    assert_eq!(told(&gateway.conclude_location(refuse, "0", NOW)), "429 degraded");
    assert_eq!(told(&gateway.conclude_location(silent, "x", NOW)), "one degraded");
}

#[test]
fn a_refusal_that_comes_late_is_remembered_for_its_own_limit_only() {
    let mut gateway = gateway(&one(), &with_store());
    let (ticket, _) = ask(&mut gateway, "/a", NOW);
    gateway.reload(Some(&two()), NOW);
    refuses(&mut gateway, ticket, 40, 9_000, NOW);
    ask(&mut gateway, "/z", NOW);
}

#[test]
fn the_bulkhead_counts_what_is_under_way_before_and_after() {
    let text = |origin: &str, most: u64| {
        policy(origin, &[limit("a", json!({}))], json!({ "store": { "max_in_flight": most } }))
    };
    let mut gateway = gateway(&text("one", 10), &with_store());
    let tickets: Vec<u32> = (0..4).map(|_| ask(&mut gateway, "/a", NOW).0).collect();
    gateway.reload(Some(&text("two", 4)), NOW);
    assert_eq!(told(&receive(&mut gateway, "/a", "192.0.2.1", NOW)), "two degraded");
    for ticket in tickets {
        assert_eq!(told(&passes(&mut gateway, ticket, &[(10, 9)], NOW)), "one store");
    }
    ask(&mut gateway, "/a", NOW);
}

#[test]
fn requests_of_many_policies_are_under_way_at_once() {
    let mut gateway = gateway(&one(), &with_store());
    let mut tickets = Vec::new();
    for turn in 0..50 {
        tickets.push(ask(&mut gateway, if turn % 2 == 0 { "/a" } else { "/z" }, NOW).0);
        gateway.reload(Some(&if turn % 2 == 0 { two() } else { one() }), NOW);
    }
    for (turn, ticket) in tickets.into_iter().enumerate().rev() {
        let (limit, origin) = if turn % 2 == 0 { (40, "one store") } else { (20, "two -") };
        assert_eq!(told(&passes(&mut gateway, ticket, &[(limit, 1)], NOW)), origin);
    }
}

#[test]
fn the_origin_of_the_binding_stays() {
    let bindings = Bindings { origin: Some("http://bound.example.com".to_owned()), ..Bindings::default() };
    let mut gateway = gateway(&one(), &bindings);
    gateway.reload(Some(&two()), NOW);
    assert_eq!(told(&receive(&mut gateway, "/z", "192.0.2.1", NOW)), "bound -");
}
