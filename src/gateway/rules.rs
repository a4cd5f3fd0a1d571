//! What a policy makes: everything that another policy replaces, in one piece. A request that waits for an answer
//! holds on to the rules it was asked under, so a reload takes none away from under it.

use std::collections::HashMap;

use super::answer::Answer;
use super::prepared::{self, Prepared};
use super::problem;
use super::settings::Bindings;
use crate::policy::error::Wrong;
use crate::policy::{Origin, Policy, PolicyError, document};
use crate::store::key;

/// A policy, ready.
#[derive(Debug)]
pub struct Rules {
    /// As it was validated.
    pub policy: Policy,
    /// Its limits, in its order.
    pub limits: Vec<Prepared>,
    /// Where in `limits` a name stands.
    pub by_name: HashMap<String, usize>,
    /// Where requests go whose route has no origin of its own: the binding's word before the policy's.
    pub origin: String,
    /// Beginning of every charge id's key.
    pub charge_stem: String,
    /// Beginning of every settlement's key.
    pub settlement_stem: String,
    /// Whether a limit settles its costs after the answer.
    pub settles: bool,
}

impl Rules {
    /// The rules of a policy in JSON, with what the bindings add to it.
    ///
    /// # Errors
    /// All that is wrong with the text, or what is wrong with `ORIGIN`.
    pub fn new(text: &str, bindings: &Bindings) -> Result<Self, Vec<PolicyError>> {
        let policy = document::read_json(text)?;
        let origin = match bindings.origin.as_deref().map(str::trim).filter(|origin| !origin.is_empty()) {
            Some(text) => {
                origin_text(&Origin::parse(text).map_err(|wrong| vec![in_binding("ORIGIN", wrong)])?)
            }
            None => origin_text(&policy.gateway.origin),
        };
        let names = policy.limits.iter().enumerate();
        Ok(Self {
            by_name: names.map(|(index, limit)| (limit.name.clone(), index)).collect(),
            limits: prepared::prepare(&policy, &bindings.texts),
            origin,
            settles: policy.limits.iter().any(|limit| limit.settle.is_some()),
            settlement_stem: key::settlement_stem(&policy.store.prefix, policy.store.cluster),
            charge_stem: key::charge_stem(&policy.store.prefix, policy.store.cluster),
            policy,
        })
    }

    /// The limit of a name, with its index; the answer where there is none.
    pub fn named(&self, name: &str) -> Result<(usize, &Prepared), Answer> {
        let found = self.by_name.get(name).and_then(|index| Some((*index, self.limits.get(*index)?)));
        found.ok_or_else(|| problem::unknown_limit(name, &self.limits))
    }
}

/// An error of a binding's text, shaped like one of the policy's.
pub fn in_binding(name: &str, wrong: Wrong) -> PolicyError {
    PolicyError { line: None, place: name.to_owned(), problem: wrong.problem, cure: wrong.cure }
}

/// Where a policy's origin leads, as the entry takes it.
pub fn origin_text(origin: &Origin) -> String {
    match origin {
        Origin::Url(url) => url.clone(),
        Origin::Binding(name) => format!("binding:{name}"),
    }
}
