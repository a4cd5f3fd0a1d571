//! What Redis holds and answers, and what the model comes to there, in one form.

use std::collections::BTreeMap;

use sluicegate::limit::State;

use super::super::support::redis::Reply;
use super::subject::Subject;
use super::trace::Item;

/// A script's reply.
pub fn items(reply: &Reply) -> Vec<Item> {
    let item = |reply: &Reply| match reply {
        Reply::Int(number) => Item::Number(*number),
        other => Item::Text(other.text().to_owned()),
    };
    reply.array().iter().map(item).collect()
}

/// Members and scores of a sorted set, in the order of members.
pub fn scores(reply: &Reply) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = reply
        .array()
        .chunks(2)
        .map(|pair| (pair[0].text().to_owned(), pair[1].text().parse().expect("a whole number")))
        .collect();
    all.sort();
    all
}

/// What holders come to in the store.
pub fn members(state: Option<&State>) -> Vec<(String, u64)> {
    let Some(State::Holders(holders)) = state else { return Vec::new() };
    let each = holders
        .all()
        .flat_map(|(id, lease)| [(id.to_string(), lease.expires_ms), (format!(":{id}"), lease.fence)]);
    let mut all: Vec<(String, u64)> = each.chain([(":".to_owned(), holders.last_fence())]).collect();
    all.sort();
    all
}

/// Waiters in their order, with the moment until which their place is kept.
pub fn waiters(reply: &Reply) -> Vec<(String, u64)> {
    let mut pairs: Vec<(u64, String)> =
        scores(reply).into_iter().map(|(member, score)| (score, member)).collect();
    pairs.sort();
    let (untils, order): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(_, member)| !member.starts_with(':'));
    let mut untils: BTreeMap<String, u64> = untils.into_iter().map(|(until, id)| (id, until)).collect();
    let ids = order.iter().map(|(_, member)| member[1..].to_owned());
    let mut waiters: Vec<(String, u64)> =
        ids.map(|id| (id.clone(), untils.remove(&id).unwrap_or(0))).collect();
    // What has lost its number is shown as what it is.
    waiters.extend(untils);
    waiters
}

/// The same by the model.
pub fn places(subject: &Subject) -> Vec<(String, u64)> {
    subject.waiting.all().iter().map(|waiter| (waiter.id.to_string(), waiter.until_ms)).collect()
}
