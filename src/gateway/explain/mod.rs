//! What the gateway would make of one request, explained without a store: the checker's `--explain`. Host only.
//!
//! Nothing is decided here. The answer is [`Gateway::receive`]'s own, of a gateway without a store and so for a
//! subject that has used nothing; what each limit comes to is asked of `admit`, one limit at a time, so that a fault
//! of one does not hide the next.

mod explained;
mod limit;
mod text;
mod words;

use std::collections::BTreeMap;

use serde::Serialize;

pub use explained::{Applies, Explained};

use super::admit::CostSource;
use super::readings::{self, Asked, Paths, Reading};
use super::{Gateway, Request, Step, ahead, bounds, settle, went_through_us};
use crate::policy::routes::Matched;
use crate::store::Ask;
use crate::subject::Claims;
use crate::subject::request::{canonical_host, split_url};

/// A request and what the gateway would make of it.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// As sent.
    pub method: String,
    /// As sent.
    pub url: String,
    /// As routes are matched: lower case, without port.
    pub host: String,
    /// As routes are matched: decoded, without dot segments and doubled slashes.
    pub path: String,
    /// What becomes of the request before a limit is looked at.
    pub course: Course,
    /// The route that takes it.
    pub route: Option<Taken>,
    /// The next route that counts it as well, where its path can be read in more ways than one.
    pub read_otherwise: Option<Taken>,
    /// Another method or host with which a route would take it, where none does.
    pub nearest: Option<Nearest>,
    /// Whether it reaches the origin while the store decides.
    pub optimistic: bool,
    /// Each limit of its route, in the order written there.
    pub limits: Vec<Explained>,
    /// The answer, if the subjects have used nothing so far. `None` for paths of the gateway's own.
    pub answer: Option<Expected>,
    /// What happens instead while the store is down. `None` where nothing asks the store.
    pub store_down: Option<StoreDown>,
    /// Whether digests in store keys are made with `KEY_SECRET`.
    pub keyed_digests: bool,
}

/// What becomes of a request before a limit is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Course {
    /// Its URL is too long, or has no host.
    Refused,
    /// A path of the gateway's own: never limited, never forwarded.
    Own,
    /// Its `Via` names the gateway.
    Loop,
    /// No route takes it.
    Unmatched,
    /// Its route names no limits.
    WithoutLimits,
    /// A CORS preflight, which no limit counts.
    Preflight,
    /// Its route's limits are looked at.
    Limited,
}

/// A route and what its path's parameters took.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// Its name.
    pub name: String,
    /// Its path as written.
    pub path: String,
    /// Methods it takes; none: all.
    pub methods: Vec<String>,
    /// Host it takes; `None`: all.
    pub host: Option<String>,
    /// Parameters by name.
    pub params: BTreeMap<String, String>,
}

/// What to change for a route to take the request.
#[derive(Debug, Serialize)]
pub struct Nearest {
    /// Name of that route.
    pub route: String,
    /// The method it takes.
    pub method: String,
    /// The host it takes.
    pub host: String,
}

/// An answer.
#[derive(Debug, Serialize)]
pub struct Expected {
    /// Where the request is forwarded to; `None` where it is not.
    pub forwarded_to: Option<String>,
    /// Status of an answer of the gateway's own.
    pub status: Option<u16>,
    /// Headers that the gateway adds to the origin's answer, or sends with its own.
    pub headers: BTreeMap<&'static str, String>,
    /// The problem document of an answer of the gateway's own.
    pub problem: Option<serde_json::Value>,
}

/// What happens while the store is down.
#[derive(Debug, Serialize)]
pub struct StoreDown {
    /// `closed`: 503. `degraded`: the isolate decides. `open`: passes uncounted.
    pub tier: &'static str,
    /// Names of the limits that make it so.
    pub by: Vec<String>,
}

impl Gateway {
    /// Explains a request at a moment in milliseconds since the Unix epoch. The gateway must have been made without
    /// a store: it is used up, since the answer is one that it gave. `claims` are those of a token that was verified;
    /// none where there is no token, or one that is not to be believed.
    pub fn explain(mut self, request: &Request<'_>, claims: &Claims, now_ms: u64) -> Explanation {
        let url = split_url(request.url);
        let (host, paths) = (canonical_host(url.host), Paths::of(url.path));
        let found = self.taken(request.method, &host, &paths);
        let course = course(request, &paths, found.as_ref());
        let unmatched = found.is_none() && course == Course::Unmatched;
        let nearest = unmatched.then(|| self.nearest(request.method, &host, &paths.canonical)).flatten();
        let Request { method, platform, .. } = *request;
        let asked = Asked { method, host: &host, query: url.query, platform, claims: Some(claims) };
        let route = |reading: &Reading<'_>| taken(&reading.matched);
        let shown =
            found.as_ref().filter(|_| !matches!(course, Course::Refused | Course::Own | Course::Loop));
        let (shown, otherwise) =
            shown.map_or((None, None), |found| (Some(route(&found.first)), found.others.first().map(route)));
        let counted = found.filter(|_| course == Course::Limited);
        let (limits, store_down, optimistic) = counted.map_or((Vec::new(), None, false), |found| {
            let limits = self.limits_of(&found, &asked, now_ms);
            let fit = found.all().all(|reading| reading.matched.route.optimistic) && ahead::is_fit(request);
            let whole = self.admit_taken(found, &asked, CostSource::Rules);
            let settled = whole.ok().filter(|admission| !admission.blocked.iter().any(|line| line.refuses()));
            let begun = fit && settled.as_ref().is_some_and(|admission| admission.repeat.is_none());
            let store_down = settled.and_then(|admission| self.store_down(&admission.asks));
            let begun = begun && store_down.is_some();
            (limits, store_down, begun)
        });
        let (host, path) = (host.into_owned(), paths.canonical.clone().into_owned());
        let answer = (course != Course::Own)
            .then(|| self.walk(request, Some(claims), false, now_ms, 0.0))
            .and_then(expected);
        Explanation {
            method: request.method.to_owned(),
            url: request.url.to_owned(),
            host,
            path,
            course,
            route: shown,
            read_otherwise: otherwise,
            nearest,
            optimistic,
            limits,
            answer,
            store_down,
            keyed_digests: self.digester.is_keyed(),
        }
    }

    /// Each limit of each reading, a limit that would count the same subject again but once.
    fn limits_of(&self, found: &readings::Taken<'_>, asked: &Asked<'_>, now_ms: u64) -> Vec<Explained> {
        let mut limits: Vec<Explained> = Vec::new();
        for reading in found.all() {
            let attributes = self.described(reading.clone(), asked);
            for index in &reading.matched.route.limits {
                let Some(explained) = limit::explain(self, *index, &attributes, now_ms) else { continue };
                let again = |known: &Explained| {
                    (&known.name, &known.store_key) == (&explained.name, &explained.store_key)
                };
                if !limits.iter().any(again) {
                    limits.push(explained);
                }
            }
        }
        limits
    }

    /// Tries the other methods and hosts that routes name.
    fn nearest(&self, method: &str, host: &str, path: &str) -> Option<Nearest> {
        let router = &self.rules.policy.router;
        let routes = router.routes();
        let methods =
            [method].into_iter().chain(routes.iter().flat_map(|r| r.methods.iter().map(String::as_str)));
        let mut hosts = [host].into_iter().chain(routes.iter().filter_map(|route| route.host.as_deref()));
        hosts.find_map(|host| {
            let (method, matched) =
                methods.clone().find_map(|method| Some((method, router.match_route(method, host, path)?)))?;
            let route = matched.route.name.clone();
            Some(Nearest { route, method: method.to_owned(), host: host.to_owned() })
        })
    }

    /// Whose failure policy decides. `None` where nothing would have asked the store.
    fn store_down(&self, asks: &[Ask]) -> Option<StoreDown> {
        let name = |index: usize| self.rules.limits.get(index).map(|prepared| prepared.limit.name.clone());
        if asks.is_empty() {
            return None;
        }
        if let Some(outcome) = settle::closed(&self.rules.limits, asks, 0) {
            let by = outcome.lines.iter().filter_map(|line| name(line.limit)).collect();
            return Some(StoreDown { tier: outcome.tier.word(), by });
        }
        let degraded = settle::degraded_asks(&self.rules.limits, asks);
        let tier =
            if degraded.is_empty() { super::outcome::Tier::Open } else { super::outcome::Tier::Degraded };
        let by = degraded.iter().filter_map(|ask| name(ask.limit)).collect();
        Some(StoreDown { tier: tier.word(), by })
    }
}

fn course(request: &Request<'_>, paths: &Paths<'_>, found: Option<&readings::Taken<'_>>) -> Course {
    if bounds::refused(request.url).is_some() {
        return Course::Refused;
    }
    if paths.are_own() {
        return Course::Own;
    }
    if request.platform.header("via").is_some_and(|via| went_through_us(&via)) {
        return Course::Loop;
    }
    match found {
        None => Course::Unmatched,
        Some(found) if found.all().all(|reading| reading.matched.route.limits.is_empty()) => {
            Course::WithoutLimits
        }
        Some(found) if found.are_free(request.method, request.platform) => Course::Preflight,
        Some(_) => Course::Limited,
    }
}

fn taken(matched: &Matched<'_>) -> Taken {
    let route = matched.route;
    Taken {
        name: route.name.clone(),
        path: route.path.clone(),
        methods: route.methods.clone(),
        host: route.host.clone(),
        params: matched
            .params
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

/// The step as an answer; `None` for steps that ask for something more.
fn expected(step: Step) -> Option<Expected> {
    match step {
        Step::Forward(forward) => Some(Expected {
            forwarded_to: Some(forward.origin),
            status: None,
            headers: told(forward.headers),
            problem: None,
        }),
        Step::Answer(answer) => Some(Expected {
            forwarded_to: None,
            status: Some(answer.status),
            headers: told(answer.headers),
            problem: serde_json::from_str(&answer.body).ok(),
        }),
        _ => None,
    }
}

/// Without the tier, which is that of a gateway without a store.
fn told(headers: Vec<(&'static str, String)>) -> BTreeMap<&'static str, String> {
    headers.into_iter().filter(|(name, _)| *name != "Sluicegate-Tier").collect()
}
