//! The body of a store call, taken apart.

use sluicegate::limit::Quota;
use sluicegate::policy::Algorithm;

/// A call to `check.lua`.
#[derive(Debug, Clone)]
pub struct Command {
    /// The text of the script, or its hash.
    pub script: Script,
    /// The caller's clock; `None` where the store's own is to be used.
    pub now_ms: Option<u64>,
    /// One for each limit.
    pub asks: Vec<Ask>,
    /// The charge id.
    pub charge: Option<Charge>,
}

/// How the script is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Script {
    /// `EVALSHA`.
    Hash(String),
    /// `EVAL`.
    Text(String),
}

/// One limit.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Key of the state.
    pub state: String,
    /// Key of the override.
    pub over: String,
    /// What the subject may use.
    pub quota: Quota,
    /// Time to live of the state's key.
    pub ttl_ms: u64,
    /// Units asked for.
    pub cost: u64,
    /// Counts, never refuses.
    pub shadow: bool,
    /// Units asked for beyond the cost.
    pub more: u64,
}

/// A charge id.
#[derive(Debug, Clone)]
pub struct Charge {
    /// Its key.
    pub key: String,
    /// For how long it is kept.
    pub kept_ms: u64,
    /// Of the request.
    pub fingerprint: String,
}

impl Command {
    /// Reads the contract at the head of `lua/check.lua`.
    pub fn read(body: &str) -> Self {
        let words: Vec<String> = serde_json::from_str(body).expect("an array of strings");
        let script = match words[0].as_str() {
            "EVALSHA" => Script::Hash(words[1].clone()),
            "EVAL" => Script::Text(words[1].clone()),
            other => panic!("{other} is no way to call a script"),
        };
        let count: usize = words[2].parse().expect("a number of keys");
        let (keys, arguments) = words[3..].split_at(count);
        let limits = count / 2;
        let number = |text: &str| text.parse::<u64>().expect("a whole number");
        let asks = (0..limits)
            .map(|index| {
                let six = &arguments[1 + index * 6..7 + index * 6];
                let (letter, more) = six[0].split_once('+').unwrap_or((&six[0], "0"));
                let algorithm = match letter.to_ascii_lowercase().as_str() {
                    "b" => Algorithm::TokenBucket,
                    "f" => Algorithm::FixedWindow,
                    "s" => Algorithm::SlidingWindow,
                    "l" => Algorithm::SlidingLog,
                    other => panic!("{other} is no algorithm"),
                };
                Ask {
                    state: keys[index * 2].clone(),
                    over: keys[index * 2 + 1].clone(),
                    quota: Quota {
                        algorithm,
                        limit: number(&six[1]),
                        window_ms: number(&six[2]),
                        burst: number(&six[3]),
                    },
                    ttl_ms: number(&six[4]),
                    cost: number(&six[5]),
                    shadow: letter.chars().all(|letter| letter.is_ascii_uppercase()),
                    more: number(more),
                }
            })
            .collect();
        let charge = (count % 2 == 1).then(|| Charge {
            key: keys[count - 1].clone(),
            kept_ms: number(&arguments[1 + limits * 6]),
            fingerprint: arguments[2 + limits * 6].clone(),
        });
        assert_eq!(arguments.len(), 1 + limits * 6 + charge.iter().count() * 2);
        Self { script, now_ms: (!arguments[0].is_empty()).then(|| number(&arguments[0])), asks, charge }
    }
}
