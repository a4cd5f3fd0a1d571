//! HTTP: from a request to the next step, and from the store's reply to the answer. The state machine is plain
//! data and time is an argument; `entry.rs` and `edge/` do what its steps say.
//!
//! A request walks through here once: [`Gateway::receive`] finds its route and limits, `asking` settles them or asks
//! the store, and [`Gateway::conclude`] reads the reply.

mod admin;
pub mod admit;
pub mod ahead;
pub mod analytics;
pub mod answer;
pub mod asking;
pub mod attempt;
pub mod bounds;
mod charge;
pub mod check_api;
pub mod cors;
pub mod cost;
pub mod delay;
#[cfg(not(target_arch = "wasm32"))]
pub mod explain;
pub mod given;
pub mod headers;
pub mod health;
mod holding;
pub mod latency;
pub mod log;
pub mod metrics;
mod outage;
pub mod outcome;
mod permits;
mod places;
pub mod prepared;
pub mod problem;
mod readings;
pub mod recent;
mod record;
pub mod reload;
pub mod rules;
pub mod sampling;
pub mod secret;
pub mod settings;
pub mod settle;
mod settling;
pub mod slot;
mod slot_calls;
mod slot_wait;
mod slots_api;
pub mod subject_path;
pub mod task_calls;
pub mod tasks;
pub mod verify;

use std::rc::Rc;

pub use answer::{Answer, Call, Forward, Location, Step};
pub use attempt::Reply;
pub use health::Counters;
pub use reload::Isolate;
pub use settings::Bindings;
pub use settling::Settlements;

use admit::CostSource;
use ahead::{Ahead, Start};
use asking::{Pending, Purpose};
use health::Health;
use metrics::Metrics;
use outage::Located;
use outcome::Outcome;
use places::Places;
use readings::{Asked, Paths};
use recent::Recent;
use reload::Reload;
use rules::{Rules, origin_text};
use sampling::Sampler;
use secret::Secret;
use slot_calls::SlotCalls;

use crate::local::{Permits, Refusals, Table};
use crate::policy::{PolicyError, Unmatched};
use crate::store::breaker::Breaker;
use crate::store::retry::Budget;
use crate::store::{Form, Inflight};
use crate::subject::request::{canonical_host, split_url};
use crate::subject::{Claims, Digester, Platform};

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
    /// In force; a request that waits holds on to its own.
    rules: Rc<Rules>,
    reload: Reload,
    built_in: String,
    bindings: Bindings,
    digester: Digester,
    admin: Option<Secret>,
    form: Option<Form>,
    inflight: Inflight<Pending>,
    located: Inflight<Located>,
    places: Places,
    breaker: Breaker,
    retries: Budget,
    ahead: Ahead,
    local: Table,
    refusals: Refusals,
    permits: Permits,
    health: Health,
    counters: Counters,
    metrics: Metrics,
    recent: Recent,
    sampler: Sampler,
    analytics: bool,
    points: Vec<String>,
    slot_calls: SlotCalls,
    /// Whether the log has said that a cost of an answer cannot be read, since one last was.
    unreadable_cost: bool,
    log: Vec<String>,
}

impl Gateway {
    /// A gateway for these bindings; `built_in` is the policy compiled in, as JSON.
    ///
    /// # Errors
    /// All that is wrong with the policy in force.
    pub fn new(built_in: &str, bindings: &Bindings) -> Result<Self, Vec<PolicyError>> {
        let text = bindings.policy_text();
        let rules = Rules::new(text.as_deref().unwrap_or(built_in), bindings)?;
        Ok(Self::of(rules, built_in, bindings))
    }

    fn of(mut rules: Rules, built_in: &str, bindings: &Bindings) -> Self {
        let mut metrics = Metrics::default();
        metrics.place(&mut rules.limits);
        let unbound = tasks::place(&mut rules.limits, &bindings.queues);
        let policy = &rules.policy;
        let form = bindings.store().map(|url| Form::of(policy.store.dialect, url));
        let mut gateway = Self {
            reload: Reload::new(bindings),
            built_in: built_in.to_owned(),
            bindings: bindings.clone(),
            digester: Digester::new(bindings.key_secret.as_deref()),
            admin: bindings.admin_token.as_deref().and_then(Secret::new),
            form,
            inflight: Inflight::default(),
            located: Inflight::default(),
            places: Places::default(),
            breaker: Breaker::new(policy.store.breaker),
            retries: Budget::new(policy.store.retry),
            ahead: Ahead::default(),
            local: Table::new(policy.degraded.max_subjects),
            refusals: Refusals::new(policy.store.remember_ms),
            permits: Permits::default(),
            health: Health::default(),
            counters: Counters::default(),
            metrics,
            recent: Recent::default(),
            sampler: Sampler::default(),
            analytics: bindings.analytics,
            points: Vec::new(),
            slot_calls: SlotCalls::new(&bindings.seed),
            unreadable_cost: false,
            log: unbound,
            rules: Rc::new(rules),
        };
        if form.is_none() {
            gateway.log.push(log::no_store());
        } else if !bindings.has_token {
            gateway.log.push(log::no_token());
        }
        let jwt = gateway.rules.policy.jwt.as_ref();
        gateway.log.extend(verify::secret_wanting(jwt, &bindings.texts));
        gateway
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
        self.metrics.request(now_ms, random);
        self.walk(request, None, false, now_ms, random)
    }

    /// A request from its URL to the first step. `claims` is `None` as long as no token was looked for; `task` says
    /// whether it comes from a queue.
    fn walk(
        &mut self,
        request: &Request<'_>,
        claims: Option<&Claims>,
        task: bool,
        now_ms: u64,
        random: f64,
    ) -> Step {
        if let Some(answer) = bounds::refused(request.url) {
            return Step::Answer(answer);
        }
        let url = split_url(request.url);
        let paths = Paths::of(url.path);
        if paths.are_own() {
            return self.own(request, &paths.canonical, now_ms);
        }
        if request.platform.header("via").is_some_and(|via| went_through_us(&via)) {
            let detail = "the request has been through this gateway already: its origin leads back here";
            return Step::Answer(problem::plain(508, "Loop detected", detail));
        }
        let host = canonical_host(url.host);
        let Some(taken) = self.taken(request.method, &host, &paths) else {
            return self.unmatched();
        };
        let (index, route) = (taken.first.matched.index, taken.first.matched.route);
        let origin = route.origin.as_ref().map(origin_text);
        if taken.are_free(request.method, request.platform) {
            return self.forward(0, origin, String::new(), String::new(), Vec::new());
        }
        if claims.is_none()
            && let Some(token) = self.unverified(&taken, request.platform)
        {
            return Step::Verify(token);
        }
        let optimistic = taken.all().all(|reading| reading.matched.route.optimistic);
        let Request { method, platform, .. } = *request;
        let asked = Asked { method, host: &host, query: url.query, platform, claims };
        match self.admit_taken(taken, &asked, CostSource::Rules) {
            Err(answer) => Step::Answer(answer),
            Ok(mut admission) => {
                // Each delivery is charged, whatever key the request carries for the origin. And no route has slots
                // beside a key, but a path that is read in two ways may have two routes: there each takes its own.
                if task || admission.asks.iter().any(settle::is_concurrency) {
                    admission.repeat = None;
                }
                let told = [request.method, url.path, url.query];
                let charge = self.charge_id(&admission, &told, now_ms, random);
                let holder = self.holder(&mut admission.asks, now_ms, random);
                let waiting = self.waiting(&mut admission.asks, now_ms);
                // A client that names its request fears that it runs twice.
                let fit = optimistic && !task && admission.repeat.is_none() && ahead::is_fit(request);
                let start = if fit { Start::Fit } else { Start::Never };
                let reserving = self.reserving(&admission, charge.as_ref(), now_ms, random);
                let purpose = Purpose::Proxy {
                    route: index,
                    origin,
                    holder,
                    waiting,
                    start,
                    task,
                    permitted: None,
                    reserving,
                };
                self.decide(admission, charge, purpose, now_ms)
            }
        }
    }

    /// The fields that let a script at this `Origin` read an answer of ours; `None` where the policy lets none.
    pub fn cors(&self, origin: Option<&str>) -> Option<String> {
        self.rules.policy.gateway.cors.fields(origin)
    }

    fn unmatched(&self) -> Step {
        match self.rules.policy.gateway.unmatched {
            Unmatched::Pass => self.forward(0, None, String::new(), String::new(), Vec::new()),
            Unmatched::Deny => Step::Answer(problem::plain(404, "Not found", "no route takes this request")),
        }
    }

    /// Turns an outcome into the answer its purpose wants.
    fn finish(&mut self, outcome: Outcome, mut purpose: Purpose, now_ms: u64) -> Step {
        let mut outcome = match purpose.permitted().and_then(Option::take) {
            Some(permitted) => self.spent(outcome, *permitted),
            None => outcome,
        };
        let (origin, holder, reserving, task) = match purpose {
            Purpose::Admin(call) => return self.peeked(&call, &outcome),
            Purpose::Settle(_) => return Step::Answer(problem::interrupted()),
            Purpose::Check { reserving, .. } => {
                self.record(&outcome, None, now_ms);
                let charge = self.made_of(reserving.as_deref(), &outcome, now_ms);
                return Step::Answer(check_api::answer(&outcome, &self.rules.limits, &charge));
            }
            Purpose::Task(_) => return Step::Answer(problem::interrupted()),
            Purpose::Proxy { route, origin, holder, waiting, start, task, reserving, .. } => {
                self.placed(&mut outcome, waiting);
                self.ahead.end(start, outcome.allowed());
                if task && let Some(later) = self.later(&outcome) {
                    return later;
                }
                self.record(&outcome, Some(route), now_ms);
                (origin, holder, reserving, task)
            }
        };
        let charge = self.forwarded(reserving.as_deref(), &outcome, now_ms);
        let now_ms = outcome.at_its_moment(now_ms);
        let gateway = &self.rules.policy.gateway;
        let headers =
            headers::of(&outcome, &self.rules.limits, &gateway.headers, gateway.tier_header, now_ms);
        if outcome.allowed() {
            let held = holder.map_or_else(String::new, |holder| self.held(&outcome, &holder, now_ms));
            return self.forward(outcome.hold.map_or(0, |hold| hold.until_ms), origin, held, charge, headers);
        }
        let mut answer = problem::refusal(&outcome, &self.rules.limits);
        answer.headers.extend(headers);
        if task { Step::Answer(answer) } else { self.refused_or_queued(&outcome, answer) }
    }

    fn forward(
        &self,
        moment_ms: u64,
        origin: Option<String>,
        held: String,
        charge: String,
        headers: Vec<(&'static str, String)>,
    ) -> Step {
        let origin = origin.unwrap_or_else(|| self.rules.origin.clone());
        let timeout_ms = self.origin_timeout_ms();
        Step::Forward(Forward { moment_ms, origin, timeout_ms, held, charge, headers })
    }

    fn origin_timeout_ms(&self) -> u64 {
        self.rules.policy.gateway.origin_timeout_ms.unwrap_or(0)
    }
}

/// Whether a `Via` header (RFC 9110 section 7.6.3) names us.
fn went_through_us(via: &str) -> bool {
    via.split(',').any(|hop| hop.split_whitespace().nth(1).is_some_and(|by| by.eq_ignore_ascii_case(VIA)))
}
