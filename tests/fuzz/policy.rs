//! Policy documents: read, or refused with places and cures; TOML and JSON of one policy are one policy.

use serde_json::Value;
use sluicegate::policy::document::{read_json, read_toml, toml_to_json};
use sluicegate::policy::validate::KNOWN;
use sluicegate::policy::{Policy, PolicyError};

use crate::drive::{Random, each};
use crate::json::changed;
use crate::mutate::Corpus;

const GOOD: [&str; 4] = [
    include_str!("../policies/good/everything.toml"),
    include_str!("../policies/good/contract.toml"),
    include_str!("../policies/good/edges.toml"),
    include_str!("../../policy.toml"),
];

const WORDS: &[&str] = &[
    "ip",
    "global",
    "header:x",
    "jwt:sub",
    "param:id",
    "unlimited",
    "blocked",
    "1s",
    "400d",
    "100ms",
    "0ms",
    "*",
    "/",
    "/{id}",
    "{*rest}",
    "binding:X",
    "http://a",
    "https://a:443",
    "deny",
    "share",
    "degraded",
    "fixed-window",
    "token-bucket",
    "sliding-log",
    "a",
    "10.0.0.0/8",
];

fn words() -> Vec<&'static str> {
    KNOWN.iter().flat_map(|(_, fields)| fields.iter().copied()).chain(WORDS.iter().copied()).collect()
}

/// What must hold of a reading; `lines` are those of the text, where it has any to name.
fn checked(read: &Result<Policy, Vec<PolicyError>>, lines: Option<usize>, text: &str) {
    match read {
        Ok(policy) => {
            assert_eq!(policy.digest.len(), 16);
            for limit in &policy.limits {
                assert!(!limit.key.is_empty() && !limit.name.is_empty(), "{text}");
            }
            for route in policy.router.routes() {
                assert!(route.limits.iter().all(|limit| *limit < policy.limits.len()), "{text}");
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "{text}");
            for error in errors {
                assert!(!error.problem.is_empty() && !error.cure.is_empty(), "{error:?}\n{text}");
                // The whole document is the one place that has no name.
                let whole = error.problem.starts_with("found ") || error.problem.starts_with("not JSON");
                assert!(error.line.is_some() || !error.place.is_empty() || whole, "{error:?}\n{text}");
                if let Some(lines) = lines {
                    let line = error.line.unwrap_or_else(|| panic!("{error:?}\n{text}")) as usize;
                    assert!((1..=lines + 1).contains(&line), "{error:?}\n{text}");
                }
            }
        }
    }
}

#[test]
fn json_policies() {
    let good: Vec<Value> =
        GOOD.iter().map(|text| serde_json::from_str(&toml_to_json(text).unwrap()).unwrap()).collect();
    let words = words();
    each("json_policies", 1_500, |random| {
        let document = changed(good[random.below(good.len())].clone(), &words, 4, random);
        let text = document.to_string();
        let read = read_json(&text);
        checked(&read, None, &text);
        // The order of fields means nothing.
        let pretty = serde_json::to_string_pretty(&document).unwrap();
        let (a, b) = (read.map(|policy| policy.digest), read_json(&pretty).map(|policy| policy.digest));
        assert_eq!(a, b, "{text}");
    });
}

#[test]
fn json_texts() {
    let good: Vec<&'static str> = GOOD
        .iter()
        .map(|text| &*toml_to_json(text).unwrap().leak())
        .chain(["{}", "[]", "null", ""])
        .collect();
    let corpus = Corpus::of(
        good,
        &["{", "}", "[", "]", ":", ",", "\"", "null", "1e999", "-", "\\u0000", "9223372036854775808"],
    );
    each("json_texts", 1_500, |random| {
        let text = corpus.text(random);
        checked(&read_json(&text), None, &text);
    });
}

#[test]
fn toml_texts() {
    let tokens = &[
        "[",
        "]",
        "[[limits]]",
        "[[routes]]\n",
        "=",
        "\"",
        "'",
        "\"\"\"",
        "{",
        "}",
        "\n",
        "#",
        ".",
        "1979-05-27",
        "inf",
        "0x10",
        "true",
    ];
    let corpus = Corpus::of(GOOD.to_vec(), tokens);
    each("toml_texts", 1_500, |random: &mut Random| {
        let text = corpus.text(random);
        let read = read_toml(&text);
        checked(&read, Some(text.lines().count()), &text);
        if let Ok(policy) = read {
            let json = toml_to_json(&text).unwrap();
            let again = read_json(&json).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
            assert_eq!(
                (&again.digest, &again.gateway, &again.store),
                (&policy.digest, &policy.gateway, &policy.store)
            );
        }
    });
}
