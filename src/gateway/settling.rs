//! Settling charges: by a header of the origin's answer, beside it, or by a caller of the decision API. Whoever comes
//! first settles; the store, or the isolate that holds the charge, knows.

use std::rc::Rc;

use serde_json::Value;

use super::answer::{Answer, Step};
use super::asking::Purpose;
use super::charge::STORE;
use super::problem::{self, bad_request};
use super::{Gateway, log, settle};
use crate::local::Key;
use crate::policy::{OnStoreError, Settle};
use crate::store::settlement::{self, Part, Said};
use crate::store::{Ask, Form, ScriptCall, Stems, script};

/// How far the clocks of two gateways may be apart, in milliseconds.
const APART_MS: u64 = crate::limit::CLOCK_SLACK_MS;

/// How much longer than it may be asked for a settlement is kept, in milliseconds.
const MARGIN_MS: u64 = APART_MS + crate::limit::TTL_MARGIN_MS;

/// What is counted of settlements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settlements {
    /// Charges settled.
    pub made: u64,
    /// Units charged beyond reservations.
    pub charged: u64,
    /// Units given back.
    pub given_back: u64,
    /// Settled before, so that nothing changed.
    pub repeated: u64,
    /// Not made: the store failed, it was too late, or the limit has changed. The reservation stands.
    pub lost: u64,
    /// Answers without the header. The reservation stands, or is settled by the API.
    pub without_header: u64,
    /// Answers whose header holds no whole number.
    pub unreadable: u64,
}

impl Settlements {
    /// Each count by its word: five of charges, then two of units.
    pub fn words(&self) -> [(&'static str, u64); 7] {
        let Self { made, charged, given_back, repeated, lost, without_header, unreadable } = *self;
        [
            ("made", made),
            ("repeated", repeated),
            ("lost", lost),
            ("without_header", without_header),
            ("unreadable", unreadable),
            ("charged", charged),
            ("given_back", given_back),
        ]
    }
}

/// A charge whose real cost is known.
#[derive(Debug, Clone)]
pub(super) struct Settling {
    /// Id and moment of the reservation: what makes it one of its kind.
    pub id: String,
    /// The clock that decided it, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// Who holds it: the store, or the isolate of this name.
    pub place: String,
    /// How long after that it may be settled, in milliseconds.
    pub within_ms: u64,
    /// The limits that settle, as far as their cost is known.
    pub parts: Vec<Part>,
    /// Whether a caller of the API waits to be told.
    pub told: bool,
}

impl Gateway {
    /// Settles a charge by the origin's answer: lines of `name: value`, of the headers that the policy names. The
    /// charge is as [`super::Forward::charge`] has it.
    pub fn settle(&mut self, charge: &str, fields: &str, now_ms: u64) -> Step {
        let (mut missing, mut unreadable) = (false, false);
        let mut cost_of = |_: &str, settle: Option<&Settle>| {
            let settle = settle?;
            for line in fields.lines() {
                if let Some((name, text)) = line.split_once(": ")
                    && name == settle.header
                {
                    let cost = whole(text, settle.max);
                    unreadable |= cost.is_none();
                    return cost;
                }
            }
            missing = true;
            None
        };
        let Some(settling) = self.charge_of(charge, &mut cost_of) else { return KEPT };
        let counts = &mut self.counters.settlements;
        if unreadable {
            counts.unreadable = counts.unreadable.saturating_add(1);
            if !std::mem::replace(&mut self.unreadable_cost, true) {
                self.log.push(log::unreadable_cost());
            }
        } else if !settling.parts.is_empty() {
            self.unreadable_cost = false;
        } else if missing {
            counts.without_header = counts.without_header.saturating_add(1);
        }
        if settling.parts.is_empty() { KEPT } else { self.settle_at(settling, now_ms) }
    }

    /// Settles a charge by what the caller of the API says: `{"charge": …, "used": …}`, a number for all of its limits or
    /// numbers by their names.
    pub(super) fn settle_told(&mut self, told: &Value, now_ms: u64) -> Step {
        let (charge, used) = match (told.as_object(), &told["charge"], &told["used"]) {
            (Some(fields), Value::String(charge), used) if fields.len() == 2 => (charge, used),
            _ => return bad_request("settle must be {\"charge\": \"…\", \"used\": 1234}").into(),
        };
        let (mut named, mut wrong) = (false, false);
        let mut cost_of = |name: &str, settle: Option<&Settle>| {
            let used = match used.as_object() {
                Some(by_name) => by_name.get(name)?,
                None => used,
            };
            let cost = whole(&used.to_string(), settle.map_or(u64::MAX, |settle| settle.max));
            named = true;
            wrong |= cost.is_none();
            cost
        };
        let Some(mut settling) = self.charge_of(charge, &mut cost_of) else {
            return bad_request("settle.charge is no charge of this gateway's, or was changed").into();
        };
        if wrong || !named {
            return bad_request("settle.used must be a whole number, or whole numbers by limit").into();
        }
        settling.told = true;
        self.settle_at(settling, now_ms)
    }

    fn settle_at(&mut self, settling: Settling, now_ms: u64) -> Step {
        let Settling { since_ms, within_ms, told, .. } = settling;
        let here = settling.place == self.isolate_name();
        let reason = if settling.parts.is_empty() {
            "limit-changed"
        } else if now_ms > since_ms.saturating_add(within_ms) || since_ms > now_ms.saturating_add(APART_MS) {
            "expired"
        } else if here {
            return self.settle_here(&settling, now_ms);
        } else if let Some(form) = self.form.filter(|_| settling.place == STORE) {
            return self.send(form, Vec::new(), None, Purpose::Settle(Box::new(settling)), now_ms);
        } else {
            "elsewhere"
        };
        self.lose();
        if told { Step::Answer(answer(false, reason, "")) } else { KEPT }
    }

    /// Settles what this isolate has decided alone, in its own table.
    fn settle_here(&mut self, settling: &Settling, now_ms: u64) -> Step {
        let kept_ms = settling.within_ms.saturating_add(MARGIN_MS);
        let first = self.local.note(&settling.id, kept_ms, now_ms);
        let mut said = Said { first, parts: Vec::new() };
        for part in &settling.parts {
            let quota = match self.form {
                Some(_) => settle::shared(part.quota, self.rules.policy.degraded.share),
                None => part.quota,
            };
            let cost = if first { part.cost } else { part.reservation.units };
            let key = self.key_of(part);
            said.parts.push(self.local.settle(&key, &quota, &part.reservation, cost, now_ms));
        }
        self.settled(settling, &said, false, now_ms)
    }

    /// The call to the store.
    pub(super) fn settle_body(&self, settling: &Settling, form: Form, by: ScriptCall, now_ms: u64) -> String {
        let Settling { id, since_ms, within_ms, parts, .. } = settling;
        let clock = self.rules.policy.store.clock;
        let until_ms = since_ms.saturating_add(*within_ms).saturating_add(MARGIN_MS);
        let (since_ms, kept_ms) = (*since_ms, until_ms.saturating_sub(now_ms).max(MARGIN_MS));
        let id = (self.rules.settlement_stem.as_str(), id.as_str());
        let call = settlement::Call { form, by, clock, now_ms, parts, id, since_ms, kept_ms };
        settlement::body(&script::SETTLE, &call, &|part| match self.rules.limits.get(part.limit) {
            Some(prepared) => prepared.stems(),
            None => Stems::default(),
        })
    }

    /// What a settlement came to. `again` says whether the call was made once more, so that it may have been this one
    /// that settled.
    pub(super) fn settled(&mut self, settling: &Settling, said: &Said, again: bool, now_ms: u64) -> Step {
        // Asked for again by ourselves, it is the first all the same.
        let first = said.first || again;
        let counts = &mut self.counters.settlements;
        let count = if first { &mut counts.made } else { &mut counts.repeated };
        *count = count.saturating_add(1);
        let mut limits = String::new();
        for (part, (units, left)) in settling.parts.iter().zip(&said.parts) {
            if first {
                let counts = &mut self.counters.settlements;
                let count = if *units > 0 { &mut counts.charged } else { &mut counts.given_back };
                *count = count.saturating_add(units.unsigned_abs());
            }
            let Some(prepared) = self.rules.limits.get(part.limit) else { continue };
            if settling.told {
                let (name, comma) = (&prepared.limit.name, if limits.is_empty() { "" } else { "," });
                limits.push_str(&format!(
                    "{comma}{{\"name\":\"{name}\",\"units\":{units},\"remaining\":{left}}}"
                ));
            }
            // A debt is known here too, should the store fail.
            let share = settle::shared(part.quota, self.rules.policy.degraded.share);
            let warm = *units > 0 && settling.place == STORE && *left < share.capacity();
            if warm && prepared.limit.on_store_error == OnStoreError::Degraded {
                self.local.feed(&self.key_of(part), &share, *left, now_ms);
            }
        }
        if !settling.told {
            return Step::Done("settled");
        }
        Step::Answer(answer(first, "already-settled", &limits))
    }

    /// The store cannot be asked: the reservation stands, unless a caller comes again.
    pub(super) fn not_settled(&mut self, told: bool, retry_ms: u64) -> Step {
        self.lose();
        let detail = "the store did not confirm it: it may or may not be settled, and can be asked for again";
        if told { Step::Answer(problem::unanswered(detail, retry_ms)) } else { KEPT }
    }

    /// Whether a limit settles after the answer.
    pub(super) fn settles(&self, ask: &Ask) -> bool {
        self.rules.limits.get(ask.limit).is_some_and(|prepared| prepared.limit.settle.is_some())
    }

    fn lose(&mut self) {
        let counts = &mut self.counters.settlements;
        counts.lost = counts.lost.saturating_add(1);
    }

    fn key_of(&self, part: &Part) -> Key {
        let stem = self.rules.limits.get(part.limit).map(|prepared| prepared.state_stem.clone());
        Key { stem: stem.unwrap_or_else(|| Rc::from("")), subject: part.subject.clone() }
    }
}

/// The reservation stands.
const KEPT: Step = Step::Done("kept");

/// The cost that an origin or a caller says: digits, and `max` where it is greater.
fn whole(text: &str, max: u64) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Digits that are no number are too many.
    digits.then(|| text.parse().unwrap_or(max).min(max))
}

/// The API's answer. Names hold only characters that JSON takes as they are.
fn answer(settled: bool, reason: &str, limits: &str) -> Answer {
    let reason = if settled { String::new() } else { format!("\"reason\":\"{reason}\",") };
    Answer::json(200, format!("{{\"settled\":{settled},{reason}\"limits\":[{limits}]}}"))
}
