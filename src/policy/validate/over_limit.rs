//! `over_limit`: what becomes of a request that a limit would refuse.

use super::fields::{Field, Table};
use super::queue::{QUEUE, queue};
use crate::policy::error::Wrong;
use crate::policy::{Algorithm, Capacity, Delay, OverLimit, bounds, duration};

/// Fields of `over_limit` with `delay`.
const DELAY: [&str; 2] = ["delay", "waiting"];

/// Fields of `over_limit`.
pub(super) const OVER_LIMIT: &[&str] =
    &["delay", "waiting", "queue", "dead_letter", "max_body", "max_depth", "attempts", "backoff", "keep"];

/// How many requests of a limit wait in one isolate where the policy does not say.
const WAITING: u64 = 1_000;

/// Reads `over_limit` of a limit: `Some(None)` when it was not written.
#[allow(clippy::option_option, reason = "wrong, absent and written are three things")]
pub(super) fn over_limit(
    table: &Table<'_>,
    algorithm: Option<Algorithm>,
    shadow: Option<bool>,
) -> Option<Option<OverLimit>> {
    // Of a concurrency limit it is refused with the other fields of rates.
    let Some(field) = table.get("over_limit").filter(|_| algorithm != Some(Algorithm::Concurrency)) else {
        return Some(None);
    };
    let alone = alone(table, &field);
    let acts = shadow != Some(true);
    if !acts {
        field.wrong(
            "a limit in shadow refuses nothing, so nothing waits",
            "remove it, or write shadow = false",
        );
    }
    let over = waits(&field, algorithm);
    over.filter(|_| acts && alone).map(Some)
}

/// Whether nothing else of the limit changes what those who wait have been told. Permits see to themselves.
fn alone(table: &Table<'_>, field: &Field<'_>) -> bool {
    let settles = table.get("settle").is_some();
    if settles {
        field.wrong(
            "over_limit and settle do not go together: a cost that settles moves the moments of those who wait",
            "leave one of the two out",
        );
    }
    !settles
}

/// Either kind of waiting, and nothing of the other.
fn waits(field: &Field<'_>, algorithm: Option<Algorithm>) -> Option<OverLimit> {
    let table = field.table(OVER_LIMIT)?;
    let (over, foreign, other) = match (table.get("delay"), table.get("queue")) {
        (Some(time), None) => {
            let over = delay(&table, &time).filter(|_| has_moments(field, algorithm));
            (over.map(OverLimit::Delay), &QUEUE[1..], "queue")
        }
        (None, Some(named)) => {
            (Some(OverLimit::Queue(Box::new(queue(&table, &named)))), &DELAY[1..], "delay")
        }
        (Some(_), Some(_)) => {
            field.wrong("a request waits here or in a queue, not in both", "remove delay, or remove queue");
            return None;
        }
        (None, None) => {
            field.wrong(
                "says neither delay nor queue",
                "write delay = \"2s\" to hold requests, or queue = \"NAME\" with the name of a queue's binding",
            );
            return None;
        }
    };
    let strangers: Vec<_> = foreign.iter().filter_map(|name| table.get(name)).collect();
    for stranger in &strangers {
        stranger.wrong(format!("goes with {other}, which is not written"), "remove it");
    }
    over.filter(|_| strangers.is_empty())
}

fn delay(table: &Table<'_>, time: &Field<'_>) -> Option<Delay> {
    let ms = time.duration(bounds::DELAY_MS);
    let waiting = table.get("waiting").map_or(Some(WAITING), |field| field.whole(bounds::WAITING));
    Some(Delay { ms: ms?, waiting: waiting?.try_into().ok()? })
}

/// Whether the limit gives each request a moment of its own.
fn has_moments(field: &Field<'_>, algorithm: Option<Algorithm>) -> bool {
    let Some(other) = algorithm.filter(|algorithm| *algorithm != Algorithm::TokenBucket) else {
        return true;
    };
    field.wrong(
        format!("a {} gives no request a moment of its own to wait for", other.word()),
        "write algorithm = \"token-bucket\", which spaces them, or remove over_limit",
    );
    false
}

/// Whether the arithmetic stays exact on credit, for a quota of the limit or of one of its plans.
pub(super) fn stays_exact(
    table: &Table<'_>,
    delay: Delay,
    capacity: Capacity,
    cost: u64,
    window_ms: u64,
) -> bool {
    let Capacity { limit, burst } = capacity;
    let most = bounds::most_delay_ms(limit.get(), burst.get(), cost, window_ms);
    if delay.ms <= most {
        return true;
    }
    let problem =
        format!("a delay of {} would leave the integers a double holds (2^53)", duration::to_text(delay.ms));
    let cure = match most {
        0 => "write a smaller burst".to_owned(),
        most => format!("write at most {}, or a smaller burst", duration::to_text(most)),
    };
    let wrong = Wrong::new(problem, cure);
    table.get("over_limit").and_then(|field| field.checked::<()>(Err(wrong)));
    false
}
