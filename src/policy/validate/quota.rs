//! `limit`, `burst` and `plans`: what one subject may use.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use super::fields::{Field, Table};
use super::over_limit;
use crate::policy::document::Value;
use crate::policy::error::Wrong;
use crate::policy::{Algorithm, Capacity, Cost, Delay, Quota, bounds};

/// Fields of a plan written as a table.
pub(super) const PLAN: &[&str] = &["limit", "burst"];

/// The quotas of one limit.
pub(super) struct Quotas {
    pub(super) base: Quota,
    pub(super) plans: BTreeMap<String, Quota>,
}

/// What the quotas' numbers are checked with.
#[derive(Clone, Copy)]
pub(super) struct Terms<'c> {
    pub(super) algorithm: Algorithm,
    pub(super) window_ms: u64,
    pub(super) cost: &'c Cost,
    pub(super) delay: Option<Delay>,
}

/// A quota's number before its burst is known.
#[derive(Clone, Copy)]
enum Written {
    Unlimited,
    Blocked,
    Number(NonZeroU64),
}

/// Reads `limit`, `burst` and `plans` of a limit. Without `terms` (when they were wrong) the kinds of the fields
/// are checked all the same, and the answer is `None`.
pub(super) fn quotas(table: &Table<'_>, terms: Option<Terms<'_>>) -> Option<Quotas> {
    let base_field = table.required("limit", "write limit = 100, \"unlimited\" or \"blocked\"");
    let written = base_field.as_ref().and_then(limit);
    let burst = burst(table, terms.map(|terms| terms.algorithm), written);
    let plans = plans(table, terms.map(|terms| terms.algorithm));
    let (terms, written, burst, plans) = (terms?, written?, burst?, plans?);

    let base = quota(terms.algorithm, written, burst);
    let mut sound = base_field.is_some_and(|field| fits(&field, "the limit", base, terms, table));
    let mut by_name = BTreeMap::new();
    for (name, plan) in plans {
        // A plan without a burst of its own keeps the limit's proportion.
        let burst = plan.burst.or_else(|| proportional(burst, plan.limit, written));
        let quota = quota(terms.algorithm, plan.limit, burst);
        sound &= fits(&plan.field, &format!("the plan \"{name}\""), quota, terms, table);
        by_name.insert(name, quota);
    }
    sound &= payable(base, &by_name, terms, table);
    sound.then_some(Quotas { base, plans: by_name })
}

/// Whether somebody can pay the greatest cost that a client may ask for. That some plans cannot is no mistake.
fn payable(base: Quota, plans: &BTreeMap<String, Quota>, terms: Terms<'_>, table: &Table<'_>) -> bool {
    let mut greatest = None;
    for quota in [&base].into_iter().chain(plans.values()) {
        match quota {
            Quota::Unlimited => return true,
            Quota::Blocked => {}
            Quota::Limited(capacity) => greatest = greatest.max(Some(capacity.burst.get())),
        }
    }
    let (max, Some(most)) = (terms.cost.max, greatest) else { return true };
    if terms.cost.header.is_none() || max <= most {
        return true;
    }
    let wrong = Wrong::new(
        format!("the cost maximum {max} is above the greatest capacity {most}, so it could never pass"),
        format!("write at most {most}, or raise the limit or a plan"),
    );
    table.get("cost").and_then(|cost| cost.checked::<()>(Err(wrong)));
    false
}

fn limit(field: &Field<'_>) -> Option<Written> {
    const CURE: &str = "write a number, \"unlimited\" or \"blocked\"";
    match field.value() {
        Value::Int(0) => field.wrong("the limit is 0", "write \"blocked\" to let nothing pass"),
        Value::Int(number) => match u64::try_from(*number).ok().and_then(NonZeroU64::new) {
            Some(number) => return Some(Written::Number(number)),
            None => field.wrong(format!("the limit {number} is negative"), CURE),
        },
        Value::String(text) => match text.as_str() {
            "unlimited" => return Some(Written::Unlimited),
            "blocked" => return Some(Written::Blocked),
            _ => field.wrong(format!("\"{text}\" is not a limit"), CURE),
        },
        _ => field.mismatch("a limit", CURE),
    }
    None
}

/// `burst` of a limit or a plan: `Some(None)` when it was not written.
#[allow(clippy::option_option, reason = "wrong, absent and written are three things")]
fn burst(
    table: &Table<'_>,
    algorithm: Option<Algorithm>,
    limit: Option<Written>,
) -> Option<Option<NonZeroU64>> {
    let Some(field) = table.get("burst") else {
        return Some(None);
    };
    if algorithm.is_some_and(|algorithm| algorithm != Algorithm::TokenBucket) {
        field.wrong("only a token-bucket has a burst", "remove it, or write algorithm = \"token-bucket\"");
        return None;
    }
    if matches!(limit, Some(Written::Unlimited | Written::Blocked)) {
        field.wrong("a burst needs a limit that is a number", "remove it, or give a plan its own burst");
        return None;
    }
    field.whole(bounds::BURST).map(NonZeroU64::new)
}

struct Plan<'a> {
    field: Field<'a>,
    limit: Written,
    burst: Option<NonZeroU64>,
}

fn plans<'a>(table: &Table<'a>, algorithm: Option<Algorithm>) -> Option<Vec<(String, Plan<'a>)>> {
    let Some(field) = table.get("plans") else {
        return Some(Vec::new());
    };
    let entries = field.entries()?;
    if entries.is_empty() {
        field.wrong("there is no plan", "write plans = { name = 100 }, or remove plan and plans");
        return None;
    }
    let read = entries.into_iter().map(|(name, field)| {
        let plan = plan(field.clone(), algorithm);
        if name.is_empty() || name.contains(char::is_control) {
            field.wrong(format!("\"{}\" is not a plan's name", name.escape_default()), "write a word");
            return None;
        }
        Some((name.to_owned(), plan?))
    });
    read.collect::<Vec<_>>().into_iter().collect()
}

fn plan(field: Field<'_>, algorithm: Option<Algorithm>) -> Option<Plan<'_>> {
    if !matches!(field.value(), Value::Table(_)) {
        return limit(&field).map(|limit| Plan { field, limit, burst: None });
    }
    let table = field.table(PLAN)?;
    let limit = table.required("limit", "write { limit = 100 }").and_then(|field| limit(&field));
    let burst = burst(&table, algorithm, limit);
    Some(Plan { field, limit: limit?, burst: burst? })
}

fn quota(algorithm: Algorithm, written: Written, burst: Option<NonZeroU64>) -> Quota {
    match written {
        Written::Unlimited => Quota::Unlimited,
        Written::Blocked => Quota::Blocked,
        Written::Number(limit) => {
            let burst = burst.filter(|_| algorithm == Algorithm::TokenBucket).unwrap_or(limit);
            Quota::Limited(Capacity { limit, burst })
        }
    }
}

/// ⌈burst × plan ÷ limit⌉; saturates where the bounds will refuse it anyway.
fn proportional(burst: Option<NonZeroU64>, plan: Written, base: Written) -> Option<NonZeroU64> {
    let (Some(burst), Written::Number(plan), Written::Number(base)) = (burst, plan, base) else {
        return None;
    };
    let product = u128::from(burst.get()).saturating_mul(u128::from(plan.get()));
    NonZeroU64::new(u64::try_from(product.div_ceil(u128::from(base.get()))).unwrap_or(u64::MAX))
}

/// Whether the arithmetic stays exact and a request that says nothing of its cost can pass at all.
fn fits(field: &Field<'_>, what: &str, quota: Quota, terms: Terms<'_>, table: &Table<'_>) -> bool {
    let Quota::Limited(capacity) = quota else {
        return true;
    };
    let Terms { algorithm, window_ms, cost, delay } = terms;
    let exact = field.checked(bounds::check(algorithm, capacity, cost.max, window_ms));
    // Where the quota itself is too large, that is the error to mend first.
    let owed = exact.is_none()
        || delay.is_none_or(|delay| over_limit::stays_exact(table, delay, capacity, cost.max, window_ms));
    // One number for every algorithm: the burst is the limit where there is none.
    let most = capacity.burst.get();
    let passable = cost.default <= most;
    if !passable {
        let which = if cost.header.is_some() { "the default cost" } else { "the cost" };
        let wrong = Wrong::new(
            format!(
                "{which} {} is above the capacity {most} of {what}, so it could never pass",
                cost.default
            ),
            format!("write at most {most}, or raise {what}"),
        );
        table.get("cost").and_then(|cost| cost.checked::<()>(Err(wrong)));
    }
    exact.is_some() && passable && owed
}
