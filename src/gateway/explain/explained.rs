//! What is said of one limit.

use serde::Serialize;

use crate::policy::{OverLimit, duration};

/// One limit of the request's route.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// Its name.
    pub name: String,
    /// As the policy writes it.
    pub algorithm: &'static str,
    /// Counts and reports, never refuses.
    pub shadow: bool,
    /// Whether it counts this request.
    pub applies: Applies,
    /// What the subject may use.
    pub quota: Numbers,
    /// The plan, where the limit has plans.
    pub plan: Option<Plan>,
    /// What the request costs, where it is counted.
    pub cost: Option<Price>,
    /// How that settles after the answer, where it does.
    pub settle: Option<Settles>,
    /// The parts it counts by, with what the request holds.
    pub key: Vec<Part>,
    /// As the policy writes it.
    pub on_missing_key: &'static str,
    /// Key of the subject's state in the store.
    pub store_key: Option<String>,
    /// Key of the subject's override, which would replace the quota.
    pub override_key: Option<String>,
    /// What a subject that has used nothing gets.
    pub from_idle: Option<FromIdle>,
    /// As the policy writes it.
    pub on_store_error: &'static str,
    /// What one isolate grants while the store is down, if it is the isolate that decides.
    pub degraded: Option<Numbers>,
    /// Whom the limit exempts.
    pub exempt: Exemptions,
    /// The attribute that names a logical request, with what the request holds.
    pub idempotency: Option<Part>,
    /// Where and how a request waits that is over it.
    pub over_limit: Option<Waits>,
    /// How an isolate takes permits, if it does.
    pub permits: Option<Permits>,
    /// The answer to a request that the limit cannot count.
    pub problem: Option<Problem>,
}

/// Permits that an isolate takes in one call and spends alone.
#[derive(Debug, Serialize)]
pub struct Permits {
    /// Most units in one call.
    pub batch: u64,
    /// For how long they may be spent.
    pub ttl: String,
}

/// Whether a limit counts a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Applies {
    /// It does.
    Counted,
    /// The limit or the plan is `"unlimited"`.
    Unlimited,
    /// The request is exempt.
    Exempt,
    /// A key part is missing, and `on_missing_key` is `skip`.
    Skipped,
    /// The limit or the plan is `"blocked"`: 429.
    Blocked,
    /// The request lacks something or asks for an impossible cost: 400.
    Faulty,
}

/// A quota in numbers.
#[derive(Debug, Serialize)]
pub struct Numbers {
    /// Units per window, or slots at once; a word where it is `"unlimited"` or `"blocked"`.
    pub limit: serde_json::Value,
    /// Units at once from idle, for a token bucket.
    pub burst: Option<u64>,
    /// As the policy writes it; a concurrency limit has none.
    pub window: Option<String>,
    /// As the policy writes it, of a concurrency limit.
    pub lease: Option<String>,
}

/// Where requests wait that are over a limit.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Waits {
    /// In the isolate, for their moment.
    Here {
        /// The longest wait, as the policy writes it.
        delay: String,
        /// Most requests of the limit that wait in one isolate.
        waiting: usize,
    },
    /// In a queue.
    Queue {
        /// Its binding.
        queue: String,
        /// Binding of the queue of dead letters.
        dead_letter: String,
        /// How often the origin is tried.
        attempts: u64,
    },
}

impl Waits {
    pub(super) fn of(over: &OverLimit) -> Self {
        match over {
            OverLimit::Delay(delay) => {
                Self::Here { delay: duration::to_text(delay.ms), waiting: delay.waiting }
            }
            OverLimit::Queue(queue) => Self::Queue {
                queue: queue.queue.clone(),
                dead_letter: queue.dead_letter.clone(),
                attempts: queue.attempts,
            },
        }
    }
}

/// How the plan was found.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The attribute that names it.
    pub part: String,
    /// What the request holds.
    pub value: Option<String>,
    /// Whether there is a plan of that name; without, the limit's own quota holds.
    pub known: bool,
}

/// A cost and where it comes from.
#[derive(Debug, Serialize)]
pub struct Price {
    /// Units.
    pub units: u64,
    /// The header that may carry it.
    pub header: Option<String>,
    /// Whether it did.
    pub stated: bool,
    /// Greatest that it may carry.
    pub max: u64,
}

/// Where the real cost comes from.
#[derive(Debug, Serialize)]
pub struct Settles {
    /// Header of the origin's answer.
    pub header: String,
    /// Greatest cost that is believed.
    pub max: u64,
    /// As the policy writes it.
    pub within: String,
}

/// An attribute of the request.
#[derive(Debug, Serialize)]
pub struct Part {
    /// As the policy writes it.
    pub part: String,
    /// What the request holds; `None` for nothing.
    pub value: Option<String>,
    /// Where nothing is held: how the checker is told of it.
    pub give: Option<String>,
}

/// What a subject that has used nothing gets.
#[derive(Debug, Serialize)]
pub struct FromIdle {
    /// Whether the request passes.
    pub passes: bool,
    /// Units left afterwards.
    pub remaining: u64,
}

/// Whom a limit exempts.
#[derive(Debug, Default, Serialize)]
pub struct Exemptions {
    /// What exempts this request.
    pub by: Option<String>,
    /// All that would.
    pub rules: Vec<String>,
    /// Rules whose binding is not set here, so that they exempt nobody.
    pub unset: Vec<String>,
}

/// A refusal that no count would change.
#[derive(Debug, Serialize)]
pub struct Problem {
    /// HTTP status.
    pub status: u16,
    /// What is wrong, as the client is told.
    pub detail: String,
}
