//! The paths of our own: health, and the decision API (`POST check`), which decides without proxying.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::admin::Body;
use super::admit::{self, CostSource};
use super::answer::{Answer, Step};
use super::asking::Purpose;
use super::given::Given;
use super::outcome::Outcome;
use super::prepared::Prepared;
use super::problem::{self, bad_request};
use super::readings::{Asked, Paths};
use super::{Gateway, OWN, Request, settle, slots_api, task_calls};
use crate::store::Ask;
use crate::subject::request::{canonical_host, has_plain_authority, split_url};
use crate::subject::{Claims, Platform};

/// Longest body of a call to the API, in bytes.
pub(super) const LONGEST_BODY: u64 = 65_536;

/// Greatest cost that a check may name.
const MAX_COST: u64 = crate::policy::bounds::MAX_COST;

/// What `POST check` is asked: limits by name and the subject by key part, or a request to be matched to a route.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    #[serde(default)]
    limits: Option<Vec<String>>,
    #[serde(default)]
    subject: HashMap<String, String>,
    #[serde(default)]
    cost: Option<serde_json::Number>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: HashMap<String, String>,
    #[serde(default)]
    settle: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct Decided<'a> {
    allowed: bool,
    tier: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    limits: Vec<DecidedLimit<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    charge: &'a str,
}

#[derive(Serialize)]
struct DecidedLimit<'a> {
    name: &'a str,
    allowed: bool,
    limit: u64,
    remaining: u64,
    reset_ms: u64,
}

/// The decision API's answer, with the charge that its caller may settle, if it is not empty.
pub fn answer(outcome: &Outcome, limits: &[Prepared], charge: &str) -> Answer {
    let lines = outcome.each_limit().into_iter().filter_map(|line| {
        let name = limits.get(line.limit)?.limit.name.as_str();
        let verdict = &line.verdict;
        Some(DecidedLimit {
            name,
            allowed: !line.refuses(),
            limit: verdict.limit,
            remaining: verdict.remaining,
            reset_ms: verdict.reset_ms,
        })
    });
    let decided = Decided {
        allowed: outcome.allowed(),
        tier: outcome.tier.word(),
        reason: outcome.refused.map(super::outcome::Reason::word),
        retry_after_ms: outcome.retry_after_ms,
        delay_ms: outcome.hold.map(|hold| hold.for_ms),
        limits: lines.collect(),
        charge,
    };
    Answer::json(200, serde_json::to_string(&decided).unwrap_or_default())
}

impl Gateway {
    /// A request for one of our own paths: never limited, never forwarded.
    pub(super) fn own(&mut self, request: &Request<'_>, canonical: &str, now_ms: u64) -> Step {
        let call = canonical.strip_prefix(OWN).unwrap_or_default();
        if call == "health" {
            if !matches!(request.method, "GET" | "HEAD") {
                return Step::Answer(problem::method_not_allowed("health", "GET, HEAD"));
            }
            return Step::Answer(self.healthy());
        }
        if let Some(id) = call.strip_prefix(task_calls::PATH) {
            return self.task_status(request.method, id, now_ms);
        }
        // As it was sent: a subject that decodes to a way up is no page.
        if matches!(split_url(request.url).path, "/.sluicegate" | "/.sluicegate/") && self.admin.is_some() {
            return page(request.method);
        }
        if let Err(answer) = self.authorized(request) {
            return Step::Answer(answer);
        }
        match (call, request.method) {
            _ if slots_api::is_call(request.url) => Step::Slots(LONGEST_BODY),
            ("v1/check", "POST") => Step::Body(LONGEST_BODY),
            ("v1/check", _) => Step::Answer(problem::method_not_allowed("check", "POST")),
            _ => self.admin(request, Body::NotRead, now_ms),
        }
    }

    /// Whether a call carries the API's token; the answer where it does not.
    pub(super) fn authorized(&self, request: &Request<'_>) -> Result<(), Answer> {
        let Some(admin) = &self.admin else {
            return Err(problem::plain(404, "Not found", "the admin API is off: ADMIN_TOKEN is not set"));
        };
        let authorization = request.platform.header("authorization");
        let token = authorization.as_deref().and_then(bearer);
        if token.is_some_and(|token| admin.is(token)) {
            return Ok(());
        }
        let mut answer = problem::plain(401, "Unauthorized", "the admin API wants its bearer token");
        answer.headers.push(("WWW-Authenticate", "Bearer".to_owned()));
        Err(answer)
    }

    /// Decides what the body of a `POST check` asks. The entry hands it over after [`Step::Body`]; `None` is a body
    /// that was longer than allowed.
    pub fn check(&mut self, body: Option<&str>, now_ms: u64, random: f64) -> Step {
        let Some(body) = body else {
            return Step::Answer(problem::body_too_large(LONGEST_BODY));
        };
        self.checked(body, None, now_ms, random)
    }

    /// `claims` is `None` as long as no token was looked for.
    pub(super) fn checked(&mut self, body: &str, claims: Option<&Claims>, now_ms: u64, random: f64) -> Step {
        match self.admission(body, claims, now_ms) {
            Err(step) => step,
            Ok(mut admission) => {
                look_at_slots(&mut admission.asks);
                let charge = self.charge_id(&admission, &["check"], now_ms, random);
                let reserving = self.reserving(&admission, charge.as_ref(), now_ms, random);
                self.decide(admission, charge, Purpose::Check { permitted: None, reserving }, now_ms)
            }
        }
    }

    fn admission(
        &mut self,
        body: &str,
        claims: Option<&Claims>,
        now_ms: u64,
    ) -> Result<admit::Admission, Step> {
        let question: Question = read_object(body).map_err(|detail| bad_request(&detail))?;
        let costs = match &question.cost {
            None => CostSource::Rules,
            Some(number) => CostSource::Given(
                super::cost::parse(&number.to_string(), MAX_COST).map_err(|detail| bad_request(&detail))?,
            ),
        };
        let by_subject = question.limits.is_some() || !question.subject.is_empty();
        let by_request = question.url.is_some() || question.method.is_some() || !question.headers.is_empty();
        if let Some(told) = &question.settle {
            let alone = !by_subject && !by_request && question.cost.is_none();
            return Err(if alone {
                self.settle_told(told, now_ms)
            } else {
                bad_request("say settle alone").into()
            });
        }
        match (&question.limits, &question.url) {
            (Some(names), None) if !by_request => Ok(self.by_subject(names, &question.subject, costs)?),
            (None, Some(url)) if !by_subject => self.by_request(&question, url, costs, claims),
            _ => Err(bad_request("say either limits and subject, or method, url and headers").into()),
        }
    }

    fn by_subject(
        &self,
        names: &[String],
        subject: &HashMap<String, String>,
        costs: CostSource,
    ) -> Result<admit::Admission, Answer> {
        let mut chosen = Vec::with_capacity(names.len());
        for name in names {
            match self.rules.by_name.get(name) {
                Some(index) if chosen.contains(index) => return Err(bad_request("a limit is named twice")),
                Some(index) => chosen.push(*index),
                None => return Err(problem::unknown_limit(name, &self.rules.limits)),
            }
        }
        let given = Given::read(subject, self.rules.policy.gateway.ipv6_prefix)
            .map_err(|detail| bad_request(&detail))?;
        admit::admit(&self.rules.limits, &chosen, &given, costs, &self.digester)
    }

    fn by_request(
        &self,
        question: &Question,
        url: &str,
        costs: CostSource,
        claims: Option<&Claims>,
    ) -> Result<admit::Admission, Step> {
        let whole = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
        let readable = url.starts_with('/') || (whole && has_plain_authority(url));
        if !readable {
            return Err(bad_request("url must be whole, such as https://host/path, or begin with /").into());
        }
        let parts = split_url(url);
        let (host, paths) = (canonical_host(parts.host), Paths::of(parts.path));
        let method = question.method.as_deref().unwrap_or("GET");
        let Some(taken) = self.taken(method, &host, &paths) else {
            return Ok(admit::Admission::default());
        };
        let headers = question.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
        let platform = Described(headers.collect());
        if platform.0.len() < question.headers.len() {
            return Err(bad_request("a header is named twice, in other letters").into());
        }
        if taken.are_free(method, &platform) {
            return Ok(admit::Admission::default());
        }
        if claims.is_none()
            && let Some(token) = self.unverified(&taken, &platform)
        {
            return Err(Step::Verify(token));
        }
        let asked = Asked { method, host: &host, query: parts.query, platform: &platform, claims };
        Ok(self.admit_taken(taken, &asked, costs)?)
    }
}

/// Reads a body that is an object. Of a list, serde would take the items for the fields in their order.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read_object<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, String> {
    if body.trim_start().starts_with('[') {
        return Err("found a list where an object belongs".to_owned());
    }
    serde_json::from_str(body).map_err(|error| error.to_string())
}

/// The status page: whoever asks may have it, since it holds nothing and reads all by the API.
fn page(method: &str) -> Step {
    match method {
        "GET" | "HEAD" => Step::Page,
        _ => Step::Answer(problem::method_not_allowed("the status page", "GET, HEAD")),
    }
}

/// A check has no end at which a slot could be given back, so it takes none.
fn look_at_slots(asks: &mut [Ask]) {
    asks.iter_mut().filter(|ask| settle::is_concurrency(ask)).for_each(|ask| ask.cost = 0);
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A request described by its headers.
struct Described(HashMap<String, String>);

impl Platform for Described {
    fn header(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn country(&self) -> Option<String> {
        self.0.get("cf-ipcountry").cloned()
    }

    fn asn(&self) -> Option<String> {
        None
    }
}
