//! Verdicts that do not come from the store: the isolate's own, remembered ones, and each limit's failure policy.

use std::rc::Rc;

use super::delay::{self, Hold};
use super::outcome::{Line, Outcome, Reason, Tier};
use super::prepared::Prepared;
use super::rules::Rules;
use crate::limit::{Decision, Quota, Verdict, Wait};
use crate::local::table::LocalAsk;
use crate::local::{Key, Refusals, Table};
use crate::policy::{Algorithm, OnStoreError};
use crate::store::Ask;

/// Shortest period of a rate limiting binding, in milliseconds.
const LOCATION_PERIOD_MS: u64 = 10_000;

/// Pairs what was asked with what was said.
pub fn lines(asks: &[Ask], verdicts: &[Verdict]) -> Vec<Line> {
    asks.iter().zip(verdicts).map(|(ask, verdict)| line(ask, *verdict)).collect()
}

/// What a limit said of an ask.
pub fn line(ask: &Ask, verdict: Verdict) -> Line {
    Line {
        limit: ask.limit,
        window_ms: ask.quota.window_ms,
        shadow: ask.shadow,
        cost: ask.cost,
        subject: ask.subject.clone(),
        verdict,
    }
}

/// The isolate's decision over whole limits, all or nothing; slots are taken by `holder`.
pub fn whole(
    table: &mut Table,
    limits: &[Prepared],
    asks: &[Ask],
    holder: Option<&Rc<str>>,
    now_ms: u64,
) -> Decision {
    let local: Vec<LocalAsk> = asks.iter().map(|ask| local(limits, ask, ask.quota, holder)).collect();
    table.decide(&local, now_ms)
}

/// Whose count an ask is about.
pub fn key(limits: &[Prepared], ask: &Ask) -> Key {
    let stem = limits.get(ask.limit).map(|prepared| prepared.state_stem.clone());
    Key { stem: stem.unwrap_or_default(), subject: ask.subject.clone() }
}

fn local(limits: &[Prepared], ask: &Ask, quota: Quota, holder: Option<&Rc<str>>) -> LocalAsk {
    let holder = holder.filter(|_| is_concurrency(ask)).cloned();
    LocalAsk {
        key: key(limits, ask),
        quota,
        cost: ask.cost,
        shadow: ask.shadow,
        holder,
        ahead_ms: ask.ahead_ms,
    }
}

/// Whether an ask is for a slot.
pub fn is_concurrency(ask: &Ask) -> bool {
    ask.quota.algorithm == Algorithm::Concurrency
}

/// The remembered refusal that takes longest, if any of a request's limits is known to refuse it.
pub fn recall(refusals: &mut Refusals, limits: &[Prepared], asks: &[Ask], now_ms: u64) -> Option<Line> {
    if refusals.is_empty() {
        return None;
    }
    let known = asks.iter().filter(|ask| !ask.shadow).filter_map(|ask| {
        let verdict = refusals.recall(&key(limits, ask), ask.quota, ask.cost, now_ms)?;
        Some(line(ask, verdict))
    });
    known.max_by_key(|line| match line.verdict.wait {
        Wait::Never => u64::MAX,
        Wait::Ms(ms) => ms,
        Wait::None => 0,
    })
}

/// A limit's failure policy.
pub fn says(limits: &[Prepared], ask: &Ask) -> Option<OnStoreError> {
    limits.get(ask.limit).map(|prepared| prepared.limit.on_store_error)
}

/// The refusal where one of the limits is `closed`; `retry_ms` is when to try again.
pub fn closed(limits: &[Prepared], asks: &[Ask], retry_ms: u64) -> Option<Outcome> {
    let closed = asks.iter().filter(|ask| !ask.shadow && says(limits, ask) == Some(OnStoreError::Closed));
    let lines: Vec<Line> = closed.map(|ask| refused(ask, retry_ms)).collect();
    if lines.is_empty() {
        return None;
    }
    Some(Outcome { refused: Some(Reason::StoreUnavailable), ..Outcome::of(Tier::Closed, lines) })
}

/// The limits that the isolate counts while the store fails.
pub fn degraded_asks<'a>(limits: &[Prepared], asks: &'a [Ask]) -> Vec<&'a Ask> {
    asks.iter().filter(|ask| says(limits, ask) == Some(OnStoreError::Degraded)).collect()
}

/// The isolate's decision at its share of these limits, all or nothing; slots are taken by `holder`. Where there is no
/// limit, all were `open`.
pub fn degraded(
    table: &mut Table,
    rules: &Rules,
    asks: &[&Ask],
    holder: Option<&Rc<str>>,
    retry_ms: u64,
    now_ms: u64,
) -> Outcome {
    if asks.is_empty() {
        return Outcome::of(Tier::Open, Vec::new());
    }
    let share = rules.policy.degraded.share;
    let shares: Vec<LocalAsk> =
        asks.iter().map(|ask| local(&rules.limits, ask, shared(ask.quota, share), holder)).collect();
    let Decision { verdicts, holds, .. } = table.decide(&shares, now_ms);
    let hold_ms = delay::hold_ms(&mut asks.iter().copied(), &holds);
    let lines = asks.iter().zip(verdicts).map(|(ask, verdict)| {
        // A cost that fits the limit but not the share passes again once the store does.
        let soon = verdict.wait == Wait::Never && ask.cost <= ask.quota.capacity();
        let wait = if soon { Wait::Ms(retry_ms) } else { verdict.wait };
        line(ask, Verdict { wait, ..verdict })
    });
    Outcome { hold: Hold::of(hold_ms, now_ms, now_ms), ..Outcome::of(Tier::Degraded, lines.collect()) }
}

/// What the platform's own limiter refused. It does not say until when; its shortest period is ten seconds.
pub fn refused_at_location(ask: &Ask) -> Line {
    refused(ask, LOCATION_PERIOD_MS)
}

fn refused(ask: &Ask, retry_ms: u64) -> Line {
    let wait = Wait::Ms(retry_ms);
    line(ask, Verdict { limit: ask.quota.limit, remaining: 0, reset_ms: retry_ms, wait })
}

/// The part of a quota that one isolate grants: at least 1.
pub fn shared(quota: Quota, share: f64) -> Quota {
    // Limits are below 2^53 and the share is at most 1, so the product is a whole number in range.
    let limit = (quota.limit as f64 * share).floor() as u64;
    quota.with_limit(limit)
}
