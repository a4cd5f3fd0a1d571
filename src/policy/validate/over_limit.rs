//! `over_limit`: what a request gets that a limit would refuse, instead of a refusal.

use super::fields::{Field, Table};
use super::gateway::or;
use crate::policy::error::Wrong;
use crate::policy::{Algorithm, OverLimit, Queue, bounds, text};

/// Fields of `over_limit`.
pub(super) const OVER_LIMIT: &[&str] = &["queue", "dead_letter", "max_body", "attempts", "backoff", "keep"];

/// What a number counts.
#[derive(Clone, Copy)]
enum Unit {
    One,
    Ms,
}

/// A field with its default and its bounds.
type Number = (&'static str, u64, (u64, u64), Unit);

const NUMBERS: [Number; 4] = [
    ("max_body", 65_536, bounds::QUEUED_BODY, Unit::One),
    ("attempts", 5, bounds::ATTEMPTS, Unit::One),
    ("backoff", 10_000, bounds::DELIVERY_BACKOFF_MS, Unit::Ms),
    ("keep", 86_400_000, bounds::KEEP_MS, Unit::Ms),
];

/// `Some(None)` when it was not written.
#[allow(clippy::option_option, reason = "wrong, absent and written are three things")]
pub(super) fn over_limit(
    table: &Table<'_>,
    algorithm: Option<Algorithm>,
    shadow: Option<bool>,
) -> Option<Option<OverLimit>> {
    let Some(field) = table.get("over_limit") else {
        return Some(None);
    };
    let waits = queue(&field);
    if algorithm == Some(Algorithm::Concurrency) {
        field.wrong(
            "nobody knows when a slot comes free, so nothing can wait for that moment",
            "write it on a rate limit of the route, or wait by the slots API",
        );
        return None;
    }
    if shadow == Some(true) {
        field
            .wrong("a limit in shadow refuses nothing that could wait", "remove it, or write shadow = false");
        return None;
    }
    waits.map(|queue| Some(OverLimit::Queue(queue)))
}

fn queue(field: &Field<'_>) -> Option<Queue> {
    let table = field.table(OVER_LIMIT)?;
    let queue = table
        .required("queue", "write queue = \"NAME\" with the name wrangler.toml gives the queue's binding")
        .and_then(|field| binding(&field));
    let named = table.get("dead_letter");
    let dead_letter = match &named {
        Some(field) => binding(field),
        None => queue.as_ref().map(|queue| format!("{queue}_DEAD")),
    };
    let number = |(name, default, range, unit): Number| {
        or(table.get(name), default, |field| match unit {
            Unit::One => field.whole(range),
            Unit::Ms => field.duration(range),
        })
    };
    let [max_body, attempts, backoff_ms, keep_ms] = NUMBERS.map(number);
    let (queue, dead_letter) = (queue?, dead_letter?);
    if let Some(field) = named.filter(|_| dead_letter == queue) {
        field.wrong("dead letters would come back by the queue they died in", "name the binding of another");
        return None;
    }
    Some(Queue {
        queue,
        dead_letter,
        max_body: max_body?,
        attempts: attempts?,
        backoff_ms: backoff_ms?,
        keep_ms: keep_ms?,
    })
}

fn binding(field: &Field<'_>) -> Option<String> {
    let cure = "write the name alone that wrangler.toml gives the queue's binding, such as \"WEBHOOKS\"";
    field.parsed(|given| text::binding(given).map_err(|wrong| Wrong { cure: cure.to_owned(), ..wrong }))
}
