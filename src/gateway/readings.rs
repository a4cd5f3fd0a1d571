//! Which routes take a request, and what it is admitted to, where its path can be read in more than one way.
//!
//! Origins disagree about such a path: for one of them `/v1/a%2Fb` has three segments and for another two, and
//! `/a//../b` is `/b` or `/a/b`. The route of each reading counts, so that none of them dodges a limit.

use std::borrow::Cow;

use super::admit::{self, Admission, CostSource};
use super::answer::Answer;
use super::{Gateway, OWN};
use crate::policy::path;
use crate::policy::routes::Matched;
use crate::policy::{Route, Unmatched};
use crate::subject::{Claims, HttpRequest, Platform};

/// The readings of a path.
pub(super) struct Paths<'a> {
    /// As routes are matched.
    pub canonical: Cow<'a, str>,
    sent: &'a str,
    other: Option<String>,
    odd: Vec<String>,
}

impl<'a> Paths<'a> {
    /// Those of a path as it was sent.
    pub fn of(sent: &'a str) -> Self {
        let canonical = path::canonical(sent);
        let other = path::other_reading(sent, &canonical);
        let mut odd = Vec::new();
        for path in path::odd_readings(sent) {
            if path != canonical && other.as_ref() != Some(&path) && !odd.contains(&path) {
                odd.push(path);
            }
        }
        Self { canonical, sent, other, odd }
    }

    /// Whether one of them is a path of our own. As it was sent, too: what a subject decodes to must not lead a call of
    /// ours, and its token, to the origin.
    pub fn are_own(&self) -> bool {
        let is_own = |path: &str| path.starts_with(OWN) || path == OWN.trim_end_matches('/');
        let mut others = self.other.iter().chain(&self.odd);
        is_own(&self.canonical) || self.sent.starts_with(OWN) || others.any(|path| is_own(path))
    }
}

/// The route that takes one reading of a path.
#[derive(Clone)]
pub(super) struct Reading<'a> {
    /// Canonical.
    pub path: &'a str,
    /// What takes it.
    pub matched: Matched<'a>,
}

/// The routes that take a request: the first says where it goes, the others count it as well. They may be the same route,
/// with other parameters.
pub(super) struct Taken<'a> {
    /// Of the path as routes are matched, where a route takes that.
    pub first: Reading<'a>,
    /// Of the other readings.
    pub others: Vec<Reading<'a>>,
}

impl<'a> Taken<'a> {
    /// At least one.
    pub fn all(&self) -> impl Iterator<Item = &Reading<'a>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Whether none of them counts the request.
    pub fn are_free(&self, method: &str, platform: &dyn Platform) -> bool {
        self.all().all(|reading| is_free(method, platform, reading.matched.route))
    }
}

/// A route without limits is free, and so is a CORS preflight (Fetch standard, section 3.3.2) unless the route names
/// OPTIONS.
fn is_free(method: &str, platform: &dyn Platform, route: &Route) -> bool {
    let preflight = || {
        method == "OPTIONS"
            && !route.methods.iter().any(|method| method == "OPTIONS")
            && platform.header("origin").is_some()
            && platform.header("access-control-request-method").is_some()
    };
    route.limits.is_empty() || preflight()
}

/// A request, whatever its path.
pub(super) struct Asked<'a> {
    /// As sent.
    pub method: &'a str,
    /// Canonical.
    pub host: &'a str,
    /// As sent.
    pub query: &'a str,
    /// Headers and what the platform adds.
    pub platform: &'a dyn Platform,
    /// Of its token; `None` as long as none was looked for.
    pub claims: Option<&'a Claims>,
}

impl Gateway {
    /// The routes that take a request.
    pub(super) fn taken<'a>(&'a self, method: &str, host: &str, paths: &'a Paths<'_>) -> Option<Taken<'a>> {
        let router = &self.rules.policy.router;
        let take = |path: &'a str| Some(Reading { path, matched: router.match_route(method, host, path)? });
        let usual = std::iter::once(&*paths.canonical).chain(paths.other.as_deref());
        let mut found: Vec<_> = usual.filter_map(take).collect();
        // What only some origins read is counted, but lets nothing in.
        if !found.is_empty() || self.rules.policy.gateway.unmatched == Unmatched::Pass {
            found.extend(paths.odd.iter().map(String::as_str).filter_map(take));
        }
        let mut found = found.into_iter();
        Some(Taken { first: found.next()?, others: found.collect() })
    }

    /// A request by one reading of its path.
    pub(super) fn described<'a>(&'a self, reading: Reading<'a>, asked: &Asked<'a>) -> HttpRequest<'a> {
        let gateway = &self.rules.policy.gateway;
        HttpRequest {
            method: asked.method,
            host: asked.host.into(),
            path: reading.path.into(),
            query: asked.query,
            route: &reading.matched.route.name,
            params: reading.matched.params,
            platform: asked.platform,
            client_ip: &gateway.client_ip,
            ipv6_prefix: gateway.ipv6_prefix,
            claims: asked.claims,
        }
    }

    /// [`admit::admit`] over the limits of all readings, each subject of a limit once. A limit that sees two subjects in
    /// one request counts it for both: whichever the origin means has been counted.
    pub(super) fn admit_taken(
        &self,
        taken: Taken<'_>,
        asked: &Asked<'_>,
        costs: CostSource,
    ) -> Result<Admission, Answer> {
        let mut admission = self.admit_reading(taken.first, asked, costs)?;
        for other in taken.others {
            let mut also = self.admit_reading(other, asked, costs)?;
            also.asks.retain(|ask| {
                !admission.asks.iter().any(|known| (known.limit, &known.subject) == (ask.limit, &ask.subject))
            });
            also.blocked.retain(|line| {
                let known = &admission.blocked;
                !known.iter().any(|known| (known.limit, &known.subject) == (line.limit, &line.subject))
            });
            admission.asks.extend(also.asks);
            admission.blocked.extend(also.blocked);
            admission.repeat = admission.repeat.or(also.repeat);
        }
        Ok(admission)
    }

    fn admit_reading(
        &self,
        reading: Reading<'_>,
        asked: &Asked<'_>,
        costs: CostSource,
    ) -> Result<Admission, Answer> {
        let route = reading.matched.route;
        let request = self.described(reading, asked);
        admit::admit(&self.rules.limits, &route.limits, &request, costs, &self.digester)
    }
}
