//! `over_limit`: what a request gets that a limit would refuse, instead of a refusal.

use super::fields::{Field, Table};
use super::gateway::or;
use crate::policy::error::Wrong;
use crate::policy::{Algorithm, OverLimit, Queue, bounds, text};

/// Fields of `over_limit`.
pub(super) const OVER_LIMIT: &[&str] =
    &["queue", "dead_letter", "max_body", "max_depth", "attempts", "backoff", "keep"];

/// What a number counts.
#[derive(Clone, Copy)]
enum Unit {
    One,
    Ms,
}

/// A field with its default and its bounds.
type Number = (&'static str, u64, (u64, u64), Unit);

const NUMBERS: [Number; 5] = [
    ("max_body", 65_536, bounds::QUEUED_BODY, Unit::One),
    ("max_depth", 10_000, bounds::QUEUE_DEPTH, Unit::One),
    ("attempts", 5, bounds::ATTEMPTS, Unit::One),
    ("backoff", 10_000, bounds::DELIVERY_BACKOFF_MS, Unit::Ms),
    ("keep", 86_400_000, bounds::KEEP_MS, Unit::Ms),
];

/// What of it is wrong is reported, and something else stands in for it: no policy comes of an error.
pub(super) fn over_limit(
    table: &Table<'_>,
    algorithm: Option<Algorithm>,
    shadow: Option<bool>,
) -> Option<Box<OverLimit>> {
    let field = table.get("over_limit")?;
    if algorithm == Some(Algorithm::Concurrency) {
        field.wrong(
            "nobody knows when a slot comes free, so nothing can wait for that moment",
            "write it on a rate limit of the route, or wait by the slots API",
        );
    }
    if shadow == Some(true) {
        field
            .wrong("a limit in shadow refuses nothing that could wait", "remove it, or write shadow = false");
    }
    let table = field.table(OVER_LIMIT)?;
    let queue = table
        .required("queue", "write queue = \"NAME\" with the name wrangler.toml gives the queue's binding")
        .map(|field| binding(&field))
        .unwrap_or_default();
    let dead_letter = match table.get("dead_letter") {
        Some(field) => {
            let dead_letter = binding(&field);
            if dead_letter == queue && !queue.is_empty() {
                field.wrong(
                    "dead letters would come back by the queue they died in",
                    "name the binding of another",
                );
            }
            dead_letter
        }
        None => format!("{queue}_DEAD"),
    };
    let number = |(name, default, range, unit): Number| {
        let field = table.get(name);
        let read = |field: &Field<'_>| match unit {
            Unit::One => field.whole(range),
            Unit::Ms => field.duration(range),
        };
        or(field, default, read).unwrap_or_default()
    };
    let [max_body, max_depth, attempts, backoff_ms, keep_ms] = NUMBERS.map(number);
    Some(Box::new(OverLimit::Queue(Queue {
        queue,
        dead_letter,
        max_body,
        max_depth,
        attempts,
        backoff_ms,
        keep_ms,
    })))
}

fn binding(field: &Field<'_>) -> String {
    let cure = "write the name alone that wrangler.toml gives the queue's binding, such as \"WEBHOOKS\"";
    let read = |given: &str| text::binding(given).map_err(|wrong| Wrong::new(wrong.problem, cure));
    field.parsed(read).unwrap_or_default()
}
