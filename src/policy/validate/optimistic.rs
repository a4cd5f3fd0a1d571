//! `optimistic` of a route, and what cannot stand beside it.

use super::fields::Field;
use super::limits::Drafts;
use crate::policy::{Algorithm, Limit};

/// Reads the field. Methods and limits are `None` where they are wrong themselves, which is reported there.
pub(super) fn optimistic(
    field: &Field<'_>,
    methods: Option<&[String]>,
    named: Option<&[usize]>,
    limits: &Drafts,
) -> Option<bool> {
    if !field.flag()? {
        return Some(false);
    }
    let methods = methods.unwrap_or_default();
    if !methods.is_empty() && !methods.iter().any(|method| method == "GET" || method == "HEAD") {
        field.wrong(
            "only GET and HEAD reach the origin while the store decides, and the route takes neither",
            "remove optimistic, or let the route take GET",
        );
        return None;
    }
    let Some(named) = named else { return Some(true) };
    if named.is_empty() {
        field.wrong(
            "the route has no limits, so nothing is waited for",
            "remove optimistic, or name a limit of the route",
        );
        return None;
    }
    let mut of = named.iter().filter_map(|index| limits.all.get(*index)?.limit.as_ref());
    if let Some((limit, why)) = of.find_map(|limit| Some((limit, unfit(limit)?))) {
        field.wrong(
            format!("a request must not run before {} {why}", limit.name),
            "remove optimistic, or name the limit on another route",
        );
        return None;
    }
    Some(true)
}

/// Why a request under this limit must not begin before its decision.
fn unfit(limit: &Limit) -> Option<&'static str> {
    if limit.algorithm == Algorithm::Concurrency {
        return Some("has given it a slot");
    }
    if limit.settle.is_some() {
        return Some("has given it a charge that its answer settles");
    }
    limit.over_limit.is_some().then_some("has told it when")
}
