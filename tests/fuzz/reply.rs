//! The store's reply: verdicts of the right number and kind, or an error of a known class that quotes nothing.

use serde::Deserialize;
use serde_json::Value;
use sluicegate::limit::{Quota, Wait};
use sluicegate::policy::Algorithm;
use sluicegate::store::error::CLASSES;
use sluicegate::store::{Ask, Said, read};

use crate::drive::each;
use crate::mutate::Corpus;

const TOKENS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    ",",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "null",
    "1.0",
    "1e2",
    "-0",
    ":",
    "9007199254740993",
    "\"result\":",
    "\"error\":",
    "s3cret",
    "ERR ",
    "\u{fffd}",
];

fn ask(shadow: bool, ahead_ms: Option<u64>, more: u64) -> Ask {
    let quota = Quota { algorithm: Algorithm::FixedWindow, limit: 5, burst: 5, window_ms: 1000 };
    Ask { limit: 0, quota, arguments: "".into(), subject: "s".into(), cost: 1, shadow, ahead_ms, more }
}

/// What is read of a reply here; other members may hold anything that is JSON, numbers no float can hold among them.
#[derive(Deserialize)]
struct Reply {
    result: Vec<Value>,
}

/// The integers of a reply, by a reader that keeps numbers as they were written.
fn integers(body: &str) -> Option<Vec<i64>> {
    // Serde would take a list for the members in their order.
    let Reply { result } = serde_json::from_str(body).ok().filter(|_| !body.trim_start().starts_with('['))?;
    let whole = |number: &Value| number.as_i64().filter(|_| !number.to_string().contains(['.', 'e', 'E']));
    result.iter().map(whole).collect()
}

#[test]
fn replies() {
    let corpus = Corpus::lines(include_str!("corpus/replies.txt"), TOKENS);
    each("replies", 40_000, |random| {
        let body = corpus.text(random);
        let status = random.pick(&[200, 200, 200, 200, 204, 302, 400, 401, 429, 500, 502, 503]);
        let asks = (0..random.between(1, 2)).map(|_| {
            let ahead_ms = random.percent(25).then_some(2_000);
            let more = if ahead_ms.is_none() && random.percent(25) { 50 } else { 0 };
            ask(ahead_ms.is_none() && random.percent(25), ahead_ms, more)
        });
        let asks: Vec<Ask> = asks.collect();
        let of: Vec<&Ask> = asks.iter().filter(|ask| ask.ahead_ms.is_some() || ask.more > 0).collect();
        match read(status, &body, &asks) {
            Ok(said) => {
                assert!(status < 300, "{status} {body}");
                let numbers = integers(&body).unwrap_or_else(|| panic!("no integers in {body}"));
                let answered = match said {
                    Said::Conflict => return assert_eq!(numbers, [2], "{body}"),
                    Said::Decided(answered) => answered,
                    Said::Value(_) => panic!("a value is what plain commands come to: {body}"),
                    Said::Settled(_) => panic!("a settlement is what its own script comes to: {body}"),
                };
                let clock = usize::from(answered.clock_ms.is_some());
                assert_eq!(numbers.len(), 1 + 4 * asks.len() + of.len() + clock, "{body}");
                let behind = &numbers[1 + 4 * asks.len()..];
                let (mut holds, mut permits) = (answered.holds.iter(), answered.permits.iter());
                for (ask, number) in of.iter().zip(behind) {
                    let (said, most) = match ask.more {
                        0 => (holds.next(), 60_000),
                        more => (permits.next(), more as i64),
                    };
                    assert_eq!(said.map(|said| *said as i64), Some(*number), "{body}");
                    assert!((0..=most).contains(number), "{body}");
                    assert!(answered.allowed || *number == 0, "{body}");
                }
                assert!(holds.next().is_none() && permits.next().is_none(), "{body}");
                assert_eq!(answered.verdicts.len(), asks.len());
                for (verdict, numbers) in answered.verdicts.iter().zip(numbers[1..].chunks_exact(4)) {
                    let wait = match verdict.wait {
                        Wait::None => 0,
                        Wait::Never => -1,
                        Wait::Ms(ms) => ms as i64,
                    };
                    let said =
                        [verdict.limit as i64, verdict.remaining as i64, verdict.reset_ms as i64, wait];
                    assert_eq!(said, numbers, "{body}");
                    assert!(numbers[..3].iter().all(|number| *number >= 0) && wait >= -1, "{body}");
                }
                let refused = answered
                    .verdicts
                    .iter()
                    .zip(&asks)
                    .any(|(verdict, ask)| !ask.shadow && !verdict.allowed());
                assert_eq!((answered.allowed, numbers[0] == 1), (!refused, !refused), "{body}");
            }
            Err(error) => {
                assert!(CLASSES.contains(&error.class));
                assert!(!error.sign.contains("s3cret") && error.sign.len() < 80, "{}", error.sign);
            }
        }
    });
}
