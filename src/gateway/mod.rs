//! HTTP: from a request to the next step, and from the store's reply to the answer. The state machine is plain
//! data and time is an argument; `lib.rs` and `edge/` do what its steps say.
//!
//! A request walks through here once: [`Gateway::receive`] finds its route and limits and either settles it or asks
//! the store; [`Gateway::conclude`] reads the reply and settles it.

pub mod admit;
pub mod answer;
pub mod check_api;
pub mod cost;
pub mod headers;
pub mod log;
pub mod outcome;
pub mod prepared;
pub mod problem;
pub mod secret;
pub mod settings;
pub mod settle;

use std::collections::HashMap;

pub use answer::{Answer, Call, Forward, Step};
pub use settings::Bindings;

use admit::{Admission, CostSource};
use outcome::{Outcome, Tier};
use prepared::Prepared;
use secret::Secret;

use crate::local::{Refusals, Table};
use crate::policy::{Origin, Policy, PolicyError, Unmatched, path};
use crate::store::{Ask, Form, Inflight, ScriptCall, StoreError, call, reply, script};
use crate::subject::request::{canonical_host, split_url};
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

/// What the store said, as the entry brings it.
#[derive(Debug, Clone, Copy)]
pub enum Reply<'a> {
    /// A whole reply.
    Whole {
        /// HTTP status.
        status: u16,
        /// Body.
        body: &'a str,
    },
    /// None, and why: no connection, a reset, the deadline.
    None(&'a str),
}

/// What a decision is for.
#[derive(Debug, Clone)]
enum Purpose {
    /// A request to forward: index of its route's origin override, if it has one.
    Proxy(Option<String>),
    /// An answer of the decision API.
    Check,
}

/// A decision that waits for the store.
#[derive(Debug)]
struct Pending {
    asks: Vec<Ask>,
    purpose: Purpose,
    form: Form,
    by: ScriptCall,
    /// The clock that the store was told, which its answer counts from.
    asked_ms: u64,
    deadline_ms: u64,
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
    inflight: Inflight<Pending>,
    local: Table,
    refusals: Refusals,
    failing: bool,
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
            inflight: Inflight::default(),
            local: Table::new(policy.degraded.max_subjects),
            refusals: Refusals::new(policy.store.remember_ms),
            failing: false,
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
    pub fn receive(&mut self, request: &Request<'_>, now_ms: u64) -> Step {
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
        let Some(matched) = self.policy.router.match_route(request.method, &host, &canonical) else {
            return self.unmatched();
        };
        let route = matched.route;
        let origin = route.origin.as_ref().map(origin_text);
        if route.limits.is_empty() || is_free_preflight(request, &route.methods) {
            return self.forward(origin, Vec::new());
        }
        let attributes = HttpRequest {
            method: request.method,
            host,
            path: canonical.as_ref().into(),
            query: url.query,
            route: &route.name,
            params: matched.params,
            platform: request.platform,
            client_ip: &self.policy.gateway.client_ip,
            ipv6_prefix: self.policy.gateway.ipv6_prefix,
        };
        match admit::admit(&self.limits, &route.limits, &attributes, CostSource::Rules, &self.digester) {
            Err(answer) => Step::Answer(answer),
            Ok(admission) => self.decide(admission, Purpose::Proxy(origin), now_ms),
        }
    }

    /// Reads the store's reply to a call.
    pub fn conclude(&mut self, ticket: u32, reply: Reply<'_>, now_ms: u64) -> Step {
        let Some(pending) = self.inflight.take(ticket) else {
            // The memory that knew this ticket is gone; the request may have been charged or not.
            return Step::Answer(problem::plain(503, "Interrupted", "the gateway was restarted; try again"));
        };
        let answered = match reply {
            Reply::Whole { status, body } => reply::read(status, body, &pending.asks),
            Reply::None(why) => Err(StoreError::new(crate::store::Class::Unreachable, why)),
        };
        match answered {
            Ok(answered) => {
                self.recovered();
                self.remember(&pending.asks, &answered.verdicts, pending.asked_ms);
                let outcome = Outcome::of(Tier::Store, settle::lines(&pending.asks, &answered.verdicts));
                self.finish(outcome, pending.purpose, pending.asked_ms)
            }
            Err(error) => self.failed(pending, error, now_ms),
        }
    }

    fn unmatched(&mut self) -> Step {
        match self.policy.gateway.unmatched {
            Unmatched::Pass => self.forward(None, Vec::new()),
            Unmatched::Deny => Step::Answer(problem::plain(404, "Not found", "no route takes this request")),
        }
    }

    /// Settles what can be settled here, and asks the store for the rest.
    fn decide(&mut self, admission: Admission, purpose: Purpose, now_ms: u64) -> Step {
        let Admission { asks, blocked } = admission;
        if blocked.iter().any(outcome::Line::refuses) {
            return self.finish(Outcome::of(Tier::Isolate, blocked), purpose, now_ms);
        }
        if asks.is_empty() {
            let tier = if self.form.is_some() { Tier::Store } else { Tier::Isolate };
            return self.finish(Outcome::of(tier, Vec::new()), purpose, now_ms);
        }
        let Some(form) = self.form else {
            let verdicts = settle::whole(&mut self.local, &asks, now_ms);
            let outcome = Outcome::of(Tier::Isolate, settle::lines(&asks, &verdicts));
            return self.finish(outcome, purpose, now_ms);
        };
        if let Some(refused) = settle::recall(&mut self.refusals, &asks, now_ms) {
            return self.finish(Outcome::of(Tier::Cache, vec![refused]), purpose, now_ms);
        }
        let deadline_ms = now_ms.saturating_add(self.policy.store.timeout_ms);
        self.ask(
            Pending { asks, purpose, form, by: ScriptCall::BySha, asked_ms: now_ms, deadline_ms },
            now_ms,
        )
    }

    fn ask(&mut self, pending: Pending, now_ms: u64) -> Step {
        let clock = self.policy.store.clock;
        let limits = &self.limits;
        let stems = |ask: &Ask| limits.get(ask.limit).map(Prepared::stems).unwrap_or_default();
        let (form, by) = (pending.form, pending.by);
        let body = call::check_body(&script::CHECK, form, by, clock, now_ms, &pending.asks, stems);
        let deadline_ms = pending.deadline_ms;
        let timeout_ms = deadline_ms.saturating_sub(now_ms);
        Step::Ask(Call { ticket: self.inflight.add(pending, now_ms, deadline_ms), timeout_ms, body })
    }

    /// What becomes of a request whose call failed: once more where the script is known not to have run for want of
    /// its text or in the wrong dialect, else what each limit's policy says.
    fn failed(&mut self, pending: Pending, error: StoreError, now_ms: u64) -> Step {
        use crate::store::Class;
        let in_time = now_ms < pending.deadline_ms;
        match error.class {
            Class::NoScript if pending.by == ScriptCall::BySha && in_time => {
                return self.ask(Pending { by: ScriptCall::ByText, asked_ms: now_ms, ..pending }, now_ms);
            }
            Class::Dialect if pending.form == Form::Upstash && in_time && self.may_fall_back() => {
                self.form = Some(Form::Redis);
                return self.ask(
                    Pending { form: Form::Redis, by: ScriptCall::BySha, asked_ms: now_ms, ..pending },
                    now_ms,
                );
            }
            _ => {}
        }
        if !self.failing {
            self.failing = true;
            self.log.push(log::store_failing(&error));
        }
        let outcome =
            settle::without_store(&mut self.local, &self.limits, &self.policy, &pending.asks, now_ms);
        self.finish(outcome, pending.purpose, now_ms)
    }

    fn may_fall_back(&self) -> bool {
        self.policy.store.dialect == crate::policy::Dialect::Auto
    }

    fn recovered(&mut self) {
        if self.failing {
            self.failing = false;
            self.log.push(log::store_recovered());
        }
    }

    fn remember(&mut self, asks: &[Ask], verdicts: &[crate::limit::Verdict], now_ms: u64) {
        for (ask, verdict) in asks.iter().zip(verdicts) {
            if !ask.shadow && !verdict.allowed() {
                self.refusals.note(&settle::key(ask), ask.quota, ask.cost, *verdict, now_ms);
            }
        }
    }

    /// Turns an outcome into the answer its purpose wants.
    fn finish(&mut self, outcome: Outcome, purpose: Purpose, now_ms: u64) -> Step {
        if !outcome.allowed() {
            self.log.push(log::refusal(&outcome, &self.limits));
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

/// A CORS preflight (Fetch standard, section 3.3.2) is free unless the route names OPTIONS.
fn is_free_preflight(request: &Request<'_>, methods: &[String]) -> bool {
    request.method == "OPTIONS"
        && !methods.iter().any(|method| method == "OPTIONS")
        && request.platform.header("access-control-request-method").is_some()
}
