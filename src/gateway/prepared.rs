//! A policy's limits made ready for the request path: what does not depend on the request is computed once.

use std::collections::HashMap;
use std::rc::Rc;

use super::secret::Secret;
use crate::limit::Quota;
use crate::policy::{self, ExemptValue, KeyPart, Limit, Policy};
use crate::store::{Stems, call, key};

/// One limit, ready.
#[derive(Debug)]
pub struct Prepared {
    /// What the policy says.
    pub limit: Limit,
    /// What a subject without a plan gets.
    pub quota: Allowance,
    /// What the plans give, by their names.
    pub plans: Vec<(String, Allowance)>,
    /// Limits with the same number count by the same key parts, so that their subject is computed once.
    pub key_group: usize,
    /// Beginning of every state key; the isolate's own counts are known by it, too.
    pub state_stem: Rc<str>,
    /// Beginning of every override key.
    pub override_stem: String,
    /// Where its decisions are counted; a limit of the same name in another policy has the same place.
    pub counted_at: usize,
    /// Attributes whose value exempts, with the value.
    pub exempt: Vec<(KeyPart, Secret)>,
    /// Whether a claim of a token has a say in it.
    pub uses_token: bool,
    /// Whether requests that it would refuse wait in a queue, see `tasks`.
    pub waits: bool,
}

impl Prepared {
    /// What the plan of this name gives.
    pub fn plan(&self, name: &str) -> Option<&Allowance> {
        self.plans.iter().find(|(plan, _)| plan == name).map(|(_, allowance)| allowance)
    }

    /// What its keys begin with.
    pub fn stems(&self) -> Stems<'_> {
        Stems { state: &self.state_stem, overrides: &self.override_stem }
    }

    /// Whether it limits how many run at once.
    pub fn is_concurrency(&self) -> bool {
        self.limit.algorithm == policy::Algorithm::Concurrency
    }
}

/// What a subject may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowance {
    /// Never counted.
    Unlimited,
    /// Never passes.
    Blocked,
    /// Counted, with the script's arguments for it.
    Limited(Quota, Rc<str>),
}

/// Makes all limits of a policy ready. `texts` are the bindings that an exemption may name.
pub fn prepare(policy: &Policy, texts: &HashMap<String, String>) -> Vec<Prepared> {
    let mut groups: Vec<(&[KeyPart], policy::OnMissingKey)> = Vec::new();
    policy
        .limits
        .iter()
        .map(|limit| {
            let group = (limit.key.as_slice(), limit.on_missing_key);
            let key_group = groups.iter().position(|known| *known == group).unwrap_or_else(|| {
                groups.push(group);
                groups.len().saturating_sub(1)
            });
            one(policy, limit, key_group, texts)
        })
        .collect()
}

fn one(policy: &Policy, limit: &Limit, key_group: usize, texts: &HashMap<String, String>) -> Prepared {
    let allowance = |quota: policy::Quota| match quota {
        policy::Quota::Unlimited => Allowance::Unlimited,
        policy::Quota::Blocked => Allowance::Blocked,
        policy::Quota::Limited(capacity) => {
            let quota = Quota::new(limit.algorithm, limit.window_ms, capacity);
            let arguments = match limit.delay() {
                Some(delay) => call::delaying_arguments(&quota, limit.shadow, delay.ms),
                None => call::arguments(&quota, limit.shadow),
            };
            Allowance::Limited(quota, arguments.into())
        }
    };
    let store = &policy.store;
    let exempt = limit.exempt.values.iter().filter_map(|(part, value)| {
        let text = match value {
            ExemptValue::Literal(text) => text,
            ExemptValue::Binding(name) => texts.get(name)?,
        };
        Some((part.clone(), Secret::new(text)?))
    });
    Prepared {
        quota: allowance(limit.quota),
        plans: limit.plans.iter().map(|(name, quota)| (name.clone(), allowance(*quota))).collect(),
        key_group,
        state_stem: key::state_stem(
            &store.prefix,
            store.cluster,
            &limit.name,
            limit.algorithm,
            limit.window_ms,
        )
        .into(),
        override_stem: key::override_stem(&store.prefix, store.cluster, &limit.name),
        counted_at: 0,
        exempt: exempt.collect(),
        uses_token: limit.uses_token(),
        waits: false,
        limit: limit.clone(),
    }
}
