//! `over_limit` with `queue`: a request over the limit waits in a Cloudflare Queue.

use super::fields::{Field, Table};
use super::gateway::or;
use crate::policy::error::Wrong;
use crate::policy::{Queue, bounds, text};

/// Its fields.
pub(super) const QUEUE: [&str; 7] =
    ["queue", "dead_letter", "max_body", "max_depth", "attempts", "backoff", "keep"];

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

/// Reads a table that has a `queue`. What of it is wrong is reported, and something else stands in for it: no policy comes
/// of an error.
pub(super) fn queue(table: &Table<'_>, field: &Field<'_>) -> Queue {
    let queue = binding(field);
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
    Queue { queue, dead_letter, max_body, max_depth, attempts, backoff_ms, keep_ms }
}

fn binding(field: &Field<'_>) -> String {
    let cure = "write the name alone that wrangler.toml gives the queue's binding, such as \"WEBHOOKS\"";
    let read = |given: &str| text::binding(given).map_err(|wrong| Wrong::new(wrong.problem, cure));
    field.parsed(read).unwrap_or_default()
}
