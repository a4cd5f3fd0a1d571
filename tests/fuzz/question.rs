//! Questions to the decision API: a call to the store, a decision, or a problem of the asker's.

use serde_json::{Value, json};
use sluicegate::gateway::{Bindings, Gateway, Step};

use crate::drive::each;
use crate::json::changed;
use crate::mutate::Corpus;

const WORDS: &[&str] = &[
    "limits",
    "subject",
    "cost",
    "method",
    "url",
    "headers",
    "a",
    "b",
    "c",
    "ip",
    "header:x-tenant",
    "query:q",
    "cookie:c",
    "param:id",
    "path",
    "192.0.2.1",
    "2001:db8::1",
    "2a06:98c0:3600::103%a.test",
    "s3cret",
    "http://a/v1/s3cret",
    "x-tenant",
    "x-cost",
    "GET",
    "1",
];

const POLICY: &str = r#"{"version":1,"gateway":{"origin":"http://a"},"limits":[
    {"name":"a","algorithm":"token-bucket","limit":9,"window":"1s","key":["ip"],"on_store_error":"open"},
    {"name":"b","algorithm":"sliding-log","limit":9,"window":"1s","key":["header:x-tenant","path"],"on_store_error":"closed",
     "cost":{"header":"x-cost","max":5},"plan":"header:x-plan","plans":{"none":"blocked","all":"unlimited"}},
    {"name":"c","algorithm":"fixed-window","limit":9,"window":"1s","key":["query:q","cookie:c"],"on_missing_key":"share",
     "on_store_error":"degraded","exempt":{"ip":["10.0.0.0/8"],"header:x-exempt":"yes"},"idempotency":"header:idempotency-key"}],
    "routes":[{"name":"r","path":"/v1/{id}","limits":["a","b","c"]}]}"#;

fn gateway() -> Gateway {
    let bindings =
        Bindings { store_url: Some("http://store".to_owned()), has_token: true, ..Bindings::default() };
    Gateway::new(POLICY, &bindings).unwrap()
}

/// Of a step: either a question to the store that quotes no value of the asker's but addresses, or an answer.
fn checked(step: &Step, question: &str) {
    match step {
        Step::Ask(call) => {
            let command: Vec<String> = serde_json::from_str(&call.body).unwrap();
            let keys: usize = command[2].parse().unwrap();
            assert!(keys >= 2, "{command:?}");
            assert!(!call.body.contains("s3cret"), "{question}: {}", call.body);
            for key in &command[3..3 + keys] {
                let mut segments = key.splitn(5, ':');
                assert_eq!((segments.next(), segments.next()), (Some("sg"), Some("1")), "{key}");
                let subject = segments.nth(2).unwrap_or_else(|| panic!("{key}"));
                let digest = subject.len() == 20
                    && subject.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
                let address =
                    subject.split(['/', '%']).next().unwrap_or_default().parse::<std::net::IpAddr>().is_ok();
                assert!(digest || address || subject == "-", "{question}: {key}");
            }
        }
        Step::Answer(answer) => {
            let body: Value = serde_json::from_str(&answer.body).unwrap();
            match answer.status {
                200 => assert!(body["allowed"].is_boolean(), "{question}: {body}"),
                status => {
                    assert!((400..500).contains(&status), "{question}: {body}");
                    assert_eq!(body["status"], status);
                }
            }
        }
        other => panic!("{question}: {other:?}"),
    }
}

#[test]
fn questions() {
    let real = [
        json!({"limits": ["a"], "subject": {"ip": "192.0.2.1"}}),
        json!({"limits": ["a", "b"], "subject": {"ip": "::1", "header:x-tenant": "s3cret", "path": "/x"}, "cost": 2}),
        json!({"limits": ["c"], "subject": {}}),
        json!({"method": "POST", "url": "http://a/v1/s3cret?q=s3cret", "headers": {"CF-Connecting-IP": "192.0.2.1", "x-tenant": "s3cret"}}),
        json!({"url": "http://a/v1/x", "headers": {"cf-connecting-ip": "10.0.0.1", "x-tenant": "t", "cookie": "c=s3cret", "x-plan": "none"}}),
    ];
    each("questions", 2_500, |random| {
        let question = changed(real[random.below(real.len())].clone(), WORDS, 3, random).to_string();
        let step = gateway().check(Some(&question), random.next() >> 20, 0.5);
        checked(&step, &question);
    });
}

#[test]
fn question_texts() {
    let inputs = vec![
        r#"{"limits":["a"],"subject":{"ip":"192.0.2.1"},"cost":1}"#,
        r#"{"url":"http://a/v1/x","headers":{}}"#,
        "",
        "[]",
    ];
    let corpus = Corpus::of(
        inputs,
        &["{", "}", "[", "]", ",", ":", "\"", "1.5", "1e2", "-1", "null", "\"limits\":", "\\ud800"],
    );
    each("question_texts", 2_500, |random| {
        let question = corpus.text(random);
        checked(&gateway().check(Some(&question), 1, 0.5), &question);
    });
}
