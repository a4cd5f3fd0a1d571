//! `[[routes]]`.

use super::fields::{Field, Table};
use super::limits::{Drafts, at, unique_names};
use super::optimistic;
use crate::policy::error::Wrong;
use crate::policy::pattern::Pattern;
use crate::policy::routes::{Route, Router};
use crate::policy::{Algorithm, Origin, Queue, bounds, text};

/// Fields of a route.
pub(super) const ROUTE: &[&str] = &["name", "path", "methods", "host", "limits", "origin", "optimistic"];

/// Reads the routes and builds their router; `None` when any of it is wrong.
pub(super) fn router(top: &Table<'_>, limits: &Drafts) -> Option<Router> {
    let fields = top.list("routes");
    unique_names(&fields);
    let read: Vec<_> = fields.iter().map(|field| (field, route(field, limits))).collect();
    let whole = read.iter().all(|(_, route)| route.is_some());
    // Those that are right are held against each other even when another is wrong.
    let (fields, routes): (Vec<_>, Vec<_>) =
        read.into_iter().filter_map(|(field, route)| route.map(|route| (field, route))).unzip();
    let names: Vec<_> = routes.iter().map(|route| route.name.clone()).collect();
    match Router::new(routes) {
        Ok(router) => whole.then_some(router),
        Err(conflicts) => {
            for conflict in conflicts {
                let (Some(second), Some(first)) = (fields.get(conflict.second), fields.get(conflict.first))
                else {
                    continue;
                };
                let named = |index: usize| names.get(index).map_or("", String::as_str);
                second.named("path").wrong(
                    format!(
                        "the routes \"{}\" ({}) and \"{}\" ({}) could not be told apart",
                        named(conflict.first),
                        at(first.place(), first.line()),
                        named(conflict.second),
                        at(second.place(), second.line()),
                    ),
                    "let their paths, methods or hosts differ, or make them one route",
                );
            }
            None
        }
    }
}

fn route(field: &Field<'_>, limits: &Drafts) -> Option<Route> {
    let table = field.table(ROUTE)?;
    let name = table
        .required("name", "write name = \"…\"")
        .and_then(|field| field.parsed(|given| text::name("name", given, text::MAX_NAME)));
    let path = table
        .required("path", "write path = \"/…\"")
        .and_then(|field| field.parsed(|given| Ok((given.to_owned(), Pattern::parse(given)?))));
    let methods = table.get("methods").map_or(Some(Vec::new()), |field| methods(&field));
    let host = table.get("host").map_or(Some(None), |field| field.parsed(text::host).map(Some));
    let origin = table.get("origin").map_or(Some(None), |field| field.parsed(Origin::parse).map(Some));
    let pattern = path.as_ref().map(|(_, pattern)| pattern);
    let named = table
        .required("limits", "write limits = [\"…\"], or limits = [] for a route without limits")
        .and_then(|field| limit_indices(&field, pattern, limits));
    let optimistic = table.get("optimistic").map_or(Some(false), |field| {
        optimistic::optimistic(&field, methods.as_deref(), named.as_deref(), limits)
    });
    let (path, pattern) = path?;
    Some(Route {
        name: name?,
        path,
        pattern,
        methods: methods?,
        host: host?,
        limits: named?,
        origin: origin?,
        optimistic: optimistic?,
    })
}

fn methods(field: &Field<'_>) -> Option<Vec<String>> {
    let methods = field.each(|item| item.parsed(text::method))?;
    if methods.is_empty() {
        field.wrong("no method would ever match", "remove methods to take every method");
        return None;
    }
    let mut before: Vec<&String> = Vec::new();
    for (item, method) in field.items()?.iter().zip(&methods) {
        if before.contains(&method) {
            item.wrong(format!("the method \"{method}\" stands here twice"), "write it once");
            return None;
        }
        before.push(method);
    }
    Some(methods)
}

fn limit_indices(field: &Field<'_>, pattern: Option<&Pattern>, limits: &Drafts) -> Option<Vec<usize>> {
    let items = field.items()?;
    if items.len() > bounds::MAX_LIMITS_PER_ROUTE {
        field.wrong(
            format!("{} limits on one route", items.len()),
            format!("name at most {}", bounds::MAX_LIMITS_PER_ROUTE),
        );
        return None;
    }
    let indices = field.each(|item| limit_index(item, pattern, limits))?;
    let mut before: Vec<usize> = Vec::new();
    for (item, index) in items.iter().zip(&indices) {
        if before.contains(index) {
            item.wrong("the same limit twice on one route", "name it once; a cost makes requests count more");
            return None;
        }
        before.push(*index);
    }
    let sound = slots_are_not_repeated(&items, &indices, limits)
        & slots_do_not_wait(&items, &indices, limits)
        & one_queue(&items, &indices, limits);
    sound.then_some(indices)
}

/// A request that waits for its moment does not run, and would hold a slot all the while.
fn slots_do_not_wait(items: &[Field<'_>], indices: &[usize], limits: &Drafts) -> bool {
    let of = |index: &usize| limits.all.get(*index)?.limit.as_ref();
    let Some(slots) = indices.iter().filter_map(of).find(|limit| limit.algorithm == Algorithm::Concurrency)
    else {
        return true;
    };
    for (item, index) in items.iter().zip(indices) {
        let Some(waits) = of(index).filter(|limit| limit.delay().is_some()) else { continue };
        item.wrong(
            format!(
                "a request that waits for {} would hold a slot of {} and do nothing",
                waits.name, slots.name
            ),
            "name them on two routes, or remove over_limit",
        );
        return false;
    }
    true
}

/// A repeat under an idempotency key gets the first decision, and so would run without a slot of its own.
fn slots_are_not_repeated(items: &[Field<'_>], indices: &[usize], limits: &Drafts) -> bool {
    let of = |index: &usize| limits.all.get(*index)?.limit.as_ref();
    let Some(keyed) = indices.iter().filter_map(of).find(|limit| limit.idempotency.is_some()) else {
        return true;
    };
    for (item, index) in items.iter().zip(indices) {
        let Some(slots) = of(index).filter(|limit| limit.algorithm == Algorithm::Concurrency) else {
            continue;
        };
        item.wrong(
            format!(
                "a repeat under the idempotency key of {} would run without a slot of {}",
                keyed.name, slots.name
            ),
            "name them on two routes, or remove idempotency (store.exactly_once still makes retries safe)",
        );
        return false;
    }
    true
}

/// A request waits in one queue, whichever of its limits it is over.
fn one_queue(items: &[Field<'_>], indices: &[usize], limits: &Drafts) -> bool {
    let mut first: Option<(&str, &str)> = None;
    for (item, index) in items.iter().zip(indices) {
        let Some(limit) = limits.all.get(*index).and_then(|draft| draft.limit.as_ref()) else { continue };
        let Some(Queue { queue, .. }) = limit.queue() else { continue };
        match first {
            Some((name, other)) if other != queue => {
                let also = &limit.name;
                item.wrong(
                    format!("what is over {name} waits in {other}, and what is over {also} in {queue}"),
                    "let the limits of one route name one queue",
                );
                return false;
            }
            Some(_) => {}
            None => first = Some((&limit.name, queue)),
        }
    }
    true
}

fn limit_index(item: &Field<'_>, pattern: Option<&Pattern>, limits: &Drafts) -> Option<usize> {
    let given = item.text()?;
    let (index, draft) =
        item.checked(limits.named(given).ok_or_else(|| Wrong::unknown("limit", given, limits.names())))?;
    // Without a pattern nothing can be said: its error is the one to mend first.
    let lacking =
        draft.params.iter().find(|name| pattern.is_some_and(|p| !p.params().any(|has| has == *name)));
    match lacking {
        None => Some(index),
        Some(name) => {
            item.wrong(
                format!("the limit \"{given}\" asks for param:{name}, which the route's path does not have"),
                format!("put {{{name}}} into the path, or name another limit"),
            );
            None
        }
    }
}
