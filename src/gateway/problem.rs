//! Problem documents (RFC 9457) for everything that is refused. None shows a store's URL, a token, a key, a
//! script or a subject.

use serde::Serialize;

use super::answer::Answer;
use super::outcome::{Line, Outcome, Reason, Tier};
use super::prepared::Prepared;
use crate::policy::{KeyPart, duration};
use crate::subject::LONGEST_VALUE;

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    violated: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

/// A problem without more to it than a status and a sentence.
pub fn plain(status: u16, title: &str, detail: &str) -> Answer {
    answer(&Problem { kind: "about:blank", title, status, detail, violated: None, retry_after: None })
}

/// The answer to a request whose place in the memory of the isolate is gone.
pub fn interrupted() -> Answer {
    plain(503, "Interrupted", "the gateway was restarted; try again")
}

/// The answer to a call of the API that the store did not answer.
pub fn unanswered(detail: &str, retry_ms: u64) -> Answer {
    let retry_after = seconds(retry_ms);
    let title = "Store unavailable";
    let problem = Problem {
        kind: "about:blank",
        title,
        status: 503,
        detail,
        violated: None,
        retry_after: Some(retry_after),
    };
    let mut answer = answer(&problem);
    answer.headers.push(("Retry-After", retry_after.to_string()));
    answer
}

/// The answer to a call that cannot be read.
pub fn bad_request(detail: &str) -> Answer {
    plain(400, "Bad request", detail)
}

/// The answer to a call whose body is longer than it may be.
pub fn body_too_large(longest: u64) -> Answer {
    plain(413, "Body too large", &format!("the body must be of at most {longest} bytes"))
}

/// The answer to a call about a limit that the policy does not have.
pub fn unknown_limit(name: &str, limits: &[Prepared]) -> Answer {
    let known: Vec<&str> = limits.iter().map(|known| known.limit.name.as_str()).collect();
    let known = if known.is_empty() { "the policy has none".to_owned() } else { known.join(", ") };
    plain(404, "Unknown limit", &format!("no limit is named {name:?}; known are: {known}"))
}

/// The answer to a call by another method than those it takes.
pub fn method_not_allowed(call: &str, methods: &str) -> Answer {
    let mut answer = plain(405, "Method not allowed", &format!("{call} takes {methods}"));
    answer.headers.push(("Allow", methods.to_owned()));
    answer
}

/// The answer to another request under an idempotency key that was used.
pub fn conflict() -> Answer {
    plain(422, "Idempotency key reused", "another request was made under this idempotency key")
}

/// The same refusal where it is for want of a place in the queue.
pub fn queue_full(refusal: &str) -> String {
    refusal.replacen(" are taken (", " are taken and no more may wait (", 1)
}

/// The answer to a request whose key cannot be taken whole.
pub fn too_long(part: &KeyPart) -> Answer {
    let detail = format!("{part} is longer than {LONGEST_VALUE} bytes");
    plain(431, "Request header field too large", &detail)
}

/// Whole seconds, rounded up and at least 1: what `Retry-After` says.
pub fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1000).max(1)
}

/// The answer to a request that its limits refuse.
pub fn refusal(outcome: &Outcome, limits: &[Prepared]) -> Answer {
    let retry_after = outcome.retry_after_ms.map(seconds);
    let first = outcome.tightest();
    let (status, kind, title) = match (outcome.refused, outcome.tier) {
        (Some(Reason::StoreUnavailable), _) => (503, REDUCED_CAPACITY, "Temporary reduced capacity"),
        (_, Tier::Degraded) => (429, REDUCED_CAPACITY, "Temporary reduced capacity"),
        _ => (429, QUOTA_EXCEEDED, "Quota exceeded"),
    };
    let again = retry_after.map_or(String::new(), |s| format!("; try again in {s} s"));
    let detail = match (outcome.refused, first) {
        (Some(Reason::StoreUnavailable), _) => {
            format!("The limits of this request cannot be checked now{again}.")
        }
        (_, Some(line)) => format!("{}{again}.", sentence(line, outcome, limits)),
        _ => "Refused.".to_owned(),
    };
    let violated = outcome.violated().filter_map(|line| name(line, limits)).collect();
    let mut answer =
        answer(&Problem { kind, title, status, detail: &detail, violated: Some(violated), retry_after });
    if let Some(seconds) = retry_after {
        answer.headers.push(("Retry-After", seconds.to_string()));
    }
    answer
}

fn sentence(line: &Line, outcome: &Outcome, limits: &[Prepared]) -> String {
    let name = name(line, limits).unwrap_or_default();
    let (limit, window) = (line.verdict.limit, duration::to_text(line.window_ms));
    let concurrency = limits.get(line.limit).is_some_and(Prepared::is_concurrency);
    match (outcome.refused, outcome.tier) {
        (Some(Reason::Blocked), _) => format!("{name} lets nothing pass"),
        (Some(Reason::CostExceedsCapacity), _) => {
            format!(
                "cost-exceeds-capacity: a cost of {} can never fit {limit} per {window} of {name}",
                line.cost
            )
        }
        (_, Tier::Degraded) if concurrency => {
            format!("all slots of {name} are taken at reduced capacity ({limit} at once)")
        }
        _ if concurrency => format!("all slots of {name} are taken ({limit} at once)"),
        (_, Tier::Degraded) => format!("{limit} per {window} for {name} is used up at reduced capacity"),
        _ => format!("{limit} per {window} for {name} is used up"),
    }
}

fn name<'a>(line: &Line, limits: &'a [Prepared]) -> Option<&'a str> {
    limits.get(line.limit).map(|prepared| prepared.limit.name.as_str())
}

fn answer(problem: &Problem<'_>) -> Answer {
    let headers = vec![
        ("Content-Type", "application/problem+json".to_owned()),
        ("Cache-Control", "no-store".to_owned()),
    ];
    let body = serde_json::to_string(problem).unwrap_or_default();
    Answer { status: problem.status, headers, body }
}

/// The answer to a request whose origin could not be reached (502) or was too slow (504).
pub fn origin_failed(status: u16) -> Answer {
    match status {
        504 => plain(504, "Gateway timeout", "the origin did not answer in time"),
        _ => plain(502, "Bad gateway", "the origin could not be reached, or did not answer in HTTP"),
    }
}

/// The answer to any request under a policy that is wrong; only the health check says why.
pub fn bad_policy<'a>(errors: impl Iterator<Item = &'a String>, url: &str) -> Answer {
    if crate::subject::request::split_url(url).path == "/.sluicegate/health" {
        let errors: Vec<&String> = errors.collect();
        let body = serde_json::json!({ "status": "bad-policy", "errors": errors }).to_string();
        return Answer::json(503, body);
    }
    plain(500, "Bad policy", "the gateway's policy is wrong; its log and health check say why")
}
