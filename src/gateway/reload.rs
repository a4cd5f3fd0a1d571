//! A policy that comes while the isolate runs, from the namespace `POLICY_KV`.
//!
//! What it says goes before `POLICY` and the policy compiled in; where it says nothing, these hold again. A wrong
//! policy is reported once and changes nothing, and neither does a namespace that cannot be read. What counts and
//! what watches the store outlives the change: see [`Gateway::adopt`].

use std::rc::Rc;

use sha2::{Digest as _, Sha256};

use super::rules::{Rules, in_binding};
use super::settings::Bindings;
use super::{Answer, Gateway, Step, log, problem, tasks, verify};
use crate::local::Refusals;
use crate::policy::error::Wrong;
use crate::policy::{Batch, PolicyError};
use crate::store::Form;

/// Longest policy that is taken from the namespace, in bytes.
const LONGEST: usize = 1_048_576;

/// Where the policy in force was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Compiled in.
    BuiltIn,
    /// The `POLICY` var.
    Var,
    /// The namespace.
    Kv,
}

/// What became of the reads of the namespace, as the status shows it.
#[derive(Debug, Clone)]
pub struct Reload {
    /// Where the policy in force was found.
    pub source: Source,
    /// Reads that were answered, a missing key included.
    pub reads: u64,
    /// Reads that failed or took too long.
    pub unread: u64,
    /// Whether the last one did.
    pub failing: bool,
    /// Policies that replaced another.
    pub reloads: u64,
    /// When the last one did, in milliseconds since 1970.
    pub reloaded_at_ms: Option<u64>,
    /// What is wrong with what the namespace holds; empty where it is right or holds nothing.
    pub errors: Vec<String>,
    /// Digest of the text read last: the same text is not looked at again.
    seen: [u8; 32],
}

impl Reload {
    /// Before the first read, in the state of a namespace that holds nothing.
    pub fn new(bindings: &Bindings) -> Self {
        let source = if bindings.policy_text().is_some() { Source::Var } else { Source::BuiltIn };
        Self {
            source,
            reads: 0,
            unread: 0,
            failing: false,
            reloads: 0,
            reloaded_at_ms: None,
            errors: Vec::new(),
            seen: Sha256::digest("").into(),
        }
    }

    /// A read was answered. The rules to put in force, where they are right and not those that are (`in_force` is
    /// their digest).
    fn read(
        &mut self,
        found: Option<&str>,
        built_in: &str,
        bindings: &Bindings,
        in_force: Option<&str>,
        lines: &mut Vec<String>,
    ) -> Option<Rules> {
        self.reads = self.reads.saturating_add(1);
        if std::mem::take(&mut self.failing) {
            lines.push(log::policy_readable());
        }
        let found = found.map(str::trim).filter(|text| !text.is_empty());
        let seen = Sha256::digest(found.unwrap_or_default()).into();
        if self.seen == seen {
            return None;
        }
        self.seen = seen;
        let was_wrong = !self.errors.is_empty();
        let source = found.map_or(Self::new(bindings).source, |_| Source::Kv);
        match made(found, built_in, bindings) {
            Err(errors) => {
                lines.push(log::bad_reload(source.word(), &errors, in_force));
                self.errors = errors.iter().map(ToString::to_string).collect();
                None
            }
            Ok(rules) => {
                self.errors.clear();
                self.source = source;
                let digest = rules.policy.digest.as_str();
                let other = in_force != Some(digest);
                if other || was_wrong {
                    lines.push(log::reloaded(source.word(), digest, in_force));
                }
                other.then_some(rules)
            }
        }
    }

    fn note_reload(&mut self, now_ms: u64) {
        self.reloads = self.reloads.saturating_add(1);
        self.reloaded_at_ms = Some(now_ms);
    }

    /// A read was not answered.
    fn not_read(&mut self, why: &str, lines: &mut Vec<String>) {
        self.unread = self.unread.saturating_add(1);
        if !std::mem::replace(&mut self.failing, true) {
            lines.push(log::policy_unreadable(why));
        }
    }
}

impl Source {
    /// As the log and the status say it.
    pub fn word(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Var => "POLICY",
            Self::Kv => "POLICY_KV",
        }
    }
}

fn made(found: Option<&str>, built_in: &str, bindings: &Bindings) -> Result<Rules, Vec<PolicyError>> {
    match found {
        Some(text) if text.len() > LONGEST => {
            let wrong = Wrong::new(
                format!("the policy is longer than {LONGEST} bytes"),
                "leave out what can be said by [defaults] or by path parameters",
            );
            Err(vec![in_binding("POLICY_KV", wrong)])
        }
        Some(text) => Rules::new(text, bindings),
        None => Rules::new(bindings.policy_text().as_deref().unwrap_or(built_in), bindings),
    }
}

impl Gateway {
    /// The namespace answered: the policy's text, or `None` where it has no such key. An empty text is none.
    pub fn reload(&mut self, found: Option<&str>, now_ms: u64) {
        let in_force = self.rules.policy.digest.as_str();
        let read = self.reload.read(found, &self.built_in, &self.bindings, Some(in_force), &mut self.log);
        if let Some(rules) = read {
            self.reload.note_reload(now_ms);
            self.adopt(rules);
        }
    }

    /// The namespace could not be read, and why: `deadline` or `error`.
    pub fn reload_failed(&mut self, why: &str) {
        self.reload.not_read(why, &mut self.log);
    }

    /// The answer to the health check: well, with what is wrong with a policy that was not taken.
    pub(super) fn healthy(&self) -> Answer {
        let errors = &self.reload.errors;
        let body = match errors.is_empty() {
            true => serde_json::json!({ "status": "ok" }),
            false => serde_json::json!({ "status": "ok", "reload": { "errors": errors } }),
        };
        Answer::json(200, body.to_string())
    }

    /// What became of the namespace so far.
    pub fn reload_state(&self) -> &Reload {
        &self.reload
    }

    /// Puts other rules in force from the next request on.
    ///
    /// What the isolate counts by itself stays, since it is known by the beginning of the store's key: limit, algorithm
    /// and window. The breaker, the retry budget, calls under way, counters and what the log has said stay, under the
    /// new numbers. Remembered refusals go.
    fn adopt(&mut self, mut rules: Rules) {
        let store = &rules.policy.store;
        if store.dialect != self.rules.policy.store.dialect {
            self.form = self.bindings.store().map(|url| Form::of(store.dialect, url));
        }
        self.breaker.configure(store.breaker);
        self.retries.configure(store.retry);
        self.refusals = Refusals::new(store.remember_ms);
        let stems: Vec<&str> = rules.limits.iter().map(|limit| limit.stems().state).collect();
        self.local.configure(rules.policy.degraded.max_subjects, &stems);
        let batches = rules.limits.iter().filter_map(|limit| Some((&*limit.state_stem, limit.limit.batch?)));
        let batches: Vec<(&str, Batch)> = batches.collect();
        let taken = |stem: &str| batches.iter().find(|(own, _)| *own == stem).map(|(_, batch)| *batch);
        self.permits.configure(taken);
        self.metrics.place(&mut rules.limits);
        self.log.extend(tasks::place(&mut rules.limits, &self.bindings.queues));
        self.log.extend(verify::secret_wanting(rules.policy.jwt.as_ref(), &self.bindings.texts));
        self.rules = Rc::new(rules);
    }

    /// Does something for a request under the rules that it was asked under, whatever is in force by now.
    pub(super) fn under(&mut self, rules: Rc<Rules>, next: impl FnOnce(&mut Self) -> Step) -> Step {
        let in_force = std::mem::replace(&mut self.rules, rules);
        let step = next(self);
        self.rules = in_force;
        step
    }
}

/// An isolate's gateway, or what stands in for one while no policy is right.
#[derive(Debug)]
pub enum Isolate {
    /// Works.
    Works(Box<Gateway>),
    /// Has no policy to work by.
    Broken(Box<Broken>),
}

/// What is known where no policy is right.
#[derive(Debug)]
pub struct Broken {
    built_in: String,
    bindings: Bindings,
    errors: Vec<String>,
    reload: Reload,
    log: Vec<String>,
}

impl Broken {
    fn new(built_in: &str, bindings: Bindings, errors: &[PolicyError]) -> Self {
        Self {
            built_in: built_in.to_owned(),
            log: vec![log::bad_policy(errors)],
            errors: errors.iter().map(ToString::to_string).collect(),
            reload: Reload::new(&bindings),
            bindings,
        }
    }
}

impl Isolate {
    /// For these bindings; `built_in` is the policy compiled in, as JSON.
    pub fn new(built_in: &str, bindings: Bindings) -> Self {
        match Gateway::new(built_in, &bindings) {
            Ok(gateway) => Self::Works(Box::new(gateway)),
            Err(errors) => Self::Broken(Box::new(Broken::new(built_in, bindings, &errors))),
        }
    }

    /// The same, for bindings as the entry hands them over (see `settings`).
    pub fn from_text(built_in: &str, bindings: &str) -> Self {
        match serde_json::from_str(bindings) {
            Ok(bindings) => Self::new(built_in, bindings),
            Err(error) => {
                let bindings = Bindings::default();
                let wrong = Wrong::new(format!("cannot be read: {error}"), "set them as the README says");
                Self::Broken(Box::new(Broken::new(built_in, bindings, &[in_binding("bindings", wrong)])))
            }
        }
    }

    /// See [`Gateway::reload`]. Where no policy was right so far, one that is makes the gateway.
    pub fn reload(&mut self, found: Option<&str>, now_ms: u64) {
        match self {
            Self::Works(gateway) => gateway.reload(found, now_ms),
            Self::Broken(broken) => {
                let Broken { built_in, bindings, reload, log, .. } = broken.as_mut();
                if let Some(rules) = reload.read(found, built_in, bindings, None, log) {
                    reload.note_reload(now_ms);
                    let mut gateway = Gateway::of(rules, built_in, bindings);
                    gateway.reload = reload.clone();
                    log.append(&mut gateway.log);
                    gateway.log = std::mem::take(log);
                    *self = Self::Works(Box::new(gateway));
                }
            }
        }
    }

    /// See [`Gateway::reload_failed`].
    pub fn reload_failed(&mut self, why: &str) {
        match self {
            Self::Works(gateway) => gateway.reload_failed(why),
            Self::Broken(broken) => broken.reload.not_read(why, &mut broken.log),
        }
    }

    /// The next step for a request; `url` is its own, where it has just come in.
    pub fn step(&mut self, next: impl FnOnce(&mut Gateway) -> Step, url: &str) -> Step {
        match self {
            Self::Works(gateway) => next(gateway),
            Self::Broken(broken) => {
                let errors = broken.errors.iter().chain(&broken.reload.errors);
                Step::Answer(problem::bad_policy(errors, url))
            }
        }
    }

    /// See [`Gateway::cors`].
    pub fn cors(&self, origin: Option<&str>) -> Option<String> {
        match self {
            Self::Works(gateway) => gateway.cors(origin),
            Self::Broken(_) => None,
        }
    }

    /// See [`Gateway::token_rules`].
    pub fn token_rules(&self) -> Option<String> {
        match self {
            Self::Works(gateway) => gateway.token_rules(),
            Self::Broken(_) => None,
        }
    }

    /// See [`Gateway::take_points`].
    pub fn take_points(&mut self) -> String {
        match self {
            Self::Works(gateway) => gateway.take_points(),
            Self::Broken(_) => String::new(),
        }
    }

    /// Log lines since the last call, one JSON object each.
    pub fn take_log(&mut self) -> Vec<String> {
        match self {
            Self::Works(gateway) if gateway.has_log() => gateway.take_log(),
            Self::Works(_) => Vec::new(),
            Self::Broken(broken) => std::mem::take(&mut broken.log),
        }
    }
}
