//! The fields and bodies that clients are sent, read back by a parser that knows the grammar only.

use std::collections::BTreeMap;

use sluicegate::gateway::outcome::Outcome;
use sluicegate::gateway::{Answer, Step, headers, problem};
use sluicegate::policy::HeaderDialect;

use crate::drive::each;
use crate::mutate::any_text;
use crate::outcomes;

/// Members of a structured list (RFC 9651 section 4.2.1) of strings with integer parameters, in order.
fn list(text: &str) -> Option<Vec<(String, BTreeMap<String, i64>)>> {
    let mut rest = text;
    let mut members = Vec::new();
    loop {
        rest = rest.strip_prefix('"')?;
        let (name, behind) = rest.split_once('"')?;
        let printable = name.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'\\');
        printable.then_some(())?;
        rest = behind;
        let mut parameters = BTreeMap::new();
        while let Some(parameter) = rest.strip_prefix(';') {
            let (key, behind) = parameter.split_once('=')?;
            key.bytes().all(|byte| byte.is_ascii_lowercase()).then_some(())?;
            let end = behind.find([';', ',']).unwrap_or(behind.len());
            let digits = &behind[..end];
            ((1..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()))
                .then_some(())?;
            parameters.insert(key.to_owned(), digits.parse().ok()?);
            rest = &behind[end..];
        }
        members.push((name.to_owned(), parameters));
        if rest.is_empty() {
            return Some(members);
        }
        rest = rest.strip_prefix(", ")?;
    }
}

fn value<'a>(fields: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
    let mut found = fields.iter().filter(|(known, _)| *known == name);
    let first = found.next().map(|(_, value)| value.as_str());
    assert!(found.next().is_none(), "{name} twice");
    first
}

fn number(fields: &[(&'static str, String)], name: &str) -> Option<u64> {
    value(fields, name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

#[test]
fn limit_fields() {
    let limits = outcomes::limits();
    let all = [HeaderDialect::Draft10, HeaderDialect::Draft03, HeaderDialect::XRateLimit];
    each("limit_fields", 5_000, |random| {
        let outcome = outcomes::any(random, &limits);
        let now_ms = random.magnitude();
        let fields = headers::of(&outcome, &limits, &all, true, now_ms);
        let read = |name: &str| {
            value(&fields, name).map_or(Some(Vec::new()), list).unwrap_or_else(|| panic!("{fields:?}"))
        };
        let (policies, state) = (read("RateLimit-Policy"), read("RateLimit"));
        let name = |limit: usize| limits[limit].limit.name.clone();
        let said: Vec<String> = outcome.tightest_first().iter().map(|line| name(line.limit)).collect();
        let silent = outcome.silent.iter().map(|(limit, ..)| name(*limit));
        assert_eq!(state.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), said);
        let named: Vec<String> = said.iter().cloned().chain(silent).collect();
        assert_eq!(policies.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), named);
        for (name, parameters) in &policies {
            assert!(parameters.contains_key("q") && parameters.get("w").is_none_or(|w| *w >= 1), "{name}");
        }
        let answer = problem::refusal(&outcome, &limits);
        let retry_after = number(&answer.headers, "Retry-After");
        if !outcome.allowed() {
            // Never earlier than any `t`, and none is said where no time helps.
            let latest = state.iter().filter_map(|(_, parameters)| parameters.get("t")).max();
            assert_eq!(latest.is_some(), retry_after.is_some(), "{fields:?}");
            assert!(
                latest.is_none_or(|t| *t as u64 <= retry_after.unwrap().min(999_999_999_999_999)),
                "{fields:?}"
            );
            assert_eq!(outcome.retry_after_ms.is_some(), retry_after.is_some());
            assert!(retry_after.is_none_or(|seconds| seconds >= 1));
            assert!(
                outcome.violated().any(|line| said[0] == name(line.limit)),
                "the first is one that refuses"
            );
        }
        if let Some(tightest) = outcome.tightest() {
            for prefix in ["", "X-"] {
                let of = |what: &str| number(&fields, &format!("{prefix}RateLimit-{what}"));
                assert_eq!(
                    (of("Limit"), of("Remaining")),
                    (Some(tightest.verdict.limit), Some(tightest.verdict.remaining))
                );
                assert!(of("Reset").is_some());
            }
        }
        checked(&answer, &outcome);
    });
}

/// A refusal's body is a problem document that says what the outcome does, and nothing of whom it is about.
fn checked(answer: &Answer, outcome: &Outcome) {
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["status"], answer.status);
    assert!(matches!(answer.status, 429 | 503));
    for field in ["type", "title", "detail"] {
        assert!(body[field].is_string(), "{field}");
    }
    assert_eq!(body["violated-policies"].as_array().unwrap().len(), outcome.violated().count());
    assert_eq!(body.get("retry_after").is_some(), outcome.retry_after_ms.is_some());
    assert!(!answer.body.contains("2001:db8"));
    assert_eq!(value(&answer.headers, "Cache-Control"), Some("no-store"));
    assert_eq!(value(&answer.headers, "Content-Type"), Some("application/problem+json"));
    as_text(answer);
}

/// The step's text comes apart as the entry takes it apart.
fn as_text(answer: &Answer) {
    let text = Step::Answer(answer.clone()).to_text();
    let rest = text.strip_prefix("answer\n").unwrap();
    let (status, rest) = rest.split_once('\n').unwrap();
    assert_eq!(status, answer.status.to_string());
    let (head, body) = rest.split_once("\n\n").unwrap();
    let fields: Vec<_> = head.lines().map(|line| line.split_once(": ").unwrap()).collect();
    let expected: Vec<_> = answer.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!((fields, body), (expected, answer.body.as_str()));
}

#[test]
fn problems() {
    each("problems", 10_000, |random| {
        let (title, detail) = (any_text(random, 40), any_text(random, 80));
        let status = random.between(400, 599) as u16;
        let answer = problem::plain(status, &title, &detail);
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            body,
            serde_json::json!({"type": "about:blank", "title": title, "status": status, "detail": detail})
        );
        assert!(!answer.body.contains(['\n', '\r']));
        as_text(&answer);
    });
}
