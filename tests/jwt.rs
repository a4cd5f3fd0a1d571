//! Tokens as the core sees them: when one is handed out to be verified, what comes of its claims, and that no text
//! whatever in either place does harm.

use std::cell::RefCell;
use std::collections::HashMap;
use std::env;

use serde_json::{Value, json};
use sluicegate::gateway::{Answer, Bindings, Gateway, Request, Step};
use sluicegate::subject::claims::{LONGEST_TOKEN, token};
use sluicegate::subject::{Claims, Platform};

#[path = "support/random.rs"]
mod random;
use random::Random;

const TOKEN: &str = "aGVhZA.Ym9keQ.c2ln";
const NOW_MS: u64 = 1_800_000_000_000;

/// Headers, and which of them were looked at.
#[derive(Default)]
struct Headers {
    values: HashMap<&'static str, String>,
    read: RefCell<Vec<String>>,
}

impl Headers {
    fn of(values: &[(&'static str, &str)]) -> Self {
        let values = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { values, ..Self::default() }
    }
}

impl Platform for Headers {
    fn header(&self, name: &str) -> Option<String> {
        self.read.borrow_mut().push(name.to_owned());
        self.values.get(name).cloned()
    }

    fn country(&self) -> Option<String> {
        None
    }

    fn asn(&self) -> Option<String> {
        None
    }
}

fn limit(name: &str, fields: &Value) -> Value {
    let mut limit = json!({"name": name, "algorithm": "fixed-window", "limit": 5, "window": "1d",
        "key": ["ip"], "on_store_error": "open"});
    for (field, value) in fields.as_object().into_iter().flatten() {
        limit[field] = value.clone();
    }
    limit
}

/// A gateway without a store: `/user` counts by `jwt:sub`, `/plan`, `/exempt` and `/repeat` use a claim otherwise, and
/// `/free` uses none.
fn gateway() -> Gateway {
    let route = |name: &str| json!({"name": name, "path": format!("/{name}"), "limits": [name]});
    let routes = ["user", "plan", "exempt", "repeat", "free"].map(route);
    let policy = json!({
        "version": 1,
        "gateway": {"origin": "http://127.0.0.1:1"},
        "jwt": {"algorithms": ["RS256", "EdDSA"], "jwks": "https://issuer.example/jwks", "audience": "api", "leeway": "5s"},
        "limits": [
            limit("user", &json!({"key": ["jwt:sub"]})),
            limit("plan", &json!({"plan": "jwt:plan", "plans": {"none": "blocked"}})),
            limit("exempt", &json!({"exempt": {"jwt:role": "staff"}, "limit": "blocked"})),
            limit("repeat", &json!({"idempotency": "jwt:jti"})),
            limit("free", &json!({})),
        ],
        "routes": routes,
    });
    Gateway::new(&policy.to_string(), &Bindings::default()).unwrap()
}

fn at<'a>(path: &'a str, headers: &'a Headers) -> Request<'a> {
    Request { method: "GET", url: path, platform: headers }
}

fn status(step: &Step) -> u16 {
    match step {
        Step::Forward(_) => 200,
        Step::Answer(Answer { status, .. }) => *status,
        other => panic!("{other:?}"),
    }
}

fn bearer(token: &str) -> Headers {
    Headers::of(&[("cf-connecting-ip", "192.0.2.1"), ("authorization", &format!("Bearer {token}"))])
}

#[test]
fn a_token_is_handed_out_wherever_a_claim_is_used_and_only_there() {
    let mut gateway = gateway();
    for path in ["user", "plan", "exempt", "repeat"] {
        let headers = bearer(TOKEN);
        let step = gateway.receive(&at(&format!("http://a/{path}"), &headers), NOW_MS, 0.5);
        assert_eq!(step, Step::Verify(TOKEN.to_owned()), "{path}");
        assert_eq!(step.to_text(), format!("verify\n{TOKEN}"));
    }
    let headers = bearer(TOKEN);
    assert_eq!(status(&gateway.receive(&at("http://a/free", &headers), NOW_MS, 0.5)), 200);
    assert!(!headers.read.borrow().iter().any(|name| name == "authorization"));
}

#[test]
fn claims_count_exempt_and_choose_the_plan() {
    let mut gateway = gateway();
    let mut with = |path: &str, payload: Option<&str>| {
        let headers = bearer(TOKEN);
        status(&gateway.receive_verified(&at(path, &headers), payload, NOW_MS, 0.5))
    };
    for _ in 0..5 {
        assert_eq!(with("http://a/user", Some(r#"{"sub":"x"}"#)), 200);
    }
    assert_eq!(with("http://a/user", Some(r#"{"sub":"x"}"#)), 429);
    assert_eq!(with("http://a/user", Some(r#"{"sub":"y"}"#)), 200);
    // Whatever is not believed has no claims, and is not asked for again.
    for payload in [None, Some(""), Some("{"), Some("{\"sub\":[\"x\"]}"), Some("{\"name\":\"x\"}")] {
        assert_eq!(with("http://a/user", payload), 400, "{payload:?}");
    }
    assert_eq!(with("http://a/plan", Some(r#"{"plan":"none"}"#)), 429);
    assert_eq!(with("http://a/plan", None), 200);
    assert_eq!(with("http://a/exempt", Some(r#"{"role":"staff"}"#)), 200);
    assert_eq!(with("http://a/exempt", Some(r#"{"role":"Staff"}"#)), 429);
    assert_eq!(with("http://a/exempt", None), 429);
}

#[test]
fn what_is_no_token_is_not_handed_out() {
    let mut gateway = gateway();
    let long = format!("a.b.{}", "c".repeat(LONGEST_TOKEN));
    for text in ["", "opaque", "a.b", "a.b.c.d", "a.b.c,d", "a b.c.d", "ä.b.c", &long] {
        let headers = bearer(text);
        assert_eq!(status(&gateway.receive(&at("http://a/user", &headers), NOW_MS, 0.5)), 400, "{text}");
    }
    let none = Headers::of(&[("cf-connecting-ip", "192.0.2.1")]);
    assert_eq!(status(&gateway.receive(&at("http://a/user", &none), NOW_MS, 0.5)), 400);
    assert_eq!(status(&gateway.receive(&at("http://a/plan", &none), NOW_MS, 0.5)), 200);
}

#[test]
fn the_decision_api_trusts_a_claim_and_verifies_a_described_token() {
    let mut gateway = gateway();
    let remaining = |step: &Step| match step {
        Step::Answer(answer) => {
            serde_json::from_str::<Value>(&answer.body).unwrap()["limits"][0]["remaining"].clone()
        }
        other => panic!("{other:?}"),
    };
    let by_subject = json!({"limits": ["user"], "subject": {"jwt:sub": "x"}}).to_string();
    assert_eq!(remaining(&gateway.check(Some(&by_subject), NOW_MS, 0.5)), 4);
    let described =
        json!({"url": "http://a/user", "headers": {"Authorization": format!("Bearer {TOKEN}")}}).to_string();
    assert_eq!(gateway.check(Some(&described), NOW_MS, 0.5), Step::Verify(TOKEN.to_owned()));
    assert_eq!(
        remaining(&gateway.check_verified(&described, Some(r#"{"sub":"x"}"#), NOW_MS, 0.5)),
        3,
        "the same subject"
    );
    assert_eq!(status(&gateway.check_verified(&described, None, NOW_MS, 0.5)), 400);
}

#[test]
fn the_rules_are_the_policys() {
    let rules: Value = serde_json::from_str(&gateway().token_rules().unwrap()).unwrap();
    assert_eq!(
        rules,
        json!({"algorithms": ["RS256", "EdDSA"], "jwks": "https://issuer.example/jwks", "secret": null,
            "issuer": [], "audience": ["api"], "leeway_ms": 5_000})
    );
    let plain = json!({"version": 1, "gateway": {"origin": "http://127.0.0.1:1"}}).to_string();
    assert_eq!(Gateway::new(&plain, &Bindings::default()).unwrap().token_rules(), None);
}

/// A whole number from the environment.
fn setting(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a whole number")))
}

/// A run for each seed: `SLUICEGATE_SEEDS` of them or else `usual`; `SLUICEGATE_SEED` alone where that is set.
fn each(usual: u64, run: impl Fn(&mut Random)) {
    let seeds = match setting("SLUICEGATE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("SLUICEGATE_SEEDS").unwrap_or(usual),
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&mut Random::new(seed))));
        assert!(outcome.is_ok(), "seed {seed} failed; again: SLUICEGATE_SEED={seed} cargo test --test jwt");
    }
}

fn text(random: &mut Random) -> String {
    const CHARS: [char; 16] =
        ['a', 's', 'u', 'b', '.', ':', '/', ' ', '"', '\\', '\n', '\0', 'ä', '\u{2028}', '\u{1f600}', '{'];
    (0..random.between(0, 6)).map(|_| CHARS[random.between(0, 15) as usize]).collect()
}

fn value(random: &mut Random, depth: u64) -> Value {
    match random.between(0, if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => Value::Bool(random.next().is_multiple_of(2)),
        2 => Value::from(random.next()),
        3 => Value::from(random.next() as i64),
        4 => Value::from(f64::from_bits(random.next())),
        5 => Value::from(random.between(0, 100) as f64 / 4.0),
        6 => Value::from(text(random)),
        7 => (0..random.between(0, 3)).map(|_| value(random, depth - 1)).collect(),
        _ => (0..random.between(0, 3)).map(|_| (text(random), value(random, depth - 1))).collect(),
    }
}

/// What a claim is worth, said another way than the code says it.
fn worth(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        Value::Number(number) => {
            number.as_f64().filter(|n| n.abs() < 2_f64.powi(53)).map(|_| number.to_string())
        }
        _ => None,
    }
}

#[test]
fn random_claims_are_worth_what_they_say() {
    each(5_000, |random| {
        let payload: Value = (0..random.between(0, 8)).map(|_| (text(random), value(random, 3))).collect();
        let claims = Claims::read(&payload.to_string());
        for (name, value) in payload.as_object().unwrap() {
            assert_eq!(
                claims.value(name).map(|text| text.into_owned()),
                worth(value),
                "{name:?} of {payload}"
            );
        }
        assert_eq!(claims.value("not there"), None);
    });
}

#[test]
fn random_bytes_do_no_harm() {
    let gateway = RefCell::new(gateway());
    each(5_000, |random| {
        // A payload with some of its bytes changed, or bytes that were never one.
        let mut bytes = match random.between(0, 2) {
            0 => (0..random.between(0, 64)).map(|_| random.next() as u8).collect(),
            1 => "[{\"".repeat(random.between(0, 300) as usize).into_bytes(),
            _ => json!({"sub": value(random, 3), "x": value(random, 3)}).to_string().into_bytes(),
        };
        for _ in 0..random.between(0, 4) {
            let last = bytes.len().saturating_sub(1) as u64;
            if let Some(byte) = bytes.get_mut(random.between(0, last) as usize) {
                *byte = random.next() as u8;
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let claims = Claims::read(&text);
        for name in ["sub", "x", ""] {
            let _ = claims.value(name);
        }
        if let Some(found) = token("x-token", &text).or_else(|| token("authorization", &text)) {
            assert!(text.contains(found) && found.is_ascii() && found.matches('.').count() == 2);
        }
        // And through the whole walk.
        let headers = bearer(&text);
        let step =
            gateway.borrow_mut().receive_verified(&at("http://a/user", &headers), Some(&text), NOW_MS, 0.5);
        assert!(matches!(status(&step), 200 | 400 | 429));
    });
}
