//! What came back: verdicts, or an error in one of a few classes. Body first, then status.

use serde::Deserialize;
use serde_json::Value;

use super::call::Ask;
use super::error::{Class, StoreError};
use super::settlement;
use crate::limit::{Verdict, Wait};
use crate::policy::{Algorithm, bounds};

/// Most characters of a body that are looked at; a check's reply is far shorter.
const LONGEST: usize = 65_536;

/// The whole reply to another request under a charge id.
const CONFLICT: i64 = 2;

/// Integers a limit takes in the reply.
const PER_LIMIT: usize = 4;

/// What a clock says, in milliseconds since the Unix epoch; fences are greater.
const CLOCKS: std::ops::Range<i64> = 1_735_689_600_000..1_000_000_000_000_000;

/// What the store said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A decision.
    Decided(Answered),
    /// Another request was charged under the same charge id.
    Conflict,
    /// What a settlement came to.
    Settled(settlement::Said),
    /// What a plain command came to.
    Value(Value),
}

/// A decision of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Whether the request passes.
    pub allowed: bool,
    /// One verdict for each limit asked about, in that order.
    pub verdicts: Vec<Verdict>,
    /// For each concurrency limit among them, in that order, the fence of the slot that was taken; 0 where none was.
    pub fences: Vec<u64>,
    /// For each limit that delays, in that order, milliseconds to hold the request; 0 where it is refused.
    pub holds: Vec<u64>,
    /// For each that permits were asked of, in that order, how many units were charged beyond the cost.
    pub permits: Vec<u64>,
    /// The clock that decided, where the request has a charge id: that of the first of its repeats.
    pub clock_ms: Option<u64>,
}

/// The REST envelope. Serde refuses repeated fields.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<String>,
}

/// Reads a reply to `check.lua`.
pub fn read(status: u16, body: &str, asks: &[Ask]) -> Result<Said, StoreError> {
    match integers(status, body)?.as_slice() {
        [CONFLICT] => Ok(Said::Conflict),
        numbers => verdicts(numbers, asks)
            .map(Said::Decided)
            .ok_or_else(|| StoreError::new(Class::Malformed, "reply of another shape")),
    }
}

/// Reads a reply to a plain command; `null` counts as none.
pub fn read_value(status: u16, body: &str) -> Result<Value, StoreError> {
    value(status, body, LONGEST)
}

/// What a reply holds, if it is at most so many characters long.
pub(super) fn value(status: u16, body: &str, longest: usize) -> Result<Value, StoreError> {
    if body.len() > longest {
        return Err(StoreError::new(Class::Malformed, "reply too long"));
    }
    // Serde would take a list for its fields in their order.
    let is_list = body.trim_ascii_start().starts_with('[');
    match serde_json::from_str(body) {
        _ if is_list => Err(StoreError::of_text(body, status)),
        Ok(Envelope { error: Some(text), .. }) => Err(StoreError::of_text(&text, status)),
        Ok(Envelope { result: Some(value), .. }) if status < 300 => Ok(value),
        _ => Err(StoreError::of_text(body, status)),
    }
}

fn integers(status: u16, body: &str) -> Result<Vec<i64>, StoreError> {
    let usual = if status < 300 && body.len() <= LONGEST { plain(body) } else { None };
    if let Some(numbers) = usual {
        return Ok(numbers);
    }
    let value = read_value(status, body)?;
    // An integer written as a float is none.
    let numbers = value.as_array().and_then(|items| items.iter().map(Value::as_i64).collect());
    numbers.ok_or_else(|| StoreError::of_text(body, status))
}

/// The integers of a reply in the form that stores write it in, without a parser for all that JSON can be.
fn plain(body: &str) -> Option<Vec<i64>> {
    let list = body.strip_prefix("{\"result\":[")?.strip_suffix("]}")?;
    list.split(',').map(whole).collect()
}

/// An integer as JSON has it: no sign but a minus, no zero in front.
fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_one =
        digits.bytes().all(|digit| digit.is_ascii_digit()) && (text == "0" || !digits.starts_with('0'));
    text.parse().ok().filter(|_| is_one)
}

/// Takes the integers apart; `None` unless they are what the script can have said of these limits.
fn verdicts(numbers: &[i64], asks: &[Ask]) -> Option<Answered> {
    let (allowed, rest) = numbers.split_first()?;
    let (rest, behind) = rest.split_at_checked(asks.len().checked_mul(PER_LIMIT)?)?;
    if !matches!(allowed, 0 | 1) {
        return None;
    }
    let mut verdicts = Vec::with_capacity(asks.len());
    let mut refused = false;
    for (numbers, ask) in rest.chunks_exact(PER_LIMIT).zip(asks) {
        let &[limit, remaining, reset, wait] = numbers else {
            return None;
        };
        let wait = match wait {
            0 => Wait::None,
            -1 => Wait::Never,
            ms => Wait::Ms(u64::try_from(ms).ok()?),
        };
        refused |= wait != Wait::None && !ask.shadow;
        verdicts.push(Verdict {
            limit: u64::try_from(limit).ok()?,
            remaining: u64::try_from(remaining).ok()?,
            reset_ms: u64::try_from(reset).ok()?,
            wait,
        });
    }
    // The head says no more than the limits do.
    if refused != (*allowed == 0) {
        return None;
    }
    self::behind(behind, asks, verdicts, *allowed == 1)
}

/// The decision with what stands behind the limits, in their order: a fence for each slot that must have been taken and no
/// other, how long to hold the request, which no limit may want for longer than any policy can say, and no more permits
/// than were asked for with what was charged. Last may come the clock that decided.
fn behind(numbers: &[i64], asks: &[Ask], verdicts: Vec<Verdict>, allowed: bool) -> Option<Answered> {
    let mut numbers = numbers.iter();
    let (mut fences, mut holds, mut permits) = (Vec::new(), Vec::new(), Vec::new());
    for (ask, verdict) in asks.iter().zip(&verdicts) {
        let passes = allowed && verdict.allowed();
        let taken = passes && ask.cost > 0;
        if ask.quota.algorithm == Algorithm::Concurrency {
            let fence = u64::try_from(*numbers.next()?).ok()?;
            fences.push(Some(fence).filter(|fence| (*fence > 0) == taken)?);
        } else if ask.ahead_ms.is_some() {
            let hold_ms = u64::try_from(*numbers.next()?).ok()?;
            let most_ms = if passes { bounds::DELAY_MS.1 } else { 0 };
            holds.push(Some(hold_ms).filter(|ms| *ms <= most_ms)?);
        } else if ask.more > 0 {
            let granted = u64::try_from(*numbers.next()?).ok()?;
            let most = if taken { ask.more } else { 0 };
            permits.push(Some(granted).filter(|granted| *granted <= most)?);
        }
    }
    let clock_ms = match numbers.as_slice() {
        [] => None,
        [clock] if allowed && CLOCKS.contains(clock) => Some(u64::try_from(*clock).ok()?),
        _ => return None,
    };
    Some(Answered { allowed, verdicts, fences, holds, permits, clock_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Quota;

    fn ask(shadow: bool) -> Ask {
        let quota = Quota { algorithm: Algorithm::FixedWindow, limit: 5, burst: 5, window_ms: 1000 };
        Ask {
            limit: 0,
            quota,
            arguments: "".into(),
            subject: "".into(),
            cost: 1,
            shadow,
            ahead_ms: None,
            more: 0,
        }
    }

    fn decided(body: &str, asks: &[Ask]) -> Answered {
        match read(200, body, asks).unwrap() {
            Said::Decided(answered) => answered,
            other => panic!("{other:?} is no decision"),
        }
    }

    fn class(status: u16, body: &str) -> Class {
        read(status, body, &[ask(false)]).unwrap_err().class
    }

    #[test]
    fn a_decision_is_read() {
        let answered = decided(r#"{"result":[0,5,0,700,700]}"#, &[ask(false)]);
        assert!(!answered.allowed);
        assert_eq!(
            answered.verdicts,
            [Verdict { limit: 5, remaining: 0, reset_ms: 700, wait: Wait::Ms(700) }]
        );
        assert!(decided(r#"{"result":[1,5,0,700,700]}"#, &[ask(true)]).allowed);
        // What else a reply holds is not looked at, were it a number that no float can hold.
        assert!(decided(r#"{"result":[1,5,4,1000,0],"x":1e999}"#, &[ask(false)]).allowed);
    }

    #[test]
    fn a_reply_is_json_of_a_bounded_length_and_a_good_status() {
        let body = r#"{"result":[1,5,4,1000,0]}"#;
        for (status, good) in [(200, true), (299, true), (300, false)] {
            assert_eq!(read(status, body, &[ask(false)]).is_ok(), good, "{status}");
        }
        let padded = |length: usize| body.to_owned() + &" ".repeat(length - body.len());
        assert!(read(200, &padded(LONGEST), &[ask(false)]).is_ok());
        assert_eq!(read(200, &padded(LONGEST + 1), &[ask(false)]).unwrap_err().sign, "reply too long");
        for number in ["01", "-01", "+1", "1.0", "", "-"] {
            assert!(
                read(200, &body.replace("[1,", &format!("[{number},")), &[ask(false)]).is_err(),
                "{number}"
            );
        }
    }

    #[test]
    fn fences_follow_the_limits() {
        let slot = |shadow, cost| {
            let asked = ask(shadow);
            Ask { quota: Quota { algorithm: Algorithm::Concurrency, ..asked.quota }, cost, ..asked }
        };
        let asks = [slot(false, 1), ask(false), slot(true, 1), slot(false, 0)];
        let limits = "5,4,900,0, 5,4,1000,0, 5,0,700,700, 5,5,0,0";
        let with = |head: u8, rest: &str| format!(r#"{{"result":[{head},{limits}{rest}]}}"#);
        assert_eq!(decided(&with(1, ",77,0,0"), &asks).fences, [77, 0, 0]);
        for wrong in ["", ",77", ",77,0", ",77,0,0,0", ",0,0,0", ",77,78,0", ",77,0,79", ",-77,0,0"] {
            assert_eq!(read(200, &with(1, wrong), &asks).unwrap_err().class, Class::Malformed, "{wrong}");
        }
        assert_eq!(decided(r#"{"result":[0,5,0,700,700,0]}"#, &[slot(false, 1)]).fences, [0]);
        assert_eq!(decided(r#"{"result":[1,5,4,1000,0]}"#, &[ask(false)]).fences, [0; 0]);
    }

    #[test]
    fn holds_follow_the_limits_among_the_fences() {
        let slots = Quota { algorithm: Algorithm::Concurrency, ..ask(false).quota };
        let delaying = Ask { ahead_ms: Some(2_000), ..ask(false) };
        let asks = [delaying.clone(), ask(false), Ask { quota: slots, ..ask(false) }, delaying.clone()];
        let limits = "5,0,900,0, 5,4,1000,0, 5,4,900,0, 5,0,700,0";
        let with = |rest: &str| format!(r#"{{"result":[1,{limits}{rest}]}}"#);
        let answered = decided(&with(",350,77,0"), &asks);
        assert_eq!((answered.fences, answered.holds), (vec![77], vec![350, 0]));
        for wrong in ["", ",350,77", ",350,77,0,0", ",-1,77,0", ",60001,77,0", ",350,0,77"] {
            assert_eq!(read(200, &with(wrong), &asks).unwrap_err().class, Class::Malformed, "{wrong}");
        }
        let refused = |hold| format!(r#"{{"result":[0,5,0,700,700,{hold}]}}"#);
        assert_eq!(decided(&refused(0), std::slice::from_ref(&delaying)).holds, [0]);
        assert_eq!(read(200, &refused(1), &[delaying]).unwrap_err().class, Class::Malformed);
    }

    #[test]
    fn permits_follow_the_limits_that_lend() {
        let slot =
            Ask { quota: Quota { algorithm: Algorithm::Concurrency, ..ask(false).quota }, ..ask(false) };
        let asks = [Ask { more: 4, ..ask(false) }, slot, ask(false), Ask { more: 2, ..ask(true) }];
        let limits = "5,0,1000,0, 5,4,900,0, 5,4,1000,0, 5,0,700,700";
        let with = |rest: &str| format!(r#"{{"result":[1,{limits}{rest}]}}"#);
        let answered = decided(&with(",3,77,0"), &asks);
        assert_eq!((answered.fences, answered.permits), (vec![77], vec![3, 0]));
        for wrong in ["", ",3,77", ",5,77,0", ",3,77,1", ",-1,77,0", ",77,3,0", ",3,77,0,0"] {
            assert_eq!(read(200, &with(wrong), &asks).unwrap_err().class, Class::Malformed, "{wrong}");
        }
        let refused = [Ask { more: 4, ..ask(false) }];
        assert_eq!(decided(r#"{"result":[0,5,0,700,700,0]}"#, &refused).permits, [0]);
        for wrong in ["0,5,0,700,700", "0,5,0,700,700,1"] {
            let body = format!(r#"{{"result":[{wrong}]}}"#);
            assert_eq!(read(200, &body, &refused).unwrap_err().class, Class::Malformed, "{wrong}");
        }
    }

    #[test]
    fn the_clock_of_a_charge_id_comes_last() {
        let one = decided(r#"{"result":[1,5,4,1000,0,1785432000000]}"#, &[ask(false)]);
        assert_eq!(one.clock_ms, Some(1_785_432_000_000));
        assert_eq!(decided(r#"{"result":[1,5,4,1000,0]}"#, &[ask(false)]).clock_ms, None);
        for wrong in ["0,5,0,700,700,1785432000000", "1,5,4,1000,0,1", "1,5,4,1000,0,1785432000000,1"] {
            assert_eq!(class(200, &format!(r#"{{"result":[{wrong}]}}"#)), Class::Malformed, "{wrong}");
        }
    }

    #[test]
    fn any_other_shape_is_malformed() {
        for body in [
            "",
            "{",
            "null",
            "[]",
            "[[1,5,4,1000,0]]",
            r#" [[1,5,4,1000,0],null]"#,
            r#"{"result":null}"#,
            r#"{"result":"OK"}"#,
            r#"{"result":[]}"#,
            r#"{"result":[1]}"#,
            r#"{"result":[1,5,4,1000]}"#,
            r#"{"result":[+1,5,4,1000,0]}"#,
            r#"{"result":[01,5,4,1000,0]}"#,
            r#"{"result":[1,5,4,1000,-0]}"#,
            r#"{"result":[1,5,4,1000,9223372036854775808]}"#,
            r#"{"result":[1,5,4,1000,0,0]}"#,
            r#"{"result":[1.0,5.0,4.0,1000.0,0.0]}"#,
            r#"{"result":[1,5,-4,1000,0]}"#,
            r#"{"result":[1,5,4,1000,-2]}"#,
            r#"{"result":[2,5,4,1000,0]}"#,
            r#"{"result":[1,5,4,1000,500]}"#,
            r#"{"result":[0,5,4,1000,0]}"#,
            r#"{"result":[1,5,4,1000,99999999999999999999]}"#,
            r#"{"result":[1,5,4,1000,0],"result":[1,5,4,1000,0]}"#,
            "<html><body>502 Bad Gateway</body></html>",
        ] {
            assert_eq!(class(200, body), Class::Malformed, "{body}");
        }
        assert_eq!(class(200, &"x".repeat(2_000_000)), Class::Malformed);
        assert_eq!(class(302, r#"{"result":[1,5,4,1000,0]}"#), Class::Malformed);
    }

    #[test]
    fn errors_are_told_by_their_text_first() {
        let noscript = r#"{"error":"NOSCRIPT No matching script. Please use EVAL."}"#;
        for status in [200, 400, 500] {
            assert_eq!(class(status, noscript), Class::NoScript);
        }
        assert_eq!(class(500, "oops"), Class::Malformed);
        assert_eq!(class(401, "Unauthorized"), Class::Misconfigured);
    }
}
