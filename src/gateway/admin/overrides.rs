//! `overrides/{name}/{subject}`: a limit for one subject, which the same `EVAL` reads as its state.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::command::{Call, What};
use super::{Target, moment};
use crate::gateway::Gateway;
use crate::gateway::answer::{Answer, Step};
use crate::gateway::asking::Purpose;
use crate::gateway::prepared::{Allowance, Prepared};
use crate::gateway::{check_api, problem};
use crate::limit::TTL_MARGIN_MS;
use crate::policy::error::Wrong;
use crate::policy::{Algorithm, Capacity, bounds};

/// How long an override without `until` is kept, in milliseconds: the longest window, 400 days. Every key in the store
/// has a time to live.
const OPEN_ENDED_MS: u64 = bounds::MAX_WINDOW_MS;

/// An override to be set.
#[derive(Debug, Clone)]
pub(super) struct Override {
    limit: u64,
    until_ms: Option<u64>,
    kept_until_ms: u64,
    pub ttl_ms: u64,
}

/// The body of a `PUT`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    limit: u64,
    #[serde(default)]
    until: Option<Value>,
}

/// An override as the API shows it.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    limit: u64,
    until: Option<String>,
    until_ms: Option<u64>,
    kept_until: Option<String>,
    kept_until_ms: Option<u64>,
}

impl Override {
    fn of(wanted: Wanted, prepared: &Prepared, now_ms: u64) -> Result<Self, String> {
        fits(prepared, wanted.limit).map_err(|wrong| format!("{}; {}", wrong.problem, wrong.cure))?;
        let until_ms = match wanted.until {
            None | Some(Value::Null) => None,
            Some(until) => Some(read_until(&until)?),
        };
        if let Some(until_ms) = until_ms.filter(|until_ms| *until_ms <= now_ms) {
            return Err(format!(
                "until {} is in the past: write a moment to come, leave it out, or DELETE the override",
                moment::to_text(until_ms)
            ));
        }
        let kept_until_ms = until_ms.unwrap_or(now_ms.saturating_add(OPEN_ENDED_MS));
        // The value's own moment decides; the key outlives it by the margin that every key has.
        let margin_ms = if until_ms.is_some() { TTL_MARGIN_MS } else { 0 };
        let ttl_ms = kept_until_ms.saturating_sub(now_ms).saturating_add(margin_ms);
        Ok(Self { limit: wanted.limit, until_ms, kept_until_ms, ttl_ms })
    }

    /// As `check.lua` reads it.
    pub fn value(&self) -> String {
        format!("{} {}", self.limit, self.until_ms.unwrap_or(0))
    }

    pub fn answer(&self, name: &str) -> Answer {
        shown(name, self.limit, self.until_ms, Some(self.kept_until_ms))
    }
}

fn shown(name: &str, limit: u64, until_ms: Option<u64>, kept_until_ms: Option<u64>) -> Answer {
    let (until, kept_until) = (until_ms.map(moment::to_text), kept_until_ms.map(moment::to_text));
    let shown = Shown { name, limit, until, until_ms, kept_until, kept_until_ms };
    Answer::json(200, serde_json::to_string(&shown).unwrap_or_default())
}

fn read_until(until: &Value) -> Result<u64, String> {
    let read = match until {
        Value::Number(ms) => ms.as_u64().filter(|ms| *ms <= moment::LATEST_MS),
        Value::String(text) => moment::parse(text),
        _ => None,
    };
    read.ok_or_else(|| {
        format!(
            "until {until} is no moment: write milliseconds since 1970, such as 1798761600000, or RFC 3339 text, such \
             as \"2027-01-01T00:00:00Z\""
        )
    })
}

/// Whether an override may set this limit: the script only clamps.
fn fits(prepared: &Prepared, limit: u64) -> Result<(), Wrong> {
    if exact(prepared, limit) {
        return Ok(());
    }
    let (mut most, mut beyond) = (0_u64, limit);
    while most.saturating_add(1) < beyond {
        let middle = most.midpoint(beyond);
        if exact(prepared, middle) { most = middle } else { beyond = middle }
    }
    let name = &prepared.limit.name;
    Err(Wrong::new(
        format!("the limit {limit} is beyond what the store counts exactly for {name}"),
        format!("write at most {most}"),
    ))
}

/// Whether a limit of `limit` keeps the arithmetic of every plan exact, and what is counted inside its bytes.
fn exact(prepared: &Prepared, limit: u64) -> bool {
    let Some(number) = NonZeroU64::new(limit) else {
        return true;
    };
    let rule = &prepared.limit;
    limit <= bounds::MAX_COUNT
        && quotas(prepared).all(|quota| {
            let burst = NonZeroU64::new(quota.with_limit(limit).burst).unwrap_or(number);
            let capacity = Capacity { limit: number, burst };
            // The script computes a bucket's burst in proportion: burst × limit must be exact as well.
            let product = quota.burst.checked_mul(limit).is_some_and(|product| product < bounds::EXACT);
            let (cost, window_ms) = (rule.cost.max, rule.window_ms);
            let most_delay_ms = bounds::most_delay_ms(limit, burst.get(), cost, window_ms);
            (product || rule.algorithm != Algorithm::TokenBucket)
                && rule.delay().is_none_or(|delay| delay.ms <= most_delay_ms)
                && bounds::check(rule.algorithm, capacity, cost, window_ms).is_ok()
        })
}

/// The quotas that an override may replace: those that are counted.
fn quotas(prepared: &Prepared) -> impl Iterator<Item = &crate::limit::Quota> {
    let all = std::iter::once(&prepared.quota).chain(prepared.plans.iter().map(|(_, allowance)| allowance));
    all.filter_map(|allowance| match allowance {
        Allowance::Limited(quota, _) => Some(quota),
        Allowance::Unlimited | Allowance::Blocked => None,
    })
}

impl Gateway {
    /// Sets an override from the body of a `PUT`.
    pub(super) fn set_override(&mut self, target: Target, body: &str, now_ms: u64) -> Result<Step, Answer> {
        let bad = |detail: &str| problem::plain(400, "Bad override", detail);
        let prepared = self.prepared(&target)?;
        let wanted: Wanted = check_api::read_object(body).map_err(|error| {
            bad(&format!(
                "{error}; write {{\"limit\": 500}} or {{\"limit\": 0, \"until\": \"2027-01-01T00:00:00Z\"}}"
            ))
        })?;
        if quotas(prepared).next().is_none() {
            let detail = "this limit counts nobody under any plan, so no override of it would ever be read";
            return Err(problem::plain(409, "Nothing to override", detail));
        }
        let set = Override::of(wanted, prepared, now_ms).map_err(|wrong| bad(&wrong))?;
        self.ask_override(target, What::Set(set), now_ms)
    }

    /// Looks an override up.
    pub(super) fn read_override(&mut self, target: Target, now_ms: u64) -> Result<Step, Answer> {
        self.ask_override(target, What::Read, now_ms)
    }

    /// Takes an override away.
    pub(super) fn remove_override(&mut self, target: Target, now_ms: u64) -> Result<Step, Answer> {
        self.ask_override(target, What::Remove, now_ms)
    }

    fn ask_override(&mut self, target: Target, what: What, now_ms: u64) -> Result<Step, Answer> {
        let Some(form) = self.form else {
            let detail =
                "overrides are kept in the store, and none is configured: set UPSTASH_REDIS_REST_URL";
            return Err(problem::plain(409, "No store", detail));
        };
        let call = Call { target, what };
        Ok(self.send(form, Vec::new(), None, Purpose::Admin(Box::new(call)), now_ms))
    }
}

/// An override's value, where there is one, and what is left of its key's life in milliseconds (-1: no end).
pub(super) fn read(value: &Value) -> Option<(Option<&str>, i64)> {
    let [value, left_ms] = value.as_array()?.as_slice() else {
        return None;
    };
    let value = match value {
        Value::Null => None,
        Value::String(text) => Some(text.as_str()),
        _ => return None,
    };
    Some((value, left_ms.as_i64()?))
}

/// The answer to a look-up. What the script would not follow is none: a value it cannot read, or one whose time is over.
pub(super) fn found(name: &str, value: &Value, now_ms: u64) -> Answer {
    let read = read(value).and_then(|(text, left_ms)| {
        let (limit, until) = text?.split_once(' ')?;
        let until_ms = Some(until.parse::<u64>().ok()?).filter(|ms| *ms > 0);
        let kept_until_ms = until_ms.or(u64::try_from(left_ms).ok().map(|left| now_ms.saturating_add(left)));
        Some((limit.parse::<u64>().ok()?, until_ms, kept_until_ms))
    });
    match read.filter(|(_, until_ms, _)| until_ms.is_none_or(|ms| ms > now_ms)) {
        Some((limit, until_ms, kept_until_ms)) => shown(name, limit, until_ms, kept_until_ms),
        None => problem::plain(404, "No override", &format!("limit {name} has no override for this subject")),
    }
}

/// Whether there was an override to remove. Names hold only characters that JSON takes as they are.
pub(super) fn removed(name: &str, removed: bool) -> Answer {
    Answer::json(200, format!("{{\"name\":\"{name}\",\"removed\":{removed}}}"))
}
