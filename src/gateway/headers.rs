//! Rate limit response headers, in the dialects a policy names.

use std::fmt::Write as _;

use super::outcome::{Line, Outcome};
use super::prepared::Prepared;
use super::problem::seconds;
use crate::policy::HeaderDialect;

/// The headers that an answer to a limited request carries. `now_ms` is for those that speak of a date.
pub fn of(
    outcome: &Outcome,
    limits: &[Prepared],
    dialects: &[HeaderDialect],
    tier_header: bool,
    now_ms: u64,
) -> Vec<(&'static str, String)> {
    let mut headers = Vec::with_capacity(4);
    if let Some(tightest) = outcome.tightest() {
        for dialect in dialects {
            match dialect {
                HeaderDialect::Draft10 => draft_10(&mut headers, outcome, limits),
                HeaderDialect::Draft03 => draft_03(&mut headers, tightest),
                HeaderDialect::XRateLimit => x_rate_limit(&mut headers, tightest, now_ms),
            }
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
    let size = outcome.lines.len().saturating_mul(40);
    let (mut policies, mut state) = (String::with_capacity(size), String::with_capacity(size));
    let refused = !outcome.allowed();
    for line in outcome.tightest_first() {
        let Some(prepared) = limits.get(line.limit) else {
            continue;
        };
        if !policies.is_empty() {
            policies.push_str(", ");
            state.push_str(", ");
        }
        let (name, verdict) = (prepared.limit.name.as_str(), &line.verdict);
        // Writing to a String cannot fail.
        let _ = write!(policies, "\"{name}\";q={}", verdict.limit);
        if line.window_ms >= 1000 {
            let _ = write!(policies, ";w={}", line.window_ms.div_ceil(1000));
        }
        let _ = write!(state, "\"{name}\";r={}", verdict.remaining);
        if !refused || (line.refuses() && outcome.retry_after_ms.is_some()) {
            let _ = write!(state, ";t={}", verdict.reset_ms.div_ceil(1000));
        }
    }
    headers.push(("RateLimit-Policy", policies));
    headers.push(("RateLimit", state));
}

fn draft_03(headers: &mut Vec<(&'static str, String)>, tightest: &Line) {
    let verdict = &tightest.verdict;
    headers.push(("RateLimit-Limit", verdict.limit.to_string()));
    headers.push(("RateLimit-Remaining", verdict.remaining.to_string()));
    headers.push(("RateLimit-Reset", verdict.reset_ms.div_ceil(1000).to_string()));
}

fn x_rate_limit(headers: &mut Vec<(&'static str, String)>, tightest: &Line, now_ms: u64) {
    let verdict = &tightest.verdict;
    headers.push(("X-RateLimit-Limit", verdict.limit.to_string()));
    headers.push(("X-RateLimit-Remaining", verdict.remaining.to_string()));
    let reset = now_ms.saturating_add(verdict.reset_ms);
    headers.push(("X-RateLimit-Reset", seconds(reset).to_string()));
}
