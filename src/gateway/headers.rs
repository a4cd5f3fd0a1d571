//! Rate limit response headers, in the dialects a policy names.

use std::fmt::Write as _;

use super::outcome::{Line, Outcome};
use super::prepared::Prepared;
use super::problem::seconds;
use crate::limit::Wait;
use crate::policy::HeaderDialect;

/// Largest integer of a structured field (RFC 9651 section 3.3.1): fifteen digits. No policy reaches it, but a store's
/// reply could.
const LARGEST: u64 = 999_999_999_999_999;

/// The headers that an answer to a limited request carries. `now_ms` is for those that speak of a date.
pub fn of(
    outcome: &Outcome,
    limits: &[Prepared],
    dialects: &[HeaderDialect],
    tier_header: bool,
    now_ms: u64,
) -> Vec<(&'static str, String)> {
    let mut headers = Vec::with_capacity(4);
    let tightest = outcome.tightest();
    for dialect in dialects {
        match (dialect, tightest) {
            (HeaderDialect::Draft10, _) => draft_10(&mut headers, outcome, limits),
            (HeaderDialect::Draft03, Some(tightest)) => draft_03(&mut headers, tightest),
            (HeaderDialect::XRateLimit, Some(tightest)) => x_rate_limit(&mut headers, tightest, now_ms),
            (_, None) => {}
        }
    }
    if tier_header {
        headers.push(("Sluicegate-Tier", outcome.tier.word().to_owned()));
    }
    headers
}

/// draft-ietf-httpapi-ratelimit-headers-10: two structured lists, the tightest limit first. In a refusal only the
/// limits that refuse say when (`t`), so that `Retry-After` is never earlier than any of them.
fn draft_10(headers: &mut Vec<(&'static str, String)>, outcome: &Outcome, limits: &[Prepared]) {
    let size = outcome.lines.len().saturating_add(outcome.silent.len()).saturating_mul(40);
    let (mut policies, mut state) = (String::with_capacity(size), String::with_capacity(size));
    let refused = !outcome.allowed();
    for line in outcome.tightest_first() {
        policy(&mut policies, limits, (line.limit, line.verdict.limit, line.window_ms));
        item(&mut state, limits, line.limit);
        // Writing to a String cannot fail.
        let _ = write!(state, ";r={}", line.verdict.remaining.min(LARGEST));
        if !refused || (line.refuses() && outcome.retry_after_ms.is_some()) {
            let _ = write!(state, ";t={}", until_ms(line).div_ceil(1000).min(LARGEST));
        }
    }
    for &silent in &outcome.silent {
        policy(&mut policies, limits, silent);
    }
    if !policies.is_empty() {
        headers.push(("RateLimit-Policy", policies));
    }
    if !state.is_empty() {
        headers.push(("RateLimit", state));
    }
}

/// Until when a limit's numbers hold, from now on in milliseconds: of one that refuses, until the request passes, which
/// is what `Retry-After` goes by.
fn until_ms(line: &Line) -> u64 {
    match line.verdict.wait {
        Wait::Ms(ms) if line.refuses() => ms,
        _ => line.verdict.reset_ms,
    }
}

/// Appends a limit's member of `RateLimit-Policy`: index, units per window, window in milliseconds. A window under a
/// second has no `w`, which counts whole seconds; a concurrency limit has none, and another unit than requests.
fn policy(list: &mut String, limits: &[Prepared], (limit, quota, window_ms): (usize, u64, u64)) {
    item(list, limits, limit);
    let _ = write!(list, ";q={}", quota.min(LARGEST));
    if limits.get(limit).is_some_and(Prepared::is_concurrency) {
        list.push_str(";qu=\"concurrent-requests\"");
    } else if window_ms >= 1000 {
        let _ = write!(list, ";w={}", window_ms.div_ceil(1000));
    }
}

/// Begins a limit's member of a structured list.
fn item(list: &mut String, limits: &[Prepared], limit: usize) {
    if !list.is_empty() {
        list.push_str(", ");
    }
    list.push('"');
    list.push_str(limits.get(limit).map_or("", |prepared| prepared.limit.name.as_str()));
    list.push('"');
}

fn draft_03(headers: &mut Vec<(&'static str, String)>, tightest: &Line) {
    let verdict = &tightest.verdict;
    headers.push(("RateLimit-Limit", verdict.limit.to_string()));
    headers.push(("RateLimit-Remaining", verdict.remaining.to_string()));
    headers.push(("RateLimit-Reset", until_ms(tightest).div_ceil(1000).to_string()));
}

fn x_rate_limit(headers: &mut Vec<(&'static str, String)>, tightest: &Line, now_ms: u64) {
    let verdict = &tightest.verdict;
    headers.push(("X-RateLimit-Limit", verdict.limit.to_string()));
    headers.push(("X-RateLimit-Remaining", verdict.remaining.to_string()));
    let reset = now_ms.saturating_add(until_ms(tightest));
    headers.push(("X-RateLimit-Reset", seconds(reset).to_string()));
}
