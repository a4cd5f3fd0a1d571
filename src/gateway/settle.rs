//! Verdicts that do not come from the store: the isolate's own, remembered ones, and each limit's failure policy.

use super::outcome::{Line, Outcome, Reason, Tier};
use super::prepared::Prepared;
use crate::limit::{Quota, Verdict, Wait};
use crate::local::table::LocalAsk;
use crate::local::{Key, Refusals, Table};
use crate::policy::{OnStoreError, Policy};
use crate::store::Ask;

/// When a request that is refused because the store fails may try again, in milliseconds.
const CLOSED_RETRY_MS: u64 = 1_000;

/// Pairs what was asked with what was said.
pub fn lines(asks: &[Ask], verdicts: &[Verdict]) -> Vec<Line> {
    asks.iter().zip(verdicts).map(|(ask, verdict)| line(ask, *verdict)).collect()
}

fn line(ask: &Ask, verdict: Verdict) -> Line {
    Line {
        limit: ask.limit,
        window_ms: ask.quota.window_ms,
        shadow: ask.shadow,
        cost: ask.cost,
        subject: ask.subject.clone(),
        verdict,
    }
}

/// The isolate's decision over whole limits, all or nothing.
pub fn whole(table: &mut Table, asks: &[Ask], now_ms: u64) -> Vec<Verdict> {
    let local: Vec<LocalAsk> = asks.iter().map(|ask| local(ask, ask.quota)).collect();
    table.decide(&local, now_ms).verdicts
}

/// Whose count an ask is about.
pub fn key(ask: &Ask) -> Key {
    Key { limit: ask.limit, subject: ask.subject.clone() }
}

fn local(ask: &Ask, quota: Quota) -> LocalAsk {
    LocalAsk { key: key(ask), quota, cost: ask.cost, shadow: ask.shadow }
}

/// The remembered refusal that takes longest, if any of a request's limits is known to refuse it.
pub fn recall(refusals: &mut Refusals, asks: &[Ask], now_ms: u64) -> Option<Line> {
    if refusals.is_empty() {
        return None;
    }
    let known = asks.iter().filter(|ask| !ask.shadow).filter_map(|ask| {
        let verdict = refusals.recall(&key(ask), ask.quota, ask.cost, now_ms)?;
        Some(line(ask, verdict))
    });
    known.max_by_key(|line| match line.verdict.wait {
        Wait::Never => u64::MAX,
        Wait::Ms(ms) => ms,
        Wait::None => 0,
    })
}

/// What the limits' policies say when the store cannot: one that is `closed` refuses, those that are `degraded`
/// count at their share here, all or nothing, and those that are `open` say nothing.
pub fn without_store(
    table: &mut Table,
    limits: &[Prepared],
    policy: &Policy,
    asks: &[Ask],
    now_ms: u64,
) -> Outcome {
    let says = |ask: &Ask| limits.get(ask.limit).map(|prepared| prepared.limit.on_store_error);
    let closed: Vec<Line> = asks
        .iter()
        .filter(|ask| !ask.shadow && says(ask) == Some(OnStoreError::Closed))
        .map(|ask| {
            let wait = Wait::Ms(CLOSED_RETRY_MS);
            line(ask, Verdict { limit: ask.quota.limit, remaining: 0, reset_ms: CLOSED_RETRY_MS, wait })
        })
        .collect();
    if !closed.is_empty() {
        let outcome = Outcome::of(Tier::Closed, closed);
        return Outcome { refused: Some(Reason::StoreUnavailable), ..outcome };
    }
    let degraded: Vec<&Ask> = asks.iter().filter(|ask| says(ask) == Some(OnStoreError::Degraded)).collect();
    if degraded.is_empty() {
        return Outcome::of(Tier::Open, Vec::new());
    }
    let share = policy.degraded.share;
    let local: Vec<LocalAsk> = degraded.iter().map(|ask| local(ask, shared(ask.quota, share))).collect();
    let verdicts = table.decide(&local, now_ms).verdicts;
    let lines = degraded.iter().zip(verdicts).map(|(ask, verdict)| line(ask, verdict)).collect();
    Outcome::of(Tier::Degraded, lines)
}

/// The part of a quota that one isolate grants: at least 1.
pub fn shared(quota: Quota, share: f64) -> Quota {
    // Limits are below 2^53 and the share is at most 1, so the product is a whole number in range.
    let limit = (quota.limit as f64 * share).floor() as u64;
    quota.with_limit(limit)
}
