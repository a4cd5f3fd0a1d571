//! Which policy holds, what is said of a wrong one, and of a namespace that cannot be read.

use serde_json::{Value, json};
use sluicegate::gateway::reload::Source;
use sluicegate::gateway::{Bindings, Gateway, Isolate, Request, Step};

use super::setup::*;

fn named(origin: &str) -> String {
    policy(origin, &[limit("a", json!({ "limit": 1000 }))], json!({}))
}

fn wrong() -> String {
    policy("wrong", &[limit("a", json!({ "limit": 0 })), limit("b", json!({ "windo": "1h" }))], json!({}))
}

fn in_force(gateway: &mut Gateway) -> String {
    told(&receive(gateway, "/a", "192.0.2.1", NOW)).replace(" isolate", "")
}

#[test]
fn the_namespace_goes_before_the_var_and_the_var_before_what_is_compiled_in() {
    for (var, base, source) in
        [(None, "built", Source::BuiltIn), (Some(Value::String(named("var"))), "var", Source::Var)]
    {
        let bindings = Bindings { policy: var, ..Bindings::default() };
        let mut gateway = gateway(&named("built"), &bindings);
        assert_eq!((in_force(&mut gateway).as_str(), gateway.reload_state().source), (base, source));
        gateway.reload(None, NOW);
        assert_eq!((in_force(&mut gateway).as_str(), gateway.reload_state().source), (base, source));
        gateway.reload(Some(&named("kv")), NOW);
        assert_eq!((in_force(&mut gateway).as_str(), gateway.reload_state().source), ("kv", Source::Kv));
        // Taken away again, by the key's removal or by an empty text.
        gateway.reload(None, NOW);
        assert_eq!((in_force(&mut gateway).as_str(), gateway.reload_state().source), (base, source));
        gateway.reload(Some(&named("kv")), NOW);
        gateway.reload(Some(" \n"), NOW + 7);
        assert_eq!(in_force(&mut gateway), base);
        let state = gateway.reload_state();
        assert_eq!((state.reads, state.reloads, state.reloaded_at_ms), (5, 4, Some(NOW + 7)));
    }
}

#[test]
fn a_wrong_policy_is_said_once_and_the_last_good_one_stays() {
    let mut gateway = gateway(&named("built"), &Bindings::default());
    gateway.reload(Some(&named("kv")), NOW);
    gateway.take_log();
    for _ in 0..10 {
        gateway.reload(Some(&wrong()), NOW);
    }
    assert_eq!(in_force(&mut gateway), "kv");
    let lines = gateway.take_log();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&line["event"], &line["source"]), (&json!("bad-policy"), &json!("POLICY_KV")));
    let errors = line["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2, "each error: {errors:?}");
    for part in ["limits[0].limit", "\\\"blocked\\\"", "limits[1].windo", "did you mean"] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    assert_eq!(gateway.reload_state().errors.len(), 2);
    assert_eq!(health(&mut gateway).0, 200);
    assert!(health(&mut gateway).1.contains("limits[0].limit"), "{}", health(&mut gateway).1);
    // Another wrong one is said again; the last good one, back, is said too.
    gateway.reload(Some("{"), NOW);
    assert_eq!(events(&mut gateway), ["bad-policy"]);
    gateway.reload(Some(&named("kv")), NOW);
    assert_eq!(events(&mut gateway), ["policy-reloaded"]);
    assert!(gateway.reload_state().errors.is_empty());
    assert_eq!(health(&mut gateway), (200, r#"{"status":"ok"}"#.to_owned()));
    assert_eq!(gateway.reload_state().reloads, 1);
}

#[test]
fn a_policy_longer_than_a_megabyte_is_wrong() {
    let mut gateway = gateway(&named("built"), &Bindings::default());
    gateway.reload(Some(&format!("{}{}", " ".repeat(2_000_000), named("kv"))), NOW);
    assert_eq!(in_force(&mut gateway), "kv", "space around it does not count");
    let mut long: Value = serde_json::from_str(&named("long")).unwrap();
    long["limits"][0]["plans"] = json!({ "a".repeat(1_100_000): 1 });
    gateway.reload(Some(&long.to_string()), NOW);
    assert_eq!(in_force(&mut gateway), "kv");
    assert!(gateway.reload_state().errors[0].contains("longer than 1048576 bytes"));
}

#[test]
fn a_namespace_that_fails_changes_nothing_and_is_said_once() {
    let mut gateway = gateway(&named("built"), &Bindings::default());
    gateway.reload(Some(&named("kv")), NOW);
    gateway.take_log();
    for _ in 0..1000 {
        gateway.reload_failed("deadline");
    }
    assert_eq!(in_force(&mut gateway), "kv");
    assert_eq!(events(&mut gateway), ["policy-unreadable"]);
    let state = gateway.reload_state();
    assert_eq!((state.unread, state.failing), (1000, true));
    gateway.reload(Some(&named("kv")), NOW);
    assert_eq!(events(&mut gateway), ["policy-readable"]);
    assert!(!gateway.reload_state().failing);
}

fn health(gateway: &mut Gateway) -> (u16, String) {
    match receive(gateway, "/.sluicegate/health", "192.0.2.1", NOW) {
        Step::Answer(answer) => (answer.status, answer.body),
        other => panic!("{other:?}"),
    }
}

/// What an isolate answers at this path, as `status body` or `origin tier`.
fn answers(isolate: &mut Isolate, path: &str) -> String {
    let url = format!("https://api.example.com{path}");
    let request = Request { method: "GET", url: &url, platform: &Client("192.0.2.1") };
    match isolate.step(|gateway| gateway.receive(&request, NOW, 0.5), &url) {
        Step::Answer(answer) => format!("{} {}", answer.status, answer.body),
        other => told(&other),
    }
}

#[test]
fn a_right_policy_in_the_namespace_heals_an_isolate_whose_own_is_wrong() {
    let bindings = Bindings { policy: Some(Value::String(wrong())), ..Bindings::default() };
    let mut isolate = Isolate::new(&named("built"), bindings);
    let said = |isolate: &mut Isolate| -> Vec<String> {
        isolate.take_log().iter().map(|line| event(line)).collect()
    };
    assert_eq!(said(&mut isolate), ["bad-policy"]);
    assert!(answers(&mut isolate, "/a").starts_with("500"));
    isolate.reload(None, NOW);
    isolate.reload_failed("error");
    isolate.reload(Some("[]"), NOW);
    assert_eq!(said(&mut isolate), ["policy-unreadable", "policy-readable", "bad-policy"]);
    let shown = answers(&mut isolate, "/.sluicegate/health");
    assert!(
        shown.starts_with("503") && shown.contains("limits[0].limit") && shown.contains("a list"),
        "{shown}"
    );
    isolate.reload(Some(&named("kv")), NOW);
    assert_eq!(said(&mut isolate), ["policy-reloaded", "no-store"]);
    assert_eq!(answers(&mut isolate, "/a"), "kv isolate");
    // What holds without the namespace is wrong: the last good one stays.
    isolate.reload(None, NOW);
    assert_eq!(said(&mut isolate), ["bad-policy"]);
    assert_eq!(answers(&mut isolate, "/a"), "kv isolate");
}

#[test]
fn bindings_that_cannot_be_read_are_said() {
    let mut isolate = Isolate::from_text(&named("built"), "{\"has_token\":3}");
    assert!(answers(&mut isolate, "/a").starts_with("500"));
    assert!(answers(&mut isolate, "/.sluicegate/health").contains("bindings: cannot be read"));
}

#[test]
fn a_secret_that_the_new_policy_wants_is_missed_in_the_log() {
    let mut gateway = gateway(&named("built"), &Bindings::default());
    let by_claim = limit("a", json!({ "key": ["jwt:sub"] }));
    let jwt = json!({ "jwt": { "algorithms": ["HS256"], "secret": "JWT_SECRET" } });
    gateway.reload(Some(&policy("kv", &[by_claim], jwt)), NOW);
    assert_eq!(events(&mut gateway), ["policy-reloaded", "no-jwt-secret"]);
}
