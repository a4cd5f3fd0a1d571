//! `[[limits]]`.

use std::collections::HashMap;

use super::fields::{Field, Table};
use super::quota::{self, Terms};
use super::{Defaults, Said, exempt, lease, on_missing_key, on_store_error, over_limit, permits, settle};
use crate::policy::document::Value;
use crate::policy::{Algorithm, Cost, KeyPart, Limit, OnMissingKey, OnStoreError, bounds, text};

/// Fields of a limit.
pub(super) const LIMIT: &[&str] = &[
    "name",
    "algorithm",
    "limit",
    "window",
    "burst",
    "key",
    "on_missing_key",
    "plan",
    "plans",
    "cost",
    "on_store_error",
    "shadow",
    "exempt",
    "idempotency",
    "lease",
    "over_limit",
    "lease_batch",
    "lease_ttl",
    "settle",
];
/// Fields of `cost` as a table.
pub(super) const COST: &[&str] = &["header", "default", "max"];

/// A limit as far as it could be read: routes may name it even when something in it is wrong.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) name: Option<String>,
    /// Path parameters it needs on every route that names it.
    pub(super) params: Vec<String>,
    pub(super) limit: Option<Limit>,
}

/// The limits in the order written, and where each name stands: a policy may have thousands.
pub(super) struct Drafts {
    pub(super) all: Vec<Draft>,
    by_name: HashMap<String, usize>,
}

impl Drafts {
    pub(super) fn named(&self, name: &str) -> Option<(usize, &Draft)> {
        let index = *self.by_name.get(name)?;
        self.all.get(index).map(|draft| (index, draft))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.all.iter().filter_map(|draft| draft.name.as_deref())
    }
}

/// Reads `[[limits]]`. `least_lease_ms` is the shortest lease that the store's deadline allows, where that is known.
pub(super) fn limits(top: &Table<'_>, defaults: &Defaults, least_lease_ms: Option<u64>) -> Drafts {
    let fields = top.list("limits");
    unique_names(&fields);
    let all: Vec<_> = fields.iter().map(|field| draft(field, defaults, least_lease_ms)).collect();
    let named = all.iter().enumerate().filter_map(|(index, draft)| Some((draft.name.clone()?, index)));
    let by_name = named.collect();
    Drafts { all, by_name }
}

/// Reports names that stand a second time in a list of tables.
pub(super) fn unique_names(fields: &[Field<'_>]) {
    let mut seen: HashMap<&str, String> = HashMap::new();
    for field in fields {
        let Value::Table(entries) = field.value() else {
            continue;
        };
        let written =
            entries.iter().find(|(name, _)| name == "name").map(|(_, node)| (&node.value, node.line));
        let Some((Value::String(name), line)) = written else {
            continue;
        };
        match seen.get(name.as_str()) {
            Some(place) => field
                .named("name")
                .wrong(format!("the name \"{name}\" is taken by {place}"), "give each its own"),
            None => drop(seen.insert(name, at(field.place(), line))),
        }
    }
}

/// A place with its line, where it has one.
pub(super) fn at(place: &str, line: Option<u32>) -> String {
    line.map_or_else(|| place.to_owned(), |line| format!("{place} on line {line}"))
}

fn draft(field: &Field<'_>, defaults: &Defaults, least_lease_ms: Option<u64>) -> Draft {
    let Some(table) = field.table(LIMIT) else {
        return Draft::default();
    };
    let name_field = table.required("name", "write name = \"…\"");
    let name = name_field.as_ref().and_then(|field| field.parsed(|t| text::name("name", t, text::MAX_NAME)));
    let key = table.required("key", "write key = [\"ip\"]").and_then(|field| key(&field));
    let plan = plan(&table);
    let params = key.iter().flatten().chain(plan.iter().flatten()).filter_map(|part| match part {
        KeyPart::Param(name) => Some(name.clone()),
        _ => None,
    });
    let params = params.collect();
    let written = name_field.and_then(|field| match field.value() {
        Value::String(name) => Some(name.clone()),
        _ => None,
    });
    let span = lease::Span::of(&table, least_lease_ms);
    Draft { name: written, params, limit: limit(&table, defaults, name, key, plan, span) }
}

/// The rest of a limit, whose parts `draft` needs for itself are read already.
#[allow(clippy::option_option, reason = "of `plan`: wrong, absent and written are three things")]
fn limit(
    table: &Table<'_>,
    defaults: &Defaults,
    name: Option<String>,
    key: Option<Vec<KeyPart>>,
    plan: Option<Option<KeyPart>>,
    span: lease::Span,
) -> Option<Limit> {
    let lease::Span { algorithm, ms: window_ms, sound } = span;
    let cost = match table.get("cost").filter(|_| algorithm != Some(Algorithm::Concurrency)) {
        Some(field) => cost(&field),
        None => Some(ONE_EACH),
    };
    let shadow = table.get("shadow").map_or(Some(defaults.shadow), |field| field.flag());
    let over_limit = over_limit::over_limit(table, algorithm, shadow);
    let terms = algorithm.zip(window_ms).zip(cost.as_ref());
    let delay = over_limit.as_ref().and_then(|over| over.as_ref()?.delay());
    let terms = terms.map(|((algorithm, window_ms), cost)| Terms { algorithm, window_ms, cost, delay });
    let quotas = quota::quotas(table, terms);
    let settled = settle::Terms { algorithm, window_ms, cost: cost.as_ref(), quotas: quotas.as_ref() };
    let settle = settle::settle(table, &settled);
    let missing = match table.get("on_missing_key") {
        Some(field) => on_missing_key(&field),
        None => Some(defaults.on_missing_key.unwrap_or(OnMissingKey::Deny)),
    };
    let store_error = store_error(table, defaults);
    let exempt =
        table.get("exempt").map_or_else(|| Some(defaults.exempt.clone()), |field| exempt::exempt(&field));
    let idempotency = attribute(table, "idempotency");
    let batch = permits::batch(table, terms, quotas.as_ref());
    let quotas = quotas.filter(|_| sound)?;
    Some(Limit {
        name: name?,
        algorithm: algorithm?,
        window_ms: window_ms?,
        quota: quotas.base,
        key: key?,
        on_missing_key: missing?,
        plan: plan?,
        plans: quotas.plans,
        cost: cost?,
        on_store_error: store_error?,
        shadow: shadow?,
        exempt: exempt?,
        idempotency: idempotency?,
        over_limit: over_limit?,
        batch: batch?,
        settle: settle?,
    })
}

fn store_error(table: &Table<'_>, defaults: &Defaults) -> Option<OnStoreError> {
    match (Said::of(table.get("on_store_error"), on_store_error), defaults.on_store_error) {
        (Said::This(answer), _) | (Said::Nothing, Said::This(answer)) => Some(answer),
        (Said::Wrongly, _) | (Said::Nothing, Said::Wrongly) => None,
        (Said::Nothing, Said::Nothing) => {
            table.missing(
                "on_store_error",
                "write on_store_error = \"degraded\", \"open\" or \"closed\" here or once in [defaults]",
            );
            None
        }
    }
}

fn key(field: &Field<'_>) -> Option<Vec<KeyPart>> {
    let parts = field.each(|item| item.parsed(KeyPart::parse))?;
    if parts.is_empty() {
        field.wrong("the key is empty", "write [\"ip\"], or [\"global\"] for one counter for everybody");
        return None;
    }
    let mut before: Vec<&KeyPart> = Vec::new();
    for (item, part) in field.items()?.iter().zip(&parts) {
        if before.contains(&part) {
            item.wrong(format!("the key holds \"{part}\" twice"), "write it once");
            return None;
        }
        before.push(part);
    }
    Some(parts)
}

/// `idempotency`: `Some(None)` when it was not written.
#[allow(clippy::option_option, reason = "wrong, absent and written are three things")]
fn attribute(table: &Table<'_>, name: &str) -> Option<Option<KeyPart>> {
    let Some(field) = table.get(name) else {
        return Some(None);
    };
    let part = field.parsed(KeyPart::parse)?;
    if part == KeyPart::Global {
        field.wrong("\"global\" names no request", "write a part such as \"header:idempotency-key\"");
        return None;
    }
    Some(Some(part))
}

/// `plan`: `Some(None)` when it was not written.
#[allow(clippy::option_option, reason = "wrong, absent and written are three things")]
fn plan(table: &Table<'_>) -> Option<Option<KeyPart>> {
    let plans = table.get("plans");
    let Some(field) = table.get("plan") else {
        if let Some(plans) = plans {
            plans.wrong("nothing says which plan a request has", "write plan = \"header:x-plan\" as well");
            return None;
        }
        return Some(None);
    };
    let part = field.parsed(KeyPart::parse)?;
    if part == KeyPart::Global {
        field.wrong("\"global\" holds no plan's name", "write a part such as \"header:x-plan\"");
        return None;
    }
    if plans.is_none() {
        field.wrong("there are no plans to choose from", "write plans = { name = 100 } as well");
        return None;
    }
    Some(Some(part))
}

/// What a request costs where the limit does not say.
const ONE_EACH: Cost = Cost { header: None, default: 1, max: 1 };

fn cost(field: &Field<'_>) -> Option<Cost> {
    match field.value() {
        Value::Int(_) => {
            let fixed = field.whole((0, bounds::MAX_COST))?;
            Some(Cost { header: None, default: fixed, max: fixed })
        }
        Value::Table(_) => cost_table(field),
        _ => {
            field.mismatch("a cost", "write a number, or { header = \"x-cost\", max = 100 }");
            None
        }
    }
}

fn cost_table(field: &Field<'_>) -> Option<Cost> {
    let table = field.table(COST)?;
    let header = table
        .required("header", "write header = \"x-cost\", or cost = 5 for one that is fixed")
        .and_then(|field| field.parsed(text::header));
    let max = table
        .required("max", "write the greatest cost a client may ask for, such as max = 100")
        .and_then(|field| field.whole((1, bounds::MAX_COST)));
    let default_field = table.get("default");
    let default = default_field.as_ref().map_or(Some(1), |field| field.whole((0, bounds::MAX_COST)));
    let (header, max, default) = (header?, max?, default?);
    if default > max {
        let at = default_field.as_ref().unwrap_or(field);
        at.wrong(format!("the default cost {default} is above max"), format!("write at most {max}"));
        return None;
    }
    Some(Cost { header: Some(header), default, max })
}
