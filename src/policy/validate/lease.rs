//! `algorithm`, with the time it counts over: the window of a rate limit, the lease of a concurrency limit.

use super::fields::{Field, Table};
use crate::policy::{Algorithm, bounds, duration};

/// Fields that say nothing of how many may run at once, with what to do instead. `burst` is refused with the quotas.
const OF_RATES: [(&str, &str); 4] = [
    ("window", "write lease = \"30s\" instead"),
    ("cost", "remove it: each request takes one slot"),
    ("idempotency", "write it on a rate limit of the route: a repeat holds no slot of its own"),
    ("over_limit", "remove it: who waits for a slot asks the slots API with ?wait=5s"),
];

/// How a limit counts, and over how long.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) algorithm: Option<Algorithm>,
    /// Window or lease in milliseconds.
    pub(super) ms: Option<u64>,
    /// `false` where a field of the other kind was written.
    pub(super) sound: bool,
}

impl Span {
    pub(super) fn of(table: &Table<'_>, least_lease_ms: Option<u64>) -> Self {
        let algorithm = table.required("algorithm", ALGORITHM_CURE).and_then(|field| algorithm(&field));
        if algorithm == Some(Algorithm::Concurrency) {
            let sound = without_rates(table);
            let field = table.required("lease", "write lease = \"30s\"");
            return Self { algorithm, ms: field.and_then(|field| lease(&field, least_lease_ms)), sound };
        }
        let sound = without_lease(table, algorithm);
        let field = table.required("window", "write window = \"1m\"");
        let ms = field.and_then(|field| field.duration((bounds::MIN_WINDOW_MS, bounds::MAX_WINDOW_MS)));
        Self { algorithm, ms, sound }
    }
}

const ALGORITHM_CURE: &str = "write algorithm = \"token-bucket\", \"fixed-window\", \"sliding-window\", \
    \"sliding-log\" or \"concurrency\"";

fn algorithm(field: &Field<'_>) -> Option<Algorithm> {
    field.choice(&Algorithm::ALL.map(|algorithm| (algorithm.word(), algorithm)))
}

fn without_rates(table: &Table<'_>) -> bool {
    let mut sound = true;
    for (name, cure) in OF_RATES {
        if let Some(field) = table.get(name) {
            field.wrong(format!("a concurrency limit has no {name}"), cure);
            sound = false;
        }
    }
    sound
}

/// Where the algorithm is wrong, its own error is enough.
fn without_lease(table: &Table<'_>, algorithm: Option<Algorithm>) -> bool {
    let Some(field) = table.get("lease").filter(|_| algorithm.is_some()) else { return true };
    field.wrong("only a concurrency limit has a lease", "remove it, or write algorithm = \"concurrency\"");
    false
}

/// A lease must outlast its renewal, however slow the store may be.
fn lease(field: &Field<'_>, least_ms: Option<u64>) -> Option<u64> {
    let lease_ms = field.duration(bounds::LEASE_MS)?;
    let least_ms = least_ms.unwrap_or(bounds::LEASE_MS.0);
    if lease_ms >= least_ms {
        return Some(lease_ms);
    }
    let (lease, renewal) = (duration::to_text(lease_ms), duration::to_text(bounds::renewal_ms(lease_ms)));
    field.wrong(
        format!(
            "a lease of {lease}, renewed every {renewal}, may end before the store has answered: \
             1.2 renewals, store.timeout and store.retry.backoff must fit into it"
        ),
        format!("write at least {}", duration::to_text(least_ms)),
    );
    None
}
