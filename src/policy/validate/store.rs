//! `[store]` with its parts, and `[degraded]`.

use super::fields::{Field, Table};
use super::gateway::or;
use crate::policy::{Breaker, Clock, Degraded, Dialect, Retry, Store, bounds, text};

/// Fields of `[store]`.
pub(super) const STORE: &[&str] = &[
    "timeout",
    "clock",
    "dialect",
    "prefix",
    "remember",
    "cluster",
    "max_in_flight",
    "exactly_once",
    "breaker",
    "retry",
];
/// Fields of `[store.breaker]`.
pub(super) const BREAKER: &[&str] = &[
    "window",
    "min_calls",
    "failure_rate",
    "slow_call",
    "slow_rate",
    "open",
    "max_open",
    "long_open",
    "probes",
];
/// Fields of `[store.retry]`.
pub(super) const RETRY: &[&str] = &["budget", "backoff"];
/// Fields of `[degraded]`.
pub(super) const DEGRADED: &[&str] = &["share", "max_subjects", "binding"];

pub(super) fn store(table: &Table<'_>) -> Option<Store> {
    let timeout_ms = or(table.get("timeout"), 150, |field| field.duration(bounds::TIMEOUT_MS));
    let clock = or(table.get("clock"), Clock::Edge, |field| {
        field.choice(&[("edge", Clock::Edge), ("store", Clock::Store)])
    });
    let dialect = or(table.get("dialect"), Dialect::Auto, |field| {
        field.choice(&[("auto", Dialect::Auto), ("upstash", Dialect::Upstash), ("redis", Dialect::Redis)])
    });
    let prefix = or(table.get("prefix"), "sg".to_owned(), |field| {
        field.parsed(|given| text::name("prefix", given, text::MAX_PREFIX))
    });
    let remember_ms = or(table.get("remember"), 10_000, |field| field.duration(bounds::REMEMBER_MS));
    let cluster = or(table.get("cluster"), false, Field::flag);
    let max_in_flight = or(table.get("max_in_flight"), 256, |field| {
        field.whole(bounds::IN_FLIGHT).and_then(|most| usize::try_from(most).ok())
    });
    let exactly_once = or(table.get("exactly_once"), false, Field::flag);
    let breaker = breaker(&table.section("breaker", BREAKER), timeout_ms.unwrap_or(150));
    let retry = retry(&table.section("retry", RETRY));
    Some(Store {
        timeout_ms: timeout_ms?,
        clock: clock?,
        dialect: dialect?,
        prefix: prefix?,
        remember_ms: remember_ms?,
        cluster: cluster?,
        max_in_flight: max_in_flight?,
        exactly_once: exactly_once?,
        breaker: breaker?,
        retry: retry?,
    })
}

fn breaker(table: &Table<'_>, timeout_ms: u64) -> Option<Breaker> {
    let duration = |name, default| or(table.get(name), default, |field| field.duration(bounds::BREAKER_MS));
    let count = |name, default| {
        or(table.get(name), default, |field| {
            field.whole(bounds::BREAKER_CALLS).and_then(|count| u32::try_from(count).ok())
        })
    };
    let rate = |name, default| or(table.get(name), default, part);
    let window_ms = duration("window", 10_000);
    let min_calls = count("min_calls", 5);
    let failure_rate = rate("failure_rate", 0.5);
    // Four fifths of the deadline: what comes later is about to fail.
    let slow_ms = duration("slow_call", timeout_ms.saturating_mul(4) / 5);
    let slow_rate = rate("slow_rate", 0.8);
    let open_ms = duration("open", 1_000);
    let max_open_ms = duration("max_open", 30_000);
    let long_open_ms = duration("long_open", 60_000);
    let probes = count("probes", 2);
    let breaker = Breaker {
        window_ms: window_ms?,
        min_calls: min_calls?,
        failure_rate: failure_rate?,
        slow_ms: slow_ms?,
        slow_rate: slow_rate?,
        open_ms: open_ms?,
        max_open_ms: max_open_ms?,
        long_open_ms: long_open_ms?,
        probes: probes?,
    };
    if breaker.max_open_ms < breaker.open_ms
        && let Some(field) = table.get("max_open").or_else(|| table.get("open"))
    {
        field.wrong("max_open is shorter than open", "write a max_open that is no shorter than open");
        return None;
    }
    Some(breaker)
}

fn retry(table: &Table<'_>) -> Option<Retry> {
    let budget = or(table.get("budget"), 0.1, |field| {
        let budget = field.number()?;
        if (0.0..=1.0).contains(&budget) {
            return Some(budget);
        }
        field.wrong("the budget is out of range", "write 0 to 1, such as 0.1 for one retry in ten calls");
        None
    });
    let backoff_ms = or(table.get("backoff"), 30, |field| field.duration(bounds::BACKOFF_MS));
    Some(Retry { budget: budget?, backoff_ms: backoff_ms? })
}

/// A part of a whole: more than 0, at most 1.
fn part(field: &Field<'_>) -> Option<f64> {
    let part = field.number()?;
    if part > 0.0 && part <= 1.0 {
        return Some(part);
    }
    field.wrong("the rate is out of range", "write more than 0 and at most 1, such as 0.5");
    None
}

pub(super) fn degraded(table: &Table<'_>) -> Option<Degraded> {
    let share = or(table.get("share"), 0.1, |field| {
        let share = field.number()?;
        if share > 0.0 && share <= 1.0 {
            return Some(share);
        }
        field.wrong("the share is out of range", "write more than 0 and at most 1, such as 0.1");
        None
    });
    let max_subjects = or(table.get("max_subjects"), 10_000, |field| {
        field.whole(bounds::SUBJECTS).and_then(|most| usize::try_from(most).ok())
    });
    let binding = or(table.get("binding"), None, |field| field.parsed(text::binding).map(Some));
    Some(Degraded { share: share?, max_subjects: max_subjects?, binding: binding? })
}
