//! The admin API: what limits know of a subject, overrides, and what this isolate has counted. docs/admin.md is its
//! contract. Every call costs one store command at most, under the same deadline, breaker and bulkhead as a decision.

mod command;
mod in_force;
mod limits;
mod moment;
mod openmetrics;
mod overrides;
mod status;

pub(super) use command::Call;

use std::rc::Rc;

use percent_encoding::percent_decode_str;

use super::answer::{Answer, Step};
use super::asking::Purpose;
use super::prepared::Prepared;
use super::{Gateway, Request, problem, subject_path};
use crate::local::Key;
use crate::subject::request::{UrlParts, split_url};

/// Where the calls are.
const ROOT: &str = "/.sluicegate/v1/";

/// Longest body of a call, in bytes.
const LONGEST_BODY: u64 = 4_096;

/// The body of a call, which is read only where it is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body<'a> {
    NotRead,
    TooLong,
    Whole(&'a str),
}

/// Whom a call is about.
#[derive(Debug, Clone)]
struct Target {
    limit: usize,
    stem: Rc<str>,
    subject: Rc<str>,
}

impl Target {
    fn key(&self) -> Key {
        Key { stem: self.stem.clone(), subject: self.subject.clone() }
    }
}

impl Gateway {
    /// Brings the body of a call after [`Step::AdminBody`]; `None` is one that was longer than allowed.
    pub fn admin_body(&mut self, request: &Request<'_>, body: Option<&str>, now_ms: u64) -> Step {
        match self.authorized(request) {
            Ok(()) => self.admin(request, body.map_or(Body::TooLong, Body::Whole), now_ms),
            Err(answer) => Step::Answer(answer),
        }
    }

    /// A call whose token is right.
    pub(super) fn admin(&mut self, request: &Request<'_>, body: Body<'_>, now_ms: u64) -> Step {
        let url = split_url(request.url);
        // As sent: a subject's escapes are its own, and a decoded slash would end it.
        let segments: Vec<&str> = url.path.strip_prefix(ROOT).unwrap_or_default().split('/').collect();
        let done = match *segments.as_slice() {
            [call @ ("status" | "metrics")] => get(request, call).map(|()| self.numbers(call, body, now_ms)),
            ["limits", name, subject] => self.limits_call(request, &url, (name, subject), now_ms),
            ["overrides", name, subject] => self.overrides_call(request, (name, subject), body, now_ms),
            [kind @ ("limits" | "overrides"), ..] => Err(not_found(&format!(
                "write {ROOT}{kind}/{{name}}/{{subject}}, each part of the subject percent-encoded"
            ))),
            _ => Err(not_found("the admin API has no such call")),
        };
        done.unwrap_or_else(Step::Answer)
    }

    /// What this isolate has counted. Where the policy has queues the entry adds what it knows of them and of tasks.
    fn numbers(&mut self, call: &str, tasks: Body<'_>, now_ms: u64) -> Step {
        let tasks = match (tasks, self.ask_queues(call)) {
            (Body::Whole(text), _) => text,
            (_, Some(step)) => return step,
            (_, None) => "",
        };
        Step::Answer(match call {
            "status" => self.status(if tasks.is_empty() { "null" } else { tasks }, now_ms),
            _ => self.open_metrics(tasks, now_ms),
        })
    }

    fn limits_call(
        &mut self,
        request: &Request<'_>,
        url: &UrlParts<'_>,
        path: (&str, &str),
        now_ms: u64,
    ) -> Result<Step, Answer> {
        match request.method {
            "GET" => {
                let target = self.target(path)?;
                self.peek(&target, url.query, now_ms)
            }
            "DELETE" => {
                let target = self.target(path)?;
                Ok(self.forget(target, now_ms))
            }
            _ => Err(problem::method_not_allowed("limits/{name}/{subject}", "GET, DELETE")),
        }
    }

    fn overrides_call(
        &mut self,
        request: &Request<'_>,
        path: (&str, &str),
        body: Body<'_>,
        now_ms: u64,
    ) -> Result<Step, Answer> {
        match request.method {
            "GET" => {
                let target = self.target(path)?;
                self.read_override(target, now_ms)
            }
            "PUT" => {
                let target = self.target(path)?;
                match body {
                    Body::NotRead => Ok(Step::AdminBody(LONGEST_BODY)),
                    Body::TooLong => Err(problem::body_too_large(LONGEST_BODY)),
                    Body::Whole(body) => self.set_override(target, body, now_ms),
                }
            }
            "DELETE" => {
                let target = self.target(path)?;
                self.remove_override(target, now_ms)
            }
            _ => Err(problem::method_not_allowed("overrides/{name}/{subject}", "GET, PUT, DELETE")),
        }
    }

    /// The limit and the subject that a path names.
    fn target(&self, (name, subject): (&str, &str)) -> Result<Target, Answer> {
        let name = percent_decode_str(name).decode_utf8_lossy();
        let (limit, prepared) = self.rules.named(&name)?;
        let prefix = self.rules.policy.gateway.ipv6_prefix;
        match subject_path::subject(&prepared.limit, subject, prefix, &self.digester) {
            Ok(subject) => Ok(Target { limit, stem: prepared.state_stem.clone(), subject }),
            Err(wrong) => Err(problem::plain(400, "Bad subject", &wrong)),
        }
    }

    fn prepared(&self, target: &Target) -> Result<&Prepared, Answer> {
        self.rules.limits.get(target.limit).ok_or_else(problem::interrupted)
    }

    /// Reads what the store said to a plain command into the answer.
    pub(super) fn told(&mut self, purpose: Purpose, value: &serde_json::Value, now_ms: u64) -> Step {
        let Purpose::Admin(call) = purpose else {
            return Step::Answer(problem::interrupted());
        };
        let name = self.rules.limits.get(call.target.limit).map_or("", |limit| limit.limit.name.as_str());
        let answer = call.answer(name, value, now_ms);
        if call.changes() {
            self.refusals.forget(&call.target.key());
            self.permits.forget(&call.target.key());
        }
        if call.forgets() {
            self.local.forget(&call.target.key());
        }
        Step::Answer(answer)
    }

    /// The answer to a call that the store did not answer, or was not asked.
    pub(super) fn unanswered(&mut self, call: &Call, retry_ms: u64) -> Step {
        if !call.changes() {
            return Step::Answer(problem::unanswered(
                "the store did not answer, so nothing is known",
                retry_ms,
            ));
        }
        // It may have been done: then what is remembered here would be wrong, and asking again costs one call.
        self.refusals.forget(&call.target.key());
        self.permits.forget(&call.target.key());
        let detail =
            "the store did not confirm it: it may or may not have been done, and can be asked for again";
        Step::Answer(problem::unanswered(detail, retry_ms))
    }
}

fn get(request: &Request<'_>, call: &str) -> Result<(), Answer> {
    match request.method {
        "GET" => Ok(()),
        _ => Err(problem::method_not_allowed(call, "GET")),
    }
}

fn not_found(detail: &str) -> Answer {
    problem::plain(404, "Not found", detail)
}
