//! A charge that is settled after the answer, and its text form.
//!
//! The text goes to the origin in `Sluicegate-Charge` and comes back with what the request really cost. It holds all
//! that settling needs, so that nothing is kept anywhere in between; a digest over it, under KEY_SECRET where there is
//! one, keeps it as it was given. Subjects stand in it as they do in keys.

use std::fmt::Write as _;
use std::rc::Rc;

use super::Gateway;
use super::admit::Admission;
use super::outcome::{Outcome, Tier};
use super::prepared::{Allowance, Prepared};
use super::secret::Secret;
use super::settling::Settling;
use crate::limit::Quota;
use crate::limit::settlement::Reservation;
use crate::policy::{Settle, bounds};
use crate::store::settlement::Part;
use crate::store::{Ask, ChargeId, key};

/// What a request is about to reserve in limits that settle.
#[derive(Debug, Clone)]
pub(super) struct Reserving {
    id: Rc<str>,
    asks: Vec<Ask>,
}

/// The place of charges that the store holds; no isolate is called so.
pub(super) const STORE: &str = "s";

/// What a limit of a charge, by its name, really cost; `None` where that is not known. The limit's rule is not there
/// where the limit is gone, settles no more, or counts anew by another algorithm or window.
pub(super) type CostOf<'c> = dyn FnMut(&str, Option<&Settle>) -> Option<u64> + 'c;

impl Gateway {
    /// What of a request's limits is settled after the answer. Under an idempotency key all repeats are one charge.
    pub(super) fn reserving(
        &mut self,
        admission: &Admission,
        charge: Option<&ChargeId>,
        now_ms: u64,
        random: f64,
    ) -> Option<Box<Reserving>> {
        if !self.rules.settles {
            return None;
        }
        let mut asks = Vec::new();
        for ask in &admission.asks {
            if ask.cost > 0 && self.settles(ask) {
                asks.push(ask.clone());
            }
        }
        if asks.is_empty() {
            return None;
        }
        let id = match charge {
            Some(charge) => charge.id.clone(),
            None => self.slot_calls.ids.draw(now_ms, random),
        };
        Some(Box::new(Reserving { id, asks }))
    }

    /// The charge that a decision made of what a request was about to reserve, as text; empty where none was.
    pub(super) fn made_of(&self, reserving: Option<&Reserving>, outcome: &Outcome, now_ms: u64) -> String {
        let mut text = String::new();
        let Some(Reserving { id, asks }) = reserving.filter(|_| outcome.allowed()) else { return text };
        let since_ms = outcome.clock_ms.unwrap_or(now_ms);
        let place = match outcome.tier {
            Tier::Store => STORE.to_owned(),
            _ => self.isolate_name(),
        };
        // Writing to a String cannot fail.
        let _ = write!(text, "{id},{since_ms},{place},");
        let before = text.len();
        for ask in asks {
            let Some(prepared) = self.rules.limits.get(ask.limit) else { continue };
            for line in &outcome.lines {
                if line.limit == ask.limit && line.subject == ask.subject && line.verdict.allowed() {
                    let (kind, plan) = (kind(prepared), plan_of(prepared, ask.quota));
                    let (name, verdict) = (&prepared.limit.name, &line.verdict);
                    let (subject, cost) = (&ask.subject, ask.cost);
                    let _ = write!(text, "{name},{kind},{plan},{subject},{cost},");
                    let _ = write!(text, "{},{},", verdict.reset_ms, verdict.limit);
                }
            }
        }
        if text.len() == before {
            return String::new();
        }
        let mark = self.mark(&text);
        text.push_str(&mark);
        text
    }

    /// The same with the headers of the origin's answer that settle it, see [`super::Forward::charge`].
    pub(super) fn forwarded(&self, reserving: Option<&Reserving>, outcome: &Outcome, now_ms: u64) -> String {
        let mut text = self.made_of(reserving, outcome, now_ms);
        if let Some(reserving) = reserving.filter(|_| !text.is_empty()) {
            for ask in &reserving.asks {
                let settle =
                    self.rules.limits.get(ask.limit).and_then(|prepared| prepared.limit.settle.as_ref());
                if let Some(settle) = settle {
                    text.push(' ');
                    text.push_str(&settle.header);
                }
            }
        }
        text
    }

    /// Reads the text of a charge with what it really cost; `None` where it was not given here.
    pub(super) fn charge_of(&self, text: &str, cost_of: &mut CostOf<'_>) -> Option<Settling> {
        // What is written into a call as it is.
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        let (_, mark) = text.rsplit_once(',').filter(|_| text.bytes().all(plain))?;
        let told = text.strip_suffix(mark)?;
        if !Secret::new(&self.mark(told))?.is(mark) {
            return None;
        }
        let mut fields = told.split(',');
        let (id, since, place) = (fields.next()?, fields.next()?, fields.next()?);
        let since_ms = number(since)?;
        let (mut parts, mut within_ms) = (Vec::new(), 0);
        while let Some(name) = fields.next().filter(|name| !name.is_empty()) {
            let (kind, plan, subject) = (fields.next()?, fields.next()?, fields.next()?);
            let units = number(fields.next()?)?;
            let (reset_ms, rate) = (number(fields.next()?)?, number(fields.next()?)?);
            let known = self.settling(name, kind, plan);
            let cost = cost_of(name, known.map(|(_, settle, _)| settle));
            if let (Some((limit, settle, quota)), Some(cost)) = (known, cost) {
                within_ms = settle.within_ms.max(within_ms);
                let reservation = Reservation { units, since_ms, reset_ms, rate };
                parts.push(Part { limit, quota, subject: subject.into(), reservation, cost });
            }
        }
        let id = format!("{id}-{since}");
        Some(Settling { id, since_ms, place: place.to_owned(), within_ms, parts, told: false })
    }

    /// The limit that a charge speaks of, with what its subject may use there now.
    fn settling(&self, name: &str, kind: &str, plan: &str) -> Option<(usize, &Settle, Quota)> {
        let index = *self.rules.by_name.get(name)?;
        let prepared = self.rules.limits.get(index).filter(|prepared| self::kind(prepared) == kind)?;
        let mut allowance = &prepared.quota;
        for (name, own) in prepared.plans.iter().filter(|_| !plan.is_empty()) {
            if hex(name) == plan {
                allowance = own;
            }
        }
        let Allowance::Limited(quota, _) = allowance else { return None };
        Some((index, prepared.limit.settle.as_ref()?, *quota))
    }

    /// What tells a text of ours.
    fn mark(&self, text: &str) -> String {
        let mut digest = self.digester.start();
        digest.text("sluicegate-charge");
        digest.text(text);
        digest.finish()
    }
}

/// What begins a new count when it changes.
fn kind(prepared: &Prepared) -> String {
    format!("{}{}", key::letter(prepared.limit.algorithm), prepared.limit.window_ms)
}

/// The plan that gives this quota, as it stands in the text; empty where the limit itself does.
fn plan_of(prepared: &Prepared, quota: Quota) -> String {
    let gives = |allowance: &Allowance| matches!(allowance, Allowance::Limited(own, _) if *own == quota);
    if !gives(&prepared.quota) {
        for (name, plan) in &prepared.plans {
            if gives(plan) {
                return hex(name);
            }
        }
    }
    String::new()
}

/// A plan's name may hold anything.
fn hex(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number < bounds::EXACT)
}
