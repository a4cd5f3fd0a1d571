//! The call to `settle.lua`, and what it says: what a charge really cost, in place of what was reserved.

use std::rc::Rc;

use super::call::{Form, ScriptCall, Stems, key, named, number};
use super::key::letter;
use super::reply;
use super::script::Script;
use super::{Class, StoreError};
use crate::limit::Quota;
use crate::limit::settlement::Reservation;
use crate::policy::Clock;

/// One limit of a charge.
#[derive(Debug, Clone)]
pub struct Part {
    /// Index of the limit in the policy.
    pub limit: usize,
    /// What its subject may use.
    pub quota: Quota,
    /// The subject, as keys end with it.
    pub subject: Rc<str>,
    /// What was reserved.
    pub reservation: Reservation,
    /// Units that it really was.
    pub cost: u64,
}

/// A call to `settle.lua`.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Which form of the script the store takes.
    pub form: Form,
    /// How the script is named.
    pub by: ScriptCall,
    /// Whose clock decides.
    pub clock: Clock,
    /// The caller's clock.
    pub now_ms: u64,
    /// The limits.
    pub parts: &'a [Part],
    /// Beginning of every settlement's key, and the charge's id.
    pub id: (&'a str, &'a str),
    /// When the reservation was made, by the clock that decided it.
    pub since_ms: u64,
    /// How long the settlement is kept, in milliseconds.
    pub kept_ms: u64,
}

/// What the script says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Whether this call is the one that settled.
    pub first: bool,
    /// For each limit, whole units charged (below 0: given back) and whole units left then.
    pub parts: Vec<(i64, u64)>,
}

/// The command array, as JSON whose elements are all strings.
pub fn body<'a>(script: &Script, call: &Call<'_>, stems: &dyn Fn(&Part) -> Stems<'a>) -> String {
    let Call { form, by, clock, now_ms, parts, id, since_ms, kept_ms } = *call;
    let mut body = String::with_capacity(parts.len().saturating_mul(256).saturating_add(192));
    named(&mut body, script, form, by);
    number(&mut body, parts.len().saturating_mul(2).saturating_add(1) as u64);
    for part in parts {
        let stems = stems(part);
        key(&mut body, stems.state, &part.subject);
        key(&mut body, stems.overrides, &part.subject);
    }
    key(&mut body, id.0, id.1);
    match clock {
        Clock::Edge => number(&mut body, now_ms),
        Clock::Store => key(&mut body, "", ""),
    }
    number(&mut body, since_ms);
    number(&mut body, kept_ms);
    for Part { quota, reservation, cost, .. } in parts {
        key(&mut body, "", letter(quota.algorithm).encode_utf8(&mut [0; 4]));
        let over_ms = since_ms.saturating_add(reservation.reset_ms);
        let Reservation { units, rate, .. } = *reservation;
        let numbers = [quota.limit, quota.window_ms, quota.burst, units, *cost, over_ms, rate];
        for value in numbers {
            number(&mut body, value);
        }
    }
    body.push(']');
    body
}

/// Reads a reply about so many limits.
///
/// # Errors
/// The store failed, or said something of another shape.
pub fn read(status: u16, body: &str, limits: usize) -> Result<Said, StoreError> {
    let value = reply::read_value(status, body)?;
    said(&value, limits).ok_or_else(|| StoreError::new(Class::Malformed, "reply of another shape"))
}

fn said(value: &serde_json::Value, limits: usize) -> Option<Said> {
    let (first, mut rest) = value.as_array()?.split_first()?;
    let first = first.as_u64().filter(|first| *first <= 1)? == 1;
    let mut parts = Vec::new();
    while let [units, left, more @ ..] = rest {
        parts.push((units.as_i64()?, left.as_u64()?));
        rest = more;
    }
    (rest.is_empty() && parts.len() == limits).then_some(Said { first, parts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Algorithm;

    const SCRIPT: Script =
        Script { redis: "return 1", redis_sha: "aa", upstash: "return 2", upstash_sha: "bb" };

    #[test]
    fn the_body_is_one_array_of_strings() {
        let quota = Quota { algorithm: Algorithm::TokenBucket, limit: 50, burst: 100, window_ms: 1_000 };
        let reservation = Reservation { units: 10, since_ms: 500, reset_ms: 200, rate: 60 };
        let part = Part { limit: 0, quota, subject: "x".into(), reservation, cost: 7 };
        for (clock, now) in [(Clock::Edge, "900"), (Clock::Store, "")] {
            let parts = [part.clone(), part.clone()];
            let (form, by) = (Form::Redis, ScriptCall::BySha);
            let (now_ms, since_ms, kept_ms) = (900, 500, 60_000);
            let call = Call { form, by, clock, now_ms, parts: &parts, id: ("i:", "ID"), since_ms, kept_ms };
            let body = body(&SCRIPT, &call, &|_| Stems { state: "s:", overrides: "o:" });
            let parsed: Vec<String> = serde_json::from_str(&body).unwrap();
            let one = ["b", "50", "1000", "100", "10", "7", "700", "60"];
            let head = ["EVALSHA", "aa", "5", "s:x", "o:x", "s:x", "o:x", "i:ID", now, "500", "60000"];
            assert_eq!(parsed, [&head[..], &one, &one].concat());
        }
    }

    #[test]
    fn a_reply_is_two_numbers_a_limit() {
        let said = read(200, r#"{"result":[1,-20,5,7,0]}"#, 2).unwrap();
        assert_eq!(said, Said { first: true, parts: vec![(-20, 5), (7, 0)] });
        assert!(!read(200, r#"{"result":[0,3,4]}"#, 1).unwrap().first);
        for wrong in
            ["[]", "[1]", "[1,2]", "[1,2,3,4]", "[2,3,4]", "[1,3,-4]", "[1,3,4,5,6]", "[1,3,4.5]", "1"]
        {
            let error = read(200, &format!(r#"{{"result":{wrong}}}"#), 1).unwrap_err();
            assert_eq!(error.class, Class::Malformed, "{wrong}");
        }
    }
}
