//! `over_limit`: what becomes of a request that a limit would refuse.

use super::fields::{Field, Table};
use crate::policy::error::Wrong;
use crate::policy::{Algorithm, Capacity, Delay, OverLimit, bounds, duration};

/// Fields of `over_limit`.
pub(super) const OVER_LIMIT: &[&str] = &["delay", "waiting"];

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
    let over = delay(&field);
    let fits = fits(&field, algorithm, shadow);
    let alone = alone(table, &field);
    over.filter(|_| fits && alone).map(Some)
}

fn delay(field: &Field<'_>) -> Option<OverLimit> {
    let table = field.table(OVER_LIMIT)?;
    let ms =
        table.required("delay", "write delay = \"2s\"").and_then(|field| field.duration(bounds::DELAY_MS));
    let waiting = table.get("waiting").map_or(Some(WAITING), |field| field.whole(bounds::WAITING));
    Some(OverLimit::Delay(Delay { ms: ms?, waiting: waiting?.try_into().ok()? }))
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

/// Whether the limit acts, and gives each request a moment of its own.
fn fits(field: &Field<'_>, algorithm: Option<Algorithm>, shadow: Option<bool>) -> bool {
    let other = algorithm.filter(|algorithm| *algorithm != Algorithm::TokenBucket);
    if let Some(other) = other {
        field.wrong(
            format!("a {} gives no request a moment of its own to wait for", other.word()),
            "write algorithm = \"token-bucket\", which spaces them, or remove over_limit",
        );
    }
    let idle = shadow == Some(true);
    if idle {
        field.wrong(
            "a limit in shadow refuses nothing, so nothing waits",
            "remove it, or write shadow = false",
        );
    }
    other.is_none() && !idle
}

/// Whether the arithmetic stays exact on credit, for a quota of the limit or of one of its plans.
pub(super) fn stays_exact(
    table: &Table<'_>,
    over: OverLimit,
    capacity: Capacity,
    cost: u64,
    window_ms: u64,
) -> bool {
    let OverLimit::Delay(Delay { ms, .. }) = over;
    let Capacity { limit, burst } = capacity;
    let most = bounds::most_delay_ms(limit.get(), burst.get(), cost, window_ms);
    if ms <= most {
        return true;
    }
    let problem =
        format!("a delay of {} would leave the integers a double holds (2^53)", duration::to_text(ms));
    let cure = match most {
        0 => "write a smaller burst".to_owned(),
        most => format!("write at most {}, or a smaller burst", duration::to_text(most)),
    };
    let wrong = Wrong::new(problem, cure);
    table.get("over_limit").and_then(|field| field.checked::<()>(Err(wrong)));
    false
}
