//! The body of the one request that a decision costs.

use std::rc::Rc;

use super::charge::ChargeId;
use super::key::letter;
use super::script::Script;
use crate::limit::Quota;
use crate::policy::{Algorithm, Clock, Dialect};

/// Which of a script's two forms a store takes. `Auto` has been resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Plain.
    Redis,
    /// Opens with the flag line.
    Upstash,
}

impl Form {
    /// The form that a policy's dialect means for a store at this URL.
    pub fn of(dialect: Dialect, store_url: &str) -> Self {
        match dialect {
            Dialect::Redis => Self::Redis,
            Dialect::Upstash => Self::Upstash,
            Dialect::Auto => {
                let host = crate::subject::request::split_url(store_url).host;
                let host = crate::subject::request::canonical_host(host);
                if host == "upstash.io" || host.ends_with(".upstash.io") {
                    Self::Upstash
                } else {
                    Self::Redis
                }
            }
        }
    }
}

/// How a script is named in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptCall {
    /// `EVALSHA`, by its hash.
    BySha,
    /// `EVAL`, its text with it: after NOSCRIPT, and only then.
    ByText,
}

/// One limit of a request as the script is asked about it.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Index of the limit in the policy.
    pub limit: usize,
    /// What its subject may use.
    pub quota: Quota,
    /// The script's [`arguments`] for that.
    pub arguments: Rc<str>,
    /// The subject, as keys end with it.
    pub subject: Rc<str>,
    /// Units the request asks for; 0 is a look.
    pub cost: u64,
    /// Counts and reports, never refuses.
    pub shadow: bool,
    /// How many milliseconds ahead of its moment the request may pass, of a limit that delays; as in the arguments.
    pub ahead_ms: Option<u64>,
    /// Units asked for beyond the cost, which [`permit_arguments`] say too: permits to spend later.
    pub more: u64,
}

/// What the keys of a limit begin with; the subject follows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stems<'a> {
    /// Of states.
    pub state: &'a str,
    /// Of overrides.
    pub overrides: &'a str,
}

/// A call to `check.lua`.
#[derive(Debug, Clone, Copy)]
pub struct Check<'a> {
    /// Which form of the script the store takes.
    pub form: Form,
    /// How the script is named.
    pub by: ScriptCall,
    /// Whose clock decides.
    pub clock: Clock,
    /// The caller's clock.
    pub now_ms: u64,
    /// The limits of the request.
    pub asks: &'a [Ask],
    /// The charge id with its key's stem.
    pub charge: Option<(&'a str, &'a ChargeId)>,
}

/// What the script is told of a quota, the cost excepted: JSON strings, each behind a comma. Of a concurrency limit
/// it is good for looks only; a slot is taken with [`slot_arguments`].
pub fn arguments(quota: &Quota, shadow: bool) -> String {
    match quota.algorithm {
        Algorithm::Concurrency => slot_arguments(quota, shadow, ""),
        _ => listed(quota, shadow, "", quota.ttl_ms(), itoa::Buffer::new().format(quota.burst)),
    }
}

/// The same of a token bucket that lets a request pass up to `ahead_ms` before its moment, to be held until then.
pub fn delaying_arguments(quota: &Quota, shadow: bool, ahead_ms: u64) -> String {
    // On credit it takes as much longer until nothing is used.
    let ttl_ms = quota.ttl_ms().saturating_add(ahead_ms);
    listed(quota, shadow, &format!("~{ahead_ms}"), ttl_ms, itoa::Buffer::new().format(quota.burst))
}

/// The same for a request that takes a slot of a concurrency limit: `holder` is the id it takes it under, 1 to 64 of
/// `A-Z a-z 0-9 _ -`, which no other request has.
pub fn slot_arguments(quota: &Quota, shadow: bool, holder: &str) -> String {
    listed(quota, shadow, "", quota.ttl_ms(), holder)
}

/// The same for a request that takes permits: with its cost up to `more` units more, as many as there are.
pub fn permit_arguments(quota: &Quota, shadow: bool, more: u64) -> String {
    let modifier = format!("+{more}");
    listed(quota, shadow, &modifier, quota.ttl_ms(), itoa::Buffer::new().format(quota.burst))
}

fn listed(quota: &Quota, shadow: bool, modifier: &str, ttl_ms: u64, fourth: &str) -> String {
    let letter = letter(quota.algorithm);
    let letter = if shadow { letter.to_ascii_uppercase() } else { letter };
    let Quota { limit, window_ms, .. } = quota;
    format!(",\"{letter}{modifier}\",\"{limit}\",\"{window_ms}\",\"{fourth}\",\"{ttl_ms}\"")
}

/// The command array for `check.lua`, as JSON whose elements are all strings. Names, prefixes and subjects hold
/// only characters that JSON takes as they are (`policy::text` and `subject` see to that).
pub fn check_body<'a>(script: &Script, check: Check<'_>, stems: impl Fn(&Ask) -> Stems<'a>) -> String {
    let Check { form, by, clock, now_ms, asks, charge } = check;
    let mut body = String::with_capacity(asks.len().saturating_mul(224).saturating_add(128));
    named(&mut body, script, form, by);
    let keys = asks.len().saturating_mul(2).saturating_add(usize::from(charge.is_some()));
    number(&mut body, keys as u64);
    for ask in asks {
        let stems = stems(ask);
        key(&mut body, stems.state, &ask.subject);
        key(&mut body, stems.overrides, &ask.subject);
    }
    if let Some((stem, charge)) = charge {
        key(&mut body, stem, &charge.id);
    }
    match clock {
        Clock::Edge => number(&mut body, now_ms),
        Clock::Store => body.push_str(",\"\""),
    }
    for ask in asks {
        body.push_str(&ask.arguments);
        number(&mut body, ask.cost);
    }
    if let Some((_, charge)) = charge {
        number(&mut body, charge.kept_ms);
        key(&mut body, "", &charge.fingerprint);
    }
    body.push(']');
    body
}

/// Opens a command array with the script.
pub(super) fn named(body: &mut String, script: &Script, form: Form, by: ScriptCall) {
    let (text, sha) = match form {
        Form::Redis => (script.redis, script.redis_sha),
        Form::Upstash => (script.upstash, script.upstash_sha),
    };
    match by {
        ScriptCall::BySha => {
            body.push_str("[\"EVALSHA\",\"");
            body.push_str(sha);
            body.push('"');
        }
        ScriptCall::ByText => {
            body.push_str("[\"EVAL\",");
            body.push_str(&serde_json::Value::from(text).to_string());
        }
    }
}

pub(super) fn key(body: &mut String, stem: &str, subject: &str) {
    body.push_str(",\"");
    body.push_str(stem);
    body.push_str(subject);
    body.push('"');
}

pub(super) fn number(body: &mut String, number: u64) {
    body.push_str(",\"");
    body.push_str(itoa::Buffer::new().format(number));
    body.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Algorithm;

    const SCRIPT: Script =
        Script { redis: "return \"1\"\n", redis_sha: "aa", upstash: "#!lua\nreturn 1", upstash_sha: "bb" };

    fn ask() -> Ask {
        let quota = Quota { algorithm: Algorithm::TokenBucket, limit: 50, burst: 100, window_ms: 1000 };
        let arguments = arguments(&quota, false).into();
        Ask {
            limit: 0,
            quota,
            arguments,
            subject: "1.2.3.4".into(),
            cost: 1,
            shadow: false,
            ahead_ms: None,
            more: 0,
        }
    }

    fn check(asks: &[Ask]) -> Check<'_> {
        let now_ms = 1_785_432_109_876;
        Check { form: Form::Redis, by: ScriptCall::BySha, clock: Clock::Edge, now_ms, asks, charge: None }
    }

    fn stems(_: &Ask) -> Stems<'static> {
        Stems { state: "sg:1:a:b1s:", overrides: "sg:1:a:!:" }
    }

    #[test]
    fn the_body_is_one_array_of_strings() {
        // FIELD-REPORTS B09: an object of script, keys and args is refused by the REST endpoint.
        for by in [ScriptCall::BySha, ScriptCall::ByText] {
            let body = check_body(&SCRIPT, Check { by, ..check(&[ask(), ask()]) }, stems);
            let parsed: Vec<String> = serde_json::from_str(&body).unwrap();
            assert_eq!(parsed.len(), 3 + 4 + 1 + 2 * 6);
            assert_eq!(parsed[2], "4");
            assert_eq!(
                &parsed[8..],
                "b 50 1000 100 4000 1 b 50 1000 100 4000 1".split(' ').collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn store_clock_and_shadow_show_in_the_arguments() {
        let arguments = arguments(&ask().quota, true).into();
        let shadow = Ask { shadow: true, arguments, ..ask() };
        let body = check_body(
            &SCRIPT,
            Check { form: Form::Upstash, clock: Clock::Store, ..check(&[shadow]) },
            stems,
        );
        assert!(body.starts_with("[\"EVALSHA\",\"bb\",\"2\","), "{body}");
        assert!(body.contains(",\"\",\"B\","), "{body}");
    }

    #[test]
    fn a_slot_is_asked_for_under_an_id() {
        let quota = Quota { algorithm: Algorithm::Concurrency, limit: 5, burst: 5, window_ms: 30_000 };
        assert_eq!(slot_arguments(&quota, false, "Ab_-1"), r#","c","5","30000","Ab_-1","32000""#);
        assert_eq!(arguments(&quota, true), r#","C","5","30000","","32000""#);
    }

    #[test]
    fn a_limit_that_delays_says_by_how_much_and_keeps_its_debt() {
        let quota = ask().quota;
        assert_eq!(delaying_arguments(&quota, false, 2_000), r#","b~2000","50","1000","100","6000""#);
        assert_eq!(delaying_arguments(&quota, false, 0), r#","b~0","50","1000","100","4000""#);
    }

    #[test]
    fn permits_are_asked_for_behind_the_letter() {
        let quota = ask().quota;
        assert_eq!(permit_arguments(&quota, false, 19), r#","b+19","50","1000","100","4000""#);
        assert_eq!(permit_arguments(&quota, true, 1), r#","B+1","50","1000","100","4000""#);
    }

    #[test]
    fn a_charge_id_is_one_key_and_two_arguments_more() {
        let id = ChargeId::of_key("ID", "PRINT", 5);
        let asks = [ask()];
        let body = check_body(&SCRIPT, Check { charge: Some(("sg:1::charge:", &id)), ..check(&asks) }, stems);
        let parsed: Vec<String> = serde_json::from_str(&body).unwrap();
        assert_eq!((parsed[2].as_str(), parsed[5].as_str()), ("3", "sg:1::charge:ID"));
        assert_eq!(&parsed[parsed.len() - 2..], ["60000", "PRINT"]);
    }

    #[test]
    fn the_dialect_follows_the_host() {
        for (url, form) in [
            ("https://eu1-apt-1.upstash.io", Form::Upstash),
            ("https://eu1-apt-1.UPSTASH.io.:443/", Form::Upstash),
            ("http://127.0.0.1:8079", Form::Redis),
            ("https://upstash.io.example.com", Form::Redis),
            ("https://notupstash.io", Form::Redis),
        ] {
            assert_eq!(Form::of(Dialect::Auto, url), form, "{url}");
        }
    }
}
