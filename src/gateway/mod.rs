//! HTTP: from a request to the next step, and from the store's reply to the answer. The state machine is plain
//! data and time is an argument; `entry.rs` and `edge/` do what its steps say.
//!
//! A request walks through here once: [`Gateway::receive`] finds its route and limits, `asking` settles them or asks
//! the store, and [`Gateway::conclude`] reads the reply.

pub mod admit;
pub mod answer;
pub mod asking;
pub mod check_api;
pub mod cost;
pub mod headers;
pub mod health;
pub mod log;
pub mod outcome;
pub mod prepared;
pub mod problem;
mod readings;
pub mod secret;
pub mod settings;
pub mod settle;

use std::collections::HashMap;

pub use answer::{Answer, Call, Forward, Location, Step};
pub use asking::Reply;
pub use health::Counters;
pub use settings::Bindings;

use admit::CostSource;
use asking::{Located, Pending, Purpose};
use health::Health;
use outcome::Outcome;
use prepared::Prepared;
use readings::Reading;
use secret::Secret;

use crate::local::{Refusals, Table};
use crate::policy::{Origin, Policy, PolicyError, Route, Unmatched, path};
use crate::store::breaker::Breaker;
use crate::store::retry::Budget;
use crate::store::{Form, Inflight, key};
use crate::subject::request::{canonical_host, has_plain_authority, split_url};
use crate::subject::{Digester, HttpRequest, Platform};

/// Paths of our own begin with this.
const OWN: &str = "/.sluicegate/";

/// The name we go by in `Via`; a request that carries it has been here.
const VIA: &str = "sluicegate";

/// A request as the entry hands it over.
pub struct Request<'a> {
    /// As sent.
    pub method: &'a str,
    /// Absolute, as sent.
    pub url: &'a str,
    /// Headers and what the platform adds.
    pub platform: &'a dyn Platform,
}

/// The gateway of one isolate.
#[derive(Debug)]
pub struct Gateway {
    policy: Policy,
    limits: Vec<Prepared>,
    by_name: HashMap<String, usize>,
    origin: String,
    digester: Digester,
    admin: Option<Secret>,
    form: Option<Form>,
    charge_stem: String,
    inflight: Inflight<Pending>,
    located: Inflight<Located>,
    breaker: Breaker,
    retries: Budget,
    local: Table,
    refusals: Refusals,
    health: Health,
    counters: Counters,
    log: Vec<String>,
}

impl Gateway {
    /// A gateway for these bindings; `built_in` is the policy compiled in, as JSON.
    ///
    /// # Errors
    /// All that is wrong with the policy in force.
    pub fn new(built_in: &str, bindings: &Bindings) -> Result<Self, Vec<PolicyError>> {
        let text = bindings.policy_text();
        let policy = crate::policy::document::read_json(text.as_deref().unwrap_or(built_in))?;
        let limits = prepared::prepare(&policy, &bindings.texts);
        let by_name =
            policy.limits.iter().enumerate().map(|(index, limit)| (limit.name.clone(), index)).collect();
        let origin = match bindings.origin.as_deref().map(str::trim).filter(|origin| !origin.is_empty()) {
            Some(text) => {
                origin_text(&Origin::parse(text).map_err(|wrong| vec![in_binding("ORIGIN", wrong)])?)
            }
            None => origin_text(&policy.gateway.origin),
        };
        let form = bindings.store().map(|url| Form::of(policy.store.dialect, url));
        let mut gateway = Self {
            by_name,
            origin,
            digester: Digester::new(bindings.key_secret.as_deref()),
            admin: bindings.admin_token.as_deref().and_then(Secret::new),
            form,
            charge_stem: key::charge_stem(&policy.store.prefix, policy.store.cluster),
            inflight: Inflight::default(),
            located: Inflight::default(),
            breaker: Breaker::new(policy.store.breaker),
            retries: Budget::new(policy.store.retry),
            local: Table::new(policy.degraded.max_subjects),
            refusals: Refusals::new(policy.store.remember_ms),
            health: Health::default(),
            counters: Counters::default(),
            log: Vec::new(),
            limits,
            policy,
        };
        if form.is_none() {
            gateway.log.push(log::no_store());
        } else if !bindings.has_token {
            gateway.log.push(log::no_token());
        }
        Ok(gateway)
    }

    /// Log lines since the last call, one JSON object each.
    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Whether there is anything to log.
    pub fn has_log(&self) -> bool {
        !self.log.is_empty()
    }

    /// Takes a request in.
    pub fn receive(&mut self, request: &Request<'_>, now_ms: u64, random: f64) -> Step {
        if !has_plain_authority(request.url) {
            return Step::Answer(problem::plain(400, "Bad request", "the Host field holds no host"));
        }
        let url = split_url(request.url);
        let canonical = path::canonical(url.path);
        if canonical.starts_with(OWN) || canonical == OWN.trim_end_matches('/') {
            return self.own(request, &canonical);
        }
        if request.platform.header("via").is_some_and(|via| went_through_us(&via)) {
            let detail = "the request has been through this gateway already: its origin leads back here";
            return Step::Answer(problem::plain(508, "Loop detected", detail));
        }
        let host = canonical_host(url.host);
        let other = path::other_reading(url.path, &canonical);
        let router = &self.policy.router;
        let Some((first, second)) =
            readings::taken(router, request.method, &host, &canonical, other.as_deref())
        else {
            return self.unmatched();
        };
        let route = first.matched.route;
        let also = second.as_ref().map(|second| second.matched.route);
        let origin = route.origin.as_ref().map(origin_text);
        if [Some(route), also].into_iter().flatten().all(|route| is_free(request, route)) {
            return self.forward(origin, Vec::new());
        }
        let described = |Reading { path, matched }| HttpRequest {
            method: request.method,
            host: host.clone(),
            path: path.into(),
            query: url.query,
            route: &matched.route.name,
            params: matched.params,
            platform: request.platform,
            client_ip: &self.policy.gateway.client_ip,
            ipv6_prefix: self.policy.gateway.ipv6_prefix,
        };
        let (first, second) = (described(first), second.map(described));
        let also = also.zip(second.as_ref()).map(|(route, request)| (route.limits.as_slice(), request));
        let first = (route.limits.as_slice(), &first);
        match readings::admit_both(&self.limits, first, also, CostSource::Rules, &self.digester) {
            Err(answer) => Step::Answer(answer),
            Ok(admission) => {
                let told = [request.method, url.path, url.query];
                let charge = self.charge_id(&admission, &told, now_ms, random);
                self.decide(admission, charge, Purpose::Proxy(origin), now_ms)
            }
        }
    }

    fn unmatched(&mut self) -> Step {
        match self.policy.gateway.unmatched {
            Unmatched::Pass => self.forward(None, Vec::new()),
            Unmatched::Deny => Step::Answer(problem::plain(404, "Not found", "no route takes this request")),
        }
    }

    /// Turns an outcome into the answer its purpose wants.
    fn finish(&mut self, outcome: Outcome, purpose: Purpose, now_ms: u64) -> Step {
        if !outcome.allowed() {
            self.log.push(log::refusal(&outcome, &self.limits, &self.digester));
        }
        let origin = match purpose {
            Purpose::Check => return Step::Answer(check_api::answer(&outcome, &self.limits)),
            Purpose::Proxy(origin) => origin,
        };
        let gateway = &self.policy.gateway;
        let headers = headers::of(&outcome, &self.limits, &gateway.headers, gateway.tier_header, now_ms);
        if outcome.allowed() {
            return self.forward(origin, headers);
        }
        let mut answer = problem::refusal(&outcome, &self.limits);
        answer.headers.extend(headers);
        Step::Answer(answer)
    }

    fn forward(&self, origin: Option<String>, headers: Vec<(&'static str, String)>) -> Step {
        let origin = origin.unwrap_or_else(|| self.origin.clone());
        let timeout_ms = self.policy.gateway.origin_timeout_ms.unwrap_or(0);
        Step::Forward(Forward { origin, timeout_ms, headers })
    }
}

/// An error of a binding's text, shaped like one of the policy's.
fn in_binding(name: &str, wrong: crate::policy::error::Wrong) -> PolicyError {
    PolicyError { line: None, place: name.to_owned(), problem: wrong.problem, cure: wrong.cure }
}

/// Where a policy's origin leads, as the entry takes it.
fn origin_text(origin: &Origin) -> String {
    match origin {
        Origin::Url(url) => url.clone(),
        Origin::Binding(name) => format!("binding:{name}"),
    }
}

/// Whether a `Via` header (RFC 9110 section 7.6.3) names us.
fn went_through_us(via: &str) -> bool {
    via.split(',').any(|hop| hop.split_whitespace().nth(1).is_some_and(|by| by.eq_ignore_ascii_case(VIA)))
}

/// A route without limits is free, and so is a CORS preflight (Fetch standard, section 3.3.2) unless the route names
/// OPTIONS.
fn is_free(request: &Request<'_>, route: &Route) -> bool {
    let preflight = || {
        request.method == "OPTIONS"
            && !route.methods.iter().any(|method| method == "OPTIONS")
            && request.platform.header("access-control-request-method").is_some()
    };
    route.limits.is_empty() || preflight()
}
