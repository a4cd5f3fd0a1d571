//! Log lines: one JSON object each, one a refusal (up to a rate, see `sampling`), one a transition. None holds a secret, a store's URL or what a
//! client sent: subjects appear as in keys.

use serde_json::json;

use super::outcome::{Line, Outcome};
use super::prepared::Prepared;
use super::problem::seconds;
use crate::policy::{KeyPart, PolicyError};
use crate::store::StoreError;
use crate::subject::{Digester, NOBODY};

/// A refused request, by its route's name; a check has none. `left_out` is how many refusals since the last line had
/// none of their own.
pub fn refusal(
    outcome: &Outcome,
    limits: &[Prepared],
    digester: &Digester,
    route: Option<&str>,
    left_out: u64,
) -> String {
    let first = outcome.tightest();
    let prepared = first.and_then(|line| limits.get(line.limit));
    let mut line = json!({
        "event": "refused",
        "route": route,
        "limit": prepared.map(|prepared| prepared.limit.name.as_str()),
        "subject": first.map(|line| subject(line, prepared, digester)),
        "cost": first.map(|line| line.cost),
        "tier": outcome.tier.word(),
        "reason": outcome.refused.map(super::outcome::Reason::word),
        "retry_after": outcome.retry_after_ms.map(seconds),
    });
    if let Some(fields) = line.as_object_mut().filter(|_| left_out > 0) {
        fields.insert("left_out".to_owned(), left_out.into());
    }
    line.to_string()
}

/// A subject as logs and analytics show it. Addresses stand in keys as they are, but here as digests like any other.
pub fn subject(line: &Line, prepared: Option<&Prepared>, digester: &Digester) -> String {
    match prepared.map(|prepared| prepared.limit.key.as_slice()) {
        Some([KeyPart::Ip]) if *line.subject != *NOBODY => {
            let mut digest = digester.start();
            digest.part(&KeyPart::Ip, Some(&line.subject));
            digest.finish()
        }
        _ => line.subject.to_string(),
    }
}

/// The store begins to fail.
pub fn store_failing(error: &StoreError) -> String {
    json!({ "event": "store-failing", "reason": error.class.word(), "sign": error.sign }).to_string()
}

/// The store answers, but so slowly that the breaker opened.
pub fn store_slow() -> String {
    json!({ "event": "store-failing", "reason": "slow", "sign": "answers beyond slow_call" }).to_string()
}

/// The store answers again.
pub fn store_recovered() -> String {
    json!({ "event": "store-recovered" }).to_string()
}

/// Leases ended before the requests that held them.
pub fn lease_lost(limit: &str) -> String {
    let detail = "a slot's lease ended while its request ran; the request goes on without it";
    json!({ "event": "lease-lost", "limit": limit, "detail": detail }).to_string()
}

/// The header that says what a charge really cost does not.
pub fn unreadable_cost() -> String {
    r#"{"event":"unreadable-cost","detail":"an answer says no whole number in a limit's settle.header; reservations stand"}"#
        .to_owned()
}

/// The store refused the script's opening line, so it is sent without.
pub fn fell_back() -> String {
    let detail = "the store refuses the line `#!lua flags=allow-key-locking`; the script goes without it";
    json!({ "event": "dialect", "form": "redis", "detail": detail }).to_string()
}

/// No store is configured.
pub fn no_store() -> String {
    let detail = "UPSTASH_REDIS_REST_URL is not set: limits are exact inside this isolate only";
    json!({ "event": "no-store", "tier": "isolate", "detail": detail }).to_string()
}

/// A store is configured without its token.
pub fn no_token() -> String {
    json!({ "event": "no-token", "detail": "UPSTASH_REDIS_REST_TOKEN is not set: the store will refuse" })
        .to_string()
}

/// A queue is named that is not bound. The name of a binding is text that JSON takes as it is.
pub fn no_queue(name: &str) -> String {
    format!(
        "{{\"event\":\"no-queue\",\"binding\":\"{name}\",\"detail\":\"not bound: what would wait there is refused\"}}"
    )
}

/// Tokens are verified by a secret that is not set.
pub fn no_secret(name: &str) -> String {
    let detail = format!("{name} is not set: no token is believed");
    json!({ "event": "no-jwt-secret", "detail": detail }).to_string()
}

/// Tokens are verified by a secret that can be guessed.
pub fn short_secret(name: &str, shortest: usize) -> String {
    let detail = format!("{name} has fewer than {shortest} bytes: whoever guesses it signs as anybody");
    json!({ "event": "short-jwt-secret", "detail": detail }).to_string()
}

/// The policy in force is wrong.
pub fn bad_policy(errors: &[PolicyError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    json!({ "event": "bad-policy", "errors": errors }).to_string()
}

/// Another policy is in force.
pub fn reloaded(source: &str, digest: &str, before: Option<&str>) -> String {
    json!({ "event": "policy-reloaded", "source": source, "digest": digest, "before": before }).to_string()
}

/// A policy that came while the isolate runs is wrong; `in_force` is the digest of the one that stays.
pub fn bad_reload(source: &str, errors: &[PolicyError], in_force: Option<&str>) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    json!({ "event": "bad-policy", "source": source, "errors": errors, "in_force": in_force }).to_string()
}

/// The namespace begins to fail; the policy in force stays.
pub fn policy_unreadable(why: &str) -> String {
    json!({ "event": "policy-unreadable", "source": "POLICY_KV", "reason": why }).to_string()
}

/// The namespace answers again.
pub fn policy_readable() -> String {
    json!({ "event": "policy-readable", "source": "POLICY_KV" }).to_string()
}
