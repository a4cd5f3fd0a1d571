//! `lease_batch` and `lease_ttl`: permits that an isolate takes in one call and spends alone.

use super::fields::{Field, Table};
use super::quota::{Quotas, Terms};
use crate::policy::{Algorithm, Batch, Quota, bounds, duration};

/// Fields that do not go together with permits, with the reason and what to do instead.
const APART: [(&str, &str, &str); 3] = [
    (
        "idempotency",
        "only the store knows whether a request is a repeat, so each has to ask it",
        "leave one of the two out",
    ),
    (
        "over_limit",
        "the moments of requests that wait are in the store's order, and permits are spent past it",
        "leave one of the two out",
    ),
    (
        "settle",
        "a request that permits let through has no charge of its own in the store",
        "leave one of the two out",
    ),
];

/// `Some(None)` where the limit takes no permits. What the rest of the limit says is looked at as far as it could be read.
#[allow(clippy::option_option, reason = "wrong, absent and written are three things")]
pub(super) fn batch(
    table: &Table<'_>,
    terms: Option<Terms<'_>>,
    quotas: Option<&Quotas>,
) -> Option<Option<Batch>> {
    let (batch_field, ttl_field) = match (table.get("lease_batch"), table.get("lease_ttl")) {
        (None, None) => return Some(None),
        (Some(field), None) => {
            field.wrong("nothing says how long permits may be spent", "write lease_ttl = \"5s\" as well");
            return None;
        }
        (None, Some(field)) => {
            field.wrong("nothing says how many permits are taken", "write lease_batch = 20 as well");
            return None;
        }
        (Some(batch), Some(ttl)) => (batch, ttl),
    };
    let alone = alone(table, &batch_field);
    let units = batch_field.whole(bounds::BATCH);
    let ttl_ms = ttl_field.duration(bounds::BATCH_TTL_MS);
    let (units, ttl_ms, terms) = (units?, ttl_ms?, terms?);
    let fits = lends(&batch_field, terms.algorithm)
        && is_more_than_one(&batch_field, units, terms)
        && ends_with_its_window(&ttl_field, ttl_ms, terms)
        && quotas.is_none_or(|quotas| is_there(&batch_field, units, quotas));
    (alone && fits).then_some(Some(Batch { units, ttl_ms }))
}

fn alone(table: &Table<'_>, batch: &Field<'_>) -> bool {
    let other = APART.iter().find(|(name, ..)| table.get(name).is_some());
    if let Some((name, why, cure)) = other {
        batch.wrong(format!("permits and {name} do not go together: {why}"), *cure);
    }
    other.is_none()
}

fn lends(field: &Field<'_>, algorithm: Algorithm) -> bool {
    let (why, cure) = match algorithm {
        Algorithm::Concurrency => {
            ("a slot is given back and not used up, so none can be taken in advance", "remove it")
        }
        Algorithm::SlidingLog => (
            "a sliding log is exact in every window, and permits that are spent later would not be",
            "remove it, or write algorithm = \"sliding-window\"",
        ),
        _ => return true,
    };
    field.wrong(why, cure);
    false
}

/// Whether one batch serves more than one request that says nothing of its cost.
fn is_more_than_one(field: &Field<'_>, units: u64, terms: Terms<'_>) -> bool {
    let cost = terms.cost.default;
    if units > cost {
        return true;
    }
    field.wrong(
        format!("a batch of {units} serves no more than one request, which costs {cost}"),
        format!("write at least {}", cost.saturating_mul(2)),
    );
    false
}

fn ends_with_its_window(field: &Field<'_>, ttl_ms: u64, terms: Terms<'_>) -> bool {
    if terms.algorithm == Algorithm::TokenBucket || ttl_ms <= terms.window_ms {
        return true;
    }
    let window = duration::to_text(terms.window_ms);
    field.wrong(
        format!("permits end with the window that they were taken in, which is {window} long"),
        format!("write at most {window}"),
    );
    false
}

/// Whether every plan has as much at once.
fn is_there(field: &Field<'_>, units: u64, quotas: &Quotas) -> bool {
    let mut least = u64::MAX;
    for quota in quotas.plans.values().chain([&quotas.base]) {
        if let Quota::Limited(capacity) = quota {
            least = least.min(capacity.burst.get());
        }
    }
    if units > least {
        field.wrong(
            format!("a batch of {units} is more than the smallest plan's capacity, {least}"),
            format!("write at most {least}; a tenth of it is a good batch"),
        );
    }
    units <= least
}
