//! `settle`: a limit whose cost is known after the answer.

use super::fields::{Field, Table};
use super::quota::Quotas;
use crate::policy::{Algorithm, Cost, Quota, Settle, bounds, text};

/// Fields of `settle`.
pub(super) const SETTLE: &[&str] = &["header", "max", "within"];

/// What the limit's other fields come to, where they are right.
pub(super) struct Terms<'t> {
    pub(super) algorithm: Option<Algorithm>,
    pub(super) window_ms: Option<u64>,
    pub(super) cost: Option<&'t Cost>,
    pub(super) quotas: Option<&'t Quotas>,
}

/// `Some(None)` when it was not written.
#[allow(clippy::option_option, reason = "wrong, absent and written are three things")]
pub(super) fn settle(limit: &Table<'_>, terms: &Terms<'_>) -> Option<Option<Settle>> {
    let Some(field) = limit.get("settle") else { return Some(None) };
    let sound = countable(limit, &field, terms);
    let table = field.table(SETTLE)?;
    let header = table
        .required("header", "write header = \"x-usage-tokens\", which the origin answers with")
        .and_then(|field| field.parsed(text::header));
    let max_field = table.required("max", "write the greatest cost that is believed, such as max = 100000");
    let max = max_field.as_ref().and_then(|field| field.whole((1, bounds::MAX_COST)));
    let within = table
        .get("within")
        .map_or(Some(bounds::SETTLE_WITHIN_MS), |field| field.duration(bounds::SETTLE_RANGE_MS));
    let (header, max, within_ms) = (header?, max?, within?);
    let holds = max_field.is_some_and(|field| holds(&field, max, terms));
    (sound && holds).then_some(Some(Settle { header, max, within_ms }))
}

/// Whether what is reserved can be given back, and what is owed be kept.
fn countable(limit: &Table<'_>, field: &Field<'_>, terms: &Terms<'_>) -> bool {
    match terms.algorithm {
        Some(Algorithm::SlidingLog | Algorithm::Concurrency) => {
            field.wrong(
                "costs settle in a token-bucket, a fixed-window or a sliding-window alone",
                "remove it, or write one of these algorithms",
            );
            false
        }
        _ if terms.cost.is_some_and(|cost| cost.default == 0) => {
            let cost = limit.get("cost").unwrap_or_else(|| field.clone());
            cost.wrong("a cost of 0 reserves nothing that could be settled", "write a cost of at least 1");
            false
        }
        _ => true,
    }
}

/// Whether a subject that has used all can owe the greatest cost on top.
fn holds(field: &Field<'_>, max: u64, terms: &Terms<'_>) -> bool {
    let (Some(algorithm), Some(window_ms), Some(quotas)) = (terms.algorithm, terms.window_ms, terms.quotas)
    else {
        return true;
    };
    let capacities =
        [&quotas.base].into_iter().chain(quotas.plans.values()).filter_map(|quota| match quota {
            Quota::Limited(capacity) => Some(capacity.burst.get()),
            Quota::Unlimited | Quota::Blocked => None,
        });
    let Some(capacity) = capacities.max() else { return true };
    let most = bounds::most_used(algorithm, window_ms).saturating_sub(capacity);
    if max > most {
        field.wrong(
            format!("{max} on top of the capacity {capacity} is more than the store can hold as used"),
            format!("write at most {most}, lower the limit or count in larger units"),
        );
    }
    max <= most
}
