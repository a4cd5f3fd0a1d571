//! An explanation for people: one fact a line, named on the left.

use std::fmt;

use super::explained::{Applies, Explained, Numbers, Part, Settles, Waits};
use super::{Course, Expected, Explanation, StoreDown, Taken};

/// Columns that a line's name takes.
const WIDTH: usize = 16;

/// Writes a line of an indented block.
fn line(out: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(out, "  {name:WIDTH$}{text}")
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} {}", self.method, self.url)?;
        line(out, "host", &self.host)?;
        line(out, "path", &self.path)?;
        line(out, "route", &self.route_text())?;
        if let Some(other) = &self.read_otherwise {
            line(out, "read otherwise", &taken(other))?;
        }
        if self.optimistic {
            line(
                out,
                "optimistic",
                "the origin is asked while the store decides; a refusal throws its answer away",
            )?;
        }
        for limit in &self.limits {
            writeln!(out)?;
            one(out, limit)?;
        }
        writeln!(out)?;
        if self.limits.iter().any(|limit| limit.store_key.is_some()) {
            let digests = if self.keyed_digests {
                "HMAC under KEY_SECRET"
            } else {
                "SHA-256, as KEY_SECRET is not set"
            };
            line(out, "digests", digests)?;
        }
        if let Some(answer) = &self.answer {
            let idle = if self.store_down.is_some() { ", if its subjects have used nothing yet" } else { "" };
            expected(out, answer, idle)?;
        }
        self.store_down.as_ref().map_or(Ok(()), |down| line(out, "store down", &down.text()))
    }
}

impl Explanation {
    fn route_text(&self) -> String {
        let route = self.route.as_ref().map_or(String::new(), taken);
        match self.course {
            Course::Refused => "none: the URL is too long, or has no host".to_owned(),
            Course::Own => "none: a path of the gateway's own, never limited and never forwarded".to_owned(),
            Course::Loop => "none: Via names this gateway, so the request has been here before".to_owned(),
            Course::Unmatched => {
                let forwarded = self.answer.as_ref().is_some_and(|answer| answer.forwarded_to.is_some());
                let then = if forwarded { "passes without a limit" } else { "is refused" };
                let near = self.nearest.as_ref().map_or(String::new(), |near| {
                    let method = (near.method != self.method).then(|| format!(" with {}", near.method));
                    let host = (near.host != self.host).then(|| format!(" on the host {}", near.host));
                    let how = [method, host].into_iter().flatten().collect::<String>();
                    format!("; the route {} would{how}", near.route)
                });
                format!("none takes it{near}; by gateway.unmatched it {then}")
            }
            Course::WithoutLimits => format!("{route}; it names no limits"),
            Course::Preflight => format!("{route}; a CORS preflight is free"),
            Course::Limited => route,
        }
    }
}

fn taken(route: &Taken) -> String {
    let methods =
        if route.methods.is_empty() { String::new() } else { format!(" {}", route.methods.join(", ")) };
    let host = route.host.as_ref().map_or(String::new(), |host| format!(" on {host}"));
    let params = route.params.iter().map(|(name, value)| format!(", {name} = {value:?}")).collect::<String>();
    format!("{}:{methods} {}{host}{params}", route.name, route.path)
}

impl StoreDown {
    fn text(&self) -> String {
        let (by, are) = (self.by.join(", "), if self.by.len() == 1 { "is" } else { "are" });
        match self.tier {
            "closed" => format!("503, as {by} {are} closed"),
            "degraded" => format!("the isolate decides alone, by {by}"),
            _ => "passes uncounted".to_owned(),
        }
    }
}

fn one(out: &mut fmt::Formatter<'_>, limit: &Explained) -> fmt::Result {
    let shadow = if limit.shadow { ", in shadow: counts and never refuses" } else { "" };
    writeln!(out, "limit {} ({}{shadow})", limit.name, limit.algorithm)?;
    line(out, "counts it", &applies(limit))?;
    line(out, "quota", &quota(limit))?;
    if let Some(cost) = &limit.cost {
        let text = match &cost.header {
            None if limit.quota.lease.is_some() => "one slot, held until the answer has ended".to_owned(),
            None => cost.units.to_string(),
            Some(header) if cost.stated => {
                format!("{}, as header {header} says (at most {})", cost.units, cost.max)
            }
            Some(header) => format!("{}, the default: no header {header} (at most {})", cost.units, cost.max),
        };
        line(out, "cost", &text)?;
    }
    if let Some(settle) = &limit.settle {
        let Settles { header, max, within } = settle;
        let text = format!("within {within} to what the answer's header {header} says (at most {max})");
        line(out, "settles", &text)?;
    }
    for (index, part) in limit.key.iter().enumerate() {
        line(out, if index == 0 { "key" } else { "" }, &part_text(part))?;
    }
    line(out, "part missing", missing(limit.on_missing_key))?;
    if let Some(key) = &limit.store_key {
        line(out, "store key", key)?;
    }
    if !limit.exempt.rules.is_empty() {
        let rules = limit.exempt.rules.join(", ");
        let by =
            limit.exempt.by.as_ref().map_or(format!("no, by none of {rules}"), |by| format!("yes, by {by}"));
        line(out, "exempt", &by)?;
        for unset in &limit.exempt.unset {
            line(out, "", &format!("{unset} is not set here, so it exempts nobody"))?;
        }
    }
    if let Some(part) = &limit.idempotency {
        line(out, "idempotency", &format!("{}; a repeat is charged once", part_text(part)))?;
    }
    if let Some(over) = &limit.over_limit {
        let text = match over {
            Waits::Here { delay, waiting } => {
                format!("held up to {delay} for its moment, {waiting} at once in an isolate, then 429")
            }
            Waits::Queue { queue, dead_letter, attempts } => {
                format!("202: waits in {queue}; after {attempts} attempts in vain in {dead_letter}")
            }
        };
        line(out, "over_limit", &text)?;
    }
    if let Some(permits) = &limit.permits {
        let text = format!(
            "{} at a time, spent alone within {}; a subject may lose as many on each isolate",
            permits.batch, permits.ttl
        );
        line(out, "permits", &text)?;
    }
    if let Some(first) = &limit.from_idle {
        let word = if first.passes { "passes" } else { "refused" };
        line(out, "from idle", &format!("{word}, {} left", first.remaining))?;
    }
    if limit.store_key.is_none() {
        return Ok(());
    }
    let store_error = match (&limit.degraded, limit.on_store_error) {
        (Some(share), word) => format!("{word}: each isolate grants {}", numbers(share)),
        (None, "closed") => "closed: 503".to_owned(),
        (None, word) => format!("{word}: passes uncounted"),
    };
    line(out, "on_store_error", &store_error)
}

fn applies(limit: &Explained) -> String {
    let problem = limit.problem.as_ref();
    match limit.applies {
        Applies::Counted => "yes".to_owned(),
        Applies::Unlimited => "no, it is unlimited".to_owned(),
        Applies::Exempt => "no, it is exempt".to_owned(),
        Applies::Skipped => "no, a key part is missing and on_missing_key is skip".to_owned(),
        Applies::Blocked if limit.shadow => "no, it is blocked, but in shadow".to_owned(),
        Applies::Blocked => "no, it is blocked: 429".to_owned(),
        Applies::Faulty => {
            problem.map_or(String::new(), |p| format!("no, it cannot: {} {}", p.status, p.detail))
        }
    }
}

fn quota(limit: &Explained) -> String {
    let numbers = numbers(&limit.quota);
    let Some(plan) = &limit.plan else { return numbers };
    match &plan.value {
        Some(name) if plan.known => format!("{numbers}: plan {name:?}, by {}", plan.part),
        Some(name) => format!("{numbers}: {} is {name:?}, which is no plan, so the limit's own", plan.part),
        None => format!("{numbers}: no {}, so the limit's own", plan.part),
    }
}

fn numbers(numbers: &Numbers) -> String {
    let burst = numbers.burst.map_or(String::new(), |burst| format!(", {burst} at once from idle"));
    match (&numbers.limit, &numbers.window, &numbers.lease) {
        (serde_json::Value::String(word), _, _) => word.clone(),
        (limit, _, Some(lease)) => format!("{limit} at once, leases of {lease}"),
        (limit, window, None) => format!("{limit} per {}{burst}", window.as_deref().unwrap_or_default()),
    }
}

fn part_text(part: &Part) -> String {
    match &part.value {
        _ if part.part == "global" => "global".to_owned(),
        Some(value) => format!("{} = {value:?}", part.part),
        None => {
            let give = part.give.as_ref().map_or(String::new(), |give| format!("; give it with {give}"));
            format!("{}: the request has none{give}", part.part)
        }
    }
}

fn missing(policy: &str) -> &'static str {
    match policy {
        "deny" => "deny: 400",
        "skip" => "skip: the limit does not apply",
        _ => "share: one counter for all such requests",
    }
}

fn expected(out: &mut fmt::Formatter<'_>, answer: &Expected, idle: &str) -> fmt::Result {
    match (&answer.forwarded_to, answer.status) {
        (Some(origin), _) => line(out, "answer", &format!("forwarded to {origin}{idle}"))?,
        (None, status) => {
            let field = |name: &str| {
                answer
                    .problem
                    .as_ref()
                    .and_then(|problem| problem.get(name)?.as_str())
                    .unwrap_or_default()
                    .to_owned()
            };
            let text = format!("{} {}: {}", status.unwrap_or_default(), field("title"), field("detail"));
            line(out, "answer", &text)?;
        }
    }
    let of_limits =
        answer.headers.iter().filter(|(name, _)| !matches!(**name, "Content-Type" | "Cache-Control"));
    for (name, value) in of_limits {
        line(out, "", &format!("{name}: {value}"))?;
    }
    Ok(())
}
