//! The slots API (SPEC section 6): slots of concurrency limits for workers and queues, which no response ends.
//!
//! `POST …/slots/{limit}/{subject}` takes, `GET` lists; `PUT …/{id}` renews, `DELETE …/{id}` frees, `POST …/{id}/pause`
//! frees for a while and `POST …/{id}/resume` asks again. A caller that waits asks the store time and again, nearer to
//! the head of the queue more often, and its place is kept for a little longer than until it asks next.

use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::json;

use super::answer::{Answer, Step};
use super::check_api::{LONGEST_BODY, read_object};
use super::outcome::{Line, Outcome, Reason, Tier};
use super::prepared::{Allowance, Prepared};
use super::problem::{self, bad_request};
use super::slot::Slot;
use super::slot_calls::Caller;
use super::slot_wait::{Waiter, waiter};
use super::{Gateway, log, subject_path};
use crate::limit::{Verdict, Wait};
use crate::store::slots::{Listed, Operation, Refused, Said, is_id};
use crate::subject::request::split_url;

/// Paths of the API begin with this, as they are sent.
const PREFIX: &str = "/.sluicegate/v1/slots/";

/// Fences are at least this many times the clock's milliseconds, so a lower one is older than this millisecond.
const FENCES_PER_MS: u64 = 1_024;

/// What a call wants to know.
#[derive(Debug)]
pub(super) enum ApiCall {
    /// A slot taken, for a caller that may wait for it.
    Take(Option<Waiter>),
    /// A paused slot taken anew.
    Resume(Option<Waiter>),
    /// A lease renewed.
    Renew,
    /// A slot given back, or for a pause.
    Free,
    /// Who holds, who waits.
    List,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    fence: Option<u64>,
}

/// Whether this URL is one of the API's.
pub(super) fn is_call(url: &str) -> bool {
    split_url(url).path.starts_with(PREFIX)
}

impl Gateway {
    /// Answers a call to the API, whose token has been looked at. The entry hands it over after [`Step::Slots`]; a
    /// body of `None` was longer than allowed. `random` is in [0, 1).
    pub fn slots(&mut self, method: &str, url: &str, body: Option<&str>, now_ms: u64, random: f64) -> Step {
        match self.slot_call(method, url, body, now_ms, random) {
            Ok((slot, operation, call)) => self.ask_about(slot, operation, Caller::Api(call), now_ms),
            Err(answer) => Step::Answer(answer),
        }
    }

    /// Asks again for a slot that is waited for. `random` is in [0, 1).
    pub fn slot_again(&mut self, note: &str, now_ms: u64, random: f64) -> Step {
        let Some(waiter) = self.waiter_of(note, random) else {
            return Step::Answer(problem::interrupted());
        };
        let (slot, operation) = (waiter.slot.clone(), self.taking(Some(&waiter), now_ms));
        let call = match waiter.slot.fence {
            0 => ApiCall::Take(Some(waiter)),
            _ => ApiCall::Resume(Some(waiter)),
        };
        self.ask_about(slot, operation, Caller::Api(call), now_ms)
    }

    fn slot_call(
        &mut self,
        method: &str,
        url: &str,
        body: Option<&str>,
        now_ms: u64,
        random: f64,
    ) -> Result<(Slot, Operation, ApiCall), Answer> {
        let parts = split_url(url);
        let segments: Vec<&str> = parts.path.strip_prefix(PREFIX).unwrap_or_default().split('/').collect();
        let (name, subject, rest) = match segments.as_slice() {
            [name, subject, rest @ ..] => (*name, *subject, rest),
            _ => return Err(no_such_call()),
        };
        let methods = match rest {
            [] => "GET, POST",
            [_] => "PUT, DELETE",
            [_, "pause" | "resume"] => "POST",
            _ => return Err(no_such_call()),
        };
        if !methods.split(", ").any(|known| known == method) {
            return Err(problem::method_not_allowed("this call", methods));
        }
        let limit = self.concurrency_limit(name)?;
        let (policy, ipv6_prefix) = (&limit.1.limit, self.rules.policy.gateway.ipv6_prefix);
        let subject = subject_path::subject(policy, subject, ipv6_prefix, &self.digester)
            .map_err(|detail| bad_request(&detail))?;
        let limit = limit.0;
        let text = body.ok_or_else(|| problem::body_too_large(LONGEST_BODY))?;
        let body: Body = match text.trim() {
            "" => Body::default(),
            text => read_object(text).map_err(|detail| bad_request(&detail))?,
        };
        let slot = |id: &str, fence| Slot { limit, subject: subject.clone(), id: id.into(), fence };
        let id = rest.first().copied().unwrap_or_default();
        if !rest.is_empty() && !is_id(id) {
            return Err(bad_request(ID));
        }
        match (rest, method) {
            ([], "GET") => Ok((slot("-", 0), Operation::List, ApiCall::List)),
            ([], "POST") => {
                if body.fence.is_some() {
                    return Err(bad_request("taking a slot takes no fence, it gives one"));
                }
                let id = match body.id {
                    Some(id) if is_id(&id) => id.into(),
                    Some(_) => return Err(bad_request(ID)),
                    None => self.slot_calls.ids.draw(now_ms, random),
                };
                let waiter = waiter(slot(&id, 0), parts.query, now_ms, random)
                    .map_err(|detail| bad_request(&detail))?;
                let operation = self.taking(waiter.as_ref(), now_ms);
                Ok((slot(&id, 0), operation, ApiCall::Take(waiter)))
            }
            ([_], "PUT") => {
                let fence = fence(&body, id)?;
                Ok((slot(id, fence), Operation::Renew(fence), ApiCall::Renew))
            }
            ([_], "DELETE") | ([_, "pause"], "POST") => {
                let fence = fence(&body, id)?;
                Ok((slot(id, fence), Operation::Free(fence), ApiCall::Free))
            }
            ([_, "resume"], "POST") => {
                let fence = fence(&body, id)?;
                let waiter = waiter(slot(id, fence), parts.query, now_ms, random)
                    .map_err(|detail| bad_request(&detail))?;
                let operation = self.taking(waiter.as_ref(), now_ms);
                Ok((slot(id, fence), operation, ApiCall::Resume(waiter)))
            }
            _ => Err(no_such_call()),
        }
    }

    fn concurrency_limit(&self, name: &str) -> Result<(usize, &Prepared), Answer> {
        let name = percent_decode_str(name).decode_utf8_lossy();
        let (index, prepared) = self.rules.named(&name)?;
        if !prepared.is_concurrency() {
            let detail = format!("{name} limits a rate; only a concurrency limit has slots");
            return Err(problem::plain(400, "Not a concurrency limit", &detail));
        }
        match prepared.quota {
            Allowance::Limited(..) => Ok((index, prepared)),
            Allowance::Unlimited => {
                let detail = format!("{name} is unlimited without a plan, so no slot is needed");
                Err(problem::plain(409, "Not counted", &detail))
            }
            Allowance::Blocked => {
                let line = line(index, prepared, &"-".into(), 0, Wait::Never);
                Err(problem::refusal(&Outcome::of(Tier::Store, vec![line]), &self.rules.limits))
            }
        }
    }

    /// The answer to a call, or the step towards it where it goes on waiting.
    pub(super) fn answer_about(&mut self, slot: &Slot, call: ApiCall, said: Said, now_ms: u64) -> Step {
        let answer = match (call, said) {
            (ApiCall::List, Said::Listed(listed)) => list(&listed),
            (ApiCall::Free, Said::Done(_)) => Answer::json(200, json!({ "freed": true }).to_string()),
            (ApiCall::Free, Said::NotHeld) => Answer::json(200, json!({ "freed": false }).to_string()),
            (call, Said::Done(done)) => {
                let fresh = done.fence >= done.clock_ms.saturating_mul(FENCES_PER_MS);
                let status = if matches!(call, ApiCall::Take(_)) && fresh { 201 } else { 200 };
                // A caller whose clock is another one counts the lease from before it asked.
                let lease_ms = done.expires_ms.saturating_sub(done.clock_ms);
                let body = json!({
                    "id": &*slot.id,
                    "fence": done.fence,
                    "expires_at_ms": done.expires_ms,
                    "lease_ms": lease_ms,
                });
                Answer::json(status, body.to_string())
            }
            (ApiCall::Take(Some(waiter)) | ApiCall::Resume(Some(waiter)), Said::Refused(refused))
                if now_ms < waiter.until_ms && refused.wait != Wait::Never =>
            {
                let waiter = waiter.told(&refused, now_ms);
                return Step::Wait(waiter.next_ms(now_ms), self.waiter_note(&waiter));
            }
            (_, Said::Refused(refused)) => self.refused(slot, &refused, now_ms),
            (_, Said::QueueFull(refused)) => {
                let mut answer = self.refused(slot, &refused, now_ms);
                answer.body = problem::queue_full(&answer.body);
                answer
            }
            (_, Said::NotHeld) => problem::plain(
                410,
                "Slot not held",
                "this slot was given back or its lease has ended, and an ended lease is not revived: take one anew",
            ),
            (_, Said::OtherFence) => problem::plain(
                409,
                "Wrong fence",
                "the slot was taken again under a higher fence: it is somebody else's, or a later attempt's",
            ),
            (_, Said::Listed(_)) => problem::interrupted(),
        };
        Step::Answer(answer)
    }

    /// The API never makes up a slot while the store cannot be asked. Who waits goes on waiting.
    pub(super) fn unavailable(&mut self, slot: &Slot, call: ApiCall, now_ms: u64) -> Step {
        let retry_ms = self.retry_ms(now_ms);
        if let ApiCall::Take(Some(waiter)) | ApiCall::Resume(Some(waiter)) = call
            && now_ms < waiter.until_ms
        {
            let left_ms = waiter.until_ms.saturating_sub(now_ms);
            return Step::Wait(retry_ms.min(left_ms), self.waiter_note(&waiter));
        }
        let wait = Wait::Ms(retry_ms);
        let prepared = self.rules.limits.get(slot.limit);
        let lines = prepared.map(|prepared| line(slot.limit, prepared, &slot.subject, 0, wait));
        let outcome = Outcome::of(Tier::Closed, lines.into_iter().collect());
        let outcome = Outcome { refused: Some(Reason::StoreUnavailable), ..outcome };
        Step::Answer(problem::refusal(&outcome, &self.rules.limits))
    }

    fn refused(&mut self, slot: &Slot, refused: &Refused, now_ms: u64) -> Answer {
        let Some(prepared) = self.rules.limits.get(slot.limit) else { return problem::interrupted() };
        let tier = if self.form.is_some() { Tier::Store } else { Tier::Isolate };
        let line = line(slot.limit, prepared, &slot.subject, refused.limit, refused.wait);
        let outcome = Outcome::of(tier, vec![line]);
        if let Some(left_out) = self.sampler.line(now_ms) {
            self.log.push(log::refusal(&outcome, &self.rules.limits, &self.digester, None, left_out));
        }
        problem::refusal(&outcome, &self.rules.limits)
    }
}

const ID: &str = "an id is 1 to 64 of A-Z a-z 0-9 _ -";

fn fence(body: &Body, id: &str) -> Result<u64, Answer> {
    if body.id.as_ref().is_some_and(|other| other != id) {
        return Err(bad_request("the id in the body is another one than in the path"));
    }
    let whole = body.fence.filter(|fence| (1..1 << 53).contains(fence));
    whole
        .ok_or_else(|| bad_request("the body must say the fence that the slot was taken with: {\"fence\":n}"))
}

fn line(index: usize, prepared: &Prepared, subject: &std::rc::Rc<str>, limit: u64, wait: Wait) -> Line {
    let reset_ms = if let Wait::Ms(ms) = wait { ms } else { 0 };
    Line {
        limit: index,
        window_ms: prepared.limit.window_ms,
        shadow: false,
        cost: 1,
        subject: subject.clone(),
        verdict: Verdict { limit, remaining: 0, reset_ms, wait },
    }
}

fn list(listed: &Listed) -> Answer {
    let holders = listed.holders.iter().map(
        |holding| json!({ "id": holding.id, "fence": holding.fence, "expires_at_ms": holding.expires_ms }),
    );
    let waiting = listed
        .waiters
        .iter()
        .enumerate()
        .map(|(before, id)| json!({ "id": id, "place": before.saturating_add(1) }));
    let body = json!({
        "limit": listed.limit,
        "free": listed.free,
        "holders": holders.collect::<Vec<_>>(),
        "waiting": waiting.collect::<Vec<_>>(),
    });
    Answer::json(200, body.to_string())
}

fn no_such_call() -> Answer {
    problem::plain(404, "Not found", "the slots API has no such call")
}
