//! A history of what happens to one subject of each limit: what the vectors hold and the generator makes up.

use serde::{Deserialize, Serialize};

use super::super::rows::History;
use super::super::trace::{PAST_MS, is_default};

/// Time 0 of every trace, ms since the Unix epoch.
pub const BASE_MS: u64 = PAST_MS;
/// What fences are counted from in a trace: the first that is taken at time 0.
pub const BASE_FENCE: u64 = BASE_MS * 1024;

/// A history; slots are those of the first concurrency limit.
pub type Trace = History<Step>;

/// One thing that is done, what happens just before, and what must come of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// True time in ms since time 0.
    pub at: u64,
    /// By how many ms the store's clock is ahead of that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub store: i64,
    /// The limits from here on, where they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<String>>,
    /// Overrides set or taken away, by the limit's index: `LIMIT UNTIL`, `+5000` being 5 s after time 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<(usize, Option<String>)>,
    /// Somebody has emptied the store.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flush: bool,
    /// Somebody has run PERSIST over all the keys.
    #[serde(default, skip_serializing_if = "is_default")]
    pub persist: bool,
    /// What is done.
    #[serde(rename = "do")]
    pub act: Act,
    /// The script's reply, with times and fences counted from time 0 and from the first fence of time 0; a 0 where
    /// there is none stays 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Vec<Item>>,
    /// ms that the keys of holders and queue live on from here, 0 where there is none; of the first concurrency limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<(u64, u64)>,
}

/// What is done.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Act {
    /// A request over all limits, by check.lua.
    Request {
        /// Under which id it takes slots.
        id: String,
        /// By how many ms its clock is ahead of the truth.
        #[serde(default, skip_serializing_if = "is_default")]
        clock: i64,
        /// It leaves the clock to the store.
        #[serde(default, skip_serializing_if = "is_default")]
        store_clock: bool,
        /// What it costs in each limit; 1 where not said.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        costs: Vec<u64>,
        /// Its charge id and fingerprint.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        charge: Option<(String, String)>,
    },
    /// Of slots.lua, as all that follow.
    Take {
        /// Whose.
        id: String,
        /// ms to wait, ms of patience, most waiters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait: Option<(u64, u64, u64)>,
    },
    /// Of the lease under this id and fence.
    Renew(String, i64),
    /// Of the slot under this id and fence.
    Free(String, i64),
    /// Of the place in the queue.
    Leave(String),
    /// Of everybody.
    #[default]
    List,
}

/// An element of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Item {
    /// An integer.
    Number(i64),
    /// An id.
    Text(String),
}

impl Step {
    /// The store's clock.
    pub fn store_ms(&self) -> u64 {
        (BASE_MS + self.at).saturating_add_signed(self.store)
    }
}

/// A fence as a trace writes it.
pub fn fence_in(relative: i64) -> u64 {
    BASE_FENCE.saturating_add_signed(relative)
}

/// A reply of slots.lua as a trace writes it.
pub fn relative(act: &Act, reply: &[Item]) -> Vec<Item> {
    let time = |item: &Item| shifted(item, BASE_MS);
    let fence = |item: &Item| shifted(item, BASE_FENCE);
    let mut out = reply.to_vec();
    match act {
        Act::Request { .. } => {}
        Act::List => {
            out[1] = time(&out[1]);
            let Item::Number(holding) = reply[4] else { panic!("{reply:?}") };
            for at in (6..).step_by(3).take(holding as usize) {
                out[at + 1] = fence(&out[at + 1]);
                out[at + 2] = time(&out[at + 2]);
            }
        }
        _ => match out.len() {
            6 => {
                out[1] = fence(&out[1]);
                out[2] = time(&out[2]);
                out[3] = time(&out[3]);
            }
            5 => out[3] = time(&out[3]),
            _ => {}
        },
    }
    out
}

/// A reply of check.lua as a trace writes it: `fences` of them are at its end, and behind them the clock of a request
/// with a charge id that passed.
pub fn relative_request(reply: &[Item], fences: usize) -> Vec<Item> {
    let clocks = reply.len().saturating_sub(1 + fences) % 4;
    let (from, end) = (reply.len().saturating_sub(fences + clocks), reply.len() - clocks);
    let shift = |(at, item)| match at {
        _ if at >= end => shifted(item, BASE_MS),
        _ if at >= from => shifted(item, BASE_FENCE),
        _ => item.clone(),
    };
    if reply.len() < 2 { reply.to_vec() } else { reply.iter().enumerate().map(shift).collect() }
}

fn shifted(item: &Item, base: u64) -> Item {
    match item {
        Item::Number(number) if *number != 0 => Item::Number(number - base as i64),
        other => other.clone(),
    }
}
