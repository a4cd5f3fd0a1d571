//! Tree → [`Policy`]: every field read once, every error found and not only the first.

mod exempt;
mod fields;
mod gateway;
mod jwt;
mod lease;
mod limits;
mod optimistic;
mod over_limit;
mod permits;
mod queue;
mod quota;
mod routes;
mod settle;
mod store;

use super::document::Node;
use super::error::PolicyError;
use super::{Exempt, OnMissingKey, OnStoreError, Policy, bounds};
use fields::{Field, Report, Table};

/// Fields of the whole document.
const TOP: &[&str] = &["version", "gateway", "store", "degraded", "jwt", "defaults", "limits", "routes"];
/// Fields of `[defaults]`.
const DEFAULTS: &[&str] = &["on_store_error", "on_missing_key", "shadow", "exempt"];

/// Every table of the language with the fields it knows: what the JSON Schema is held against.
pub const KNOWN: [(&str, &[&str]); 14] = [
    ("", TOP),
    ("gateway", gateway::GATEWAY),
    ("store", store::STORE),
    ("store.breaker", store::BREAKER),
    ("store.retry", store::RETRY),
    ("degraded", store::DEGRADED),
    ("jwt", jwt::JWT),
    ("defaults", DEFAULTS),
    ("limit", limits::LIMIT),
    ("cost", limits::COST),
    ("over_limit", over_limit::OVER_LIMIT),
    ("plan", quota::PLAN),
    ("settle", settle::SETTLE),
    ("route", routes::ROUTE),
];

/// Validates a whole document; `digest` goes into the policy as it is.
///
/// # Errors
/// Every error, in no particular order.
pub(super) fn policy(root: &Node, digest: String) -> Result<Policy, Vec<PolicyError>> {
    let report = Report::default();
    let policy = read(Field::root(root, &report), digest);
    let errors = report.into_errors();
    match policy {
        Some(policy) if errors.is_empty() => Ok(policy),
        _ => Err(errors),
    }
}

fn read(root: Field<'_>, digest: String) -> Option<Policy> {
    let top = root.table(TOP)?;
    version(&top);
    let gateway = gateway::gateway(&top.section("gateway", gateway::GATEWAY));
    let store = store::store(&top.section("store", store::STORE));
    let degraded = store::degraded(&top.section("degraded", store::DEGRADED));
    let jwt = jwt::jwt(&top);
    let defaults = defaults(&top.section("defaults", DEFAULTS));
    let least_lease_ms = store.as_ref().map(|store| {
        // Without a budget nothing is retried, and nobody waits for a retry.
        let backoff_ms = if store.retry.budget > 0.0 { store.retry.backoff_ms } else { 0 };
        bounds::least_lease_ms(store.timeout_ms, backoff_ms)
    });
    let limits = limits::limits(&top, &defaults, least_lease_ms);
    let router = routes::router(&top, &limits);
    let limits = limits.all.into_iter().map(|draft| draft.limit).collect::<Option<Vec<_>>>();
    Some(Policy {
        gateway: gateway?,
        store: store?,
        degraded: degraded?,
        jwt: jwt?,
        limits: limits?,
        router: router?,
        digest,
    })
}

fn version(top: &Table<'_>) {
    let Some(field) = top.required("version", "write version = 1") else {
        return;
    };
    if let Some(version) = field.integer()
        && version != 1
    {
        field.wrong(format!("version {version} is not known"), "write version = 1");
    }
}

/// `[defaults]`: what limits that do not say get.
struct Defaults {
    on_store_error: Said<OnStoreError>,
    on_missing_key: Option<OnMissingKey>,
    shadow: bool,
    exempt: Exempt,
}

/// A field without a default of its own. What was said wrongly is reported once, there, and not again as missing.
#[derive(Clone, Copy)]
enum Said<T> {
    Nothing,
    Wrongly,
    This(T),
}

impl<T> Said<T> {
    fn of(field: Option<Field<'_>>, read: impl FnOnce(&Field<'_>) -> Option<T>) -> Self {
        match field {
            None => Self::Nothing,
            Some(field) => read(&field).map_or(Self::Wrongly, Self::This),
        }
    }
}

fn defaults(table: &Table<'_>) -> Defaults {
    Defaults {
        on_store_error: Said::of(table.get("on_store_error"), on_store_error),
        on_missing_key: table.get("on_missing_key").and_then(|field| on_missing_key(&field)),
        shadow: table.get("shadow").and_then(|field| field.flag()).unwrap_or(false),
        exempt: table.get("exempt").and_then(|field| exempt::exempt(&field)).unwrap_or_default(),
    }
}

fn on_store_error(field: &Field<'_>) -> Option<OnStoreError> {
    field.choice(&[
        ("degraded", OnStoreError::Degraded),
        ("open", OnStoreError::Open),
        ("closed", OnStoreError::Closed),
    ])
}

fn on_missing_key(field: &Field<'_>) -> Option<OnMissingKey> {
    field.choice(&[
        ("deny", OnMissingKey::Deny),
        ("skip", OnMissingKey::Skip),
        ("share", OnMissingKey::Share),
    ])
}
