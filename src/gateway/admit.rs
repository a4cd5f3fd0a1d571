//! From a request's attributes to what the store is asked: exemptions, plans, costs and subjects.

use std::borrow::Cow;
use std::rc::Rc;

use super::answer::Answer;
use super::cost;
use super::outcome::Line;
use super::prepared::{Allowance, Prepared};
use super::problem;
use crate::limit::{Verdict, Wait};
use crate::policy::KeyPart;
use crate::policy::address::Network;
use crate::store::Ask;
use crate::subject::{Attributes, Digester, Who, identify, is_too_long};

/// What a request's limits come to before any count is looked at.
#[derive(Debug, Default)]
pub struct Admission {
    /// What has to be counted.
    pub asks: Vec<Ask>,
    /// Limits that let nothing pass for this subject.
    pub blocked: Vec<Line>,
    /// The idempotency key, where a limit wants one and the request has it.
    pub repeat: Option<Repeat>,
}

/// An idempotency key of one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// Digest of the key, its limit and its subject.
    pub id: String,
    /// The limit's window in milliseconds.
    pub window_ms: u64,
}

/// Where the costs of a request come from.
#[derive(Debug, Clone, Copy)]
pub enum CostSource {
    /// Each limit's own rule.
    Rules,
    /// One cost for all, as the decision API was told.
    Given(u64),
}

/// Works out which of the limits count this request, as whom and for how much. A fault of the request's, such as a
/// missing key part, is an answer.
pub fn admit(
    limits: &[Prepared],
    chosen: &[usize],
    attributes: &dyn Attributes,
    costs: CostSource,
    digester: &Digester,
) -> Result<Admission, Answer> {
    let mut admission = Admission { asks: Vec::with_capacity(chosen.len()), ..Admission::default() };
    let mut known: Vec<(usize, Rc<str>)> = Vec::new();
    for &index in chosen {
        let Some(prepared) = limits.get(index) else {
            continue;
        };
        let allowance = plan(prepared, attributes);
        if *allowance == Allowance::Unlimited || exempt(prepared, attributes) {
            continue;
        }
        let cost = match costs {
            CostSource::Given(cost) => cost,
            CostSource::Rules => cost::of(&prepared.limit.cost, |name| attributes.header(name))
                .map_err(|detail| problem::plain(400, "Bad cost", &detail))?,
        };
        let Some(subject) = subject(prepared, attributes, digester, &mut known)? else {
            continue;
        };
        if admission.repeat.is_none()
            && let Some(part) = &prepared.limit.idempotency
            && let Some(key) = attributes.value(part)
        {
            if is_too_long(part, &key) {
                return Err(problem::too_long(part));
            }
            let mut id = digester.start();
            [prepared.limit.name.as_str(), &subject, &key].into_iter().for_each(|text| id.text(text));
            admission.repeat = Some(Repeat { id: id.finish(), window_ms: prepared.limit.window_ms });
        }
        match allowance {
            Allowance::Limited(quota, arguments) => admission.asks.push(Ask {
                limit: index,
                quota: *quota,
                arguments: arguments.clone(),
                subject,
                cost,
                shadow: prepared.limit.shadow,
                ahead_ms: prepared.limit.delay().map(|delay| delay.ms),
                more: 0,
            }),
            _ => admission.blocked.push(Line {
                limit: index,
                window_ms: prepared.limit.window_ms,
                shadow: prepared.limit.shadow,
                cost,
                subject,
                verdict: Verdict { limit: 0, remaining: 0, reset_ms: 0, wait: Wait::Never },
            }),
        }
    }
    Ok(admission)
}

/// The subject, computed once for all limits that count by the same parts; `None` where the limit is skipped.
fn subject(
    prepared: &Prepared,
    attributes: &dyn Attributes,
    digester: &Digester,
    known: &mut Vec<(usize, Rc<str>)>,
) -> Result<Option<Rc<str>>, Answer> {
    if let Some((_, subject)) = known.iter().find(|(group, _)| *group == prepared.key_group) {
        return Ok(Some(subject.clone()));
    }
    match identify(&prepared.limit.key, prepared.limit.on_missing_key, attributes, digester) {
        Who::Subject(subject) => {
            let subject: Rc<str> = subject.into();
            known.push((prepared.key_group, subject.clone()));
            Ok(Some(subject))
        }
        Who::Skipped => Ok(None),
        Who::Missing(part) => {
            let name = &prepared.limit.name;
            let detail = format!("limit {name} counts by {part}, and the request has none that can be read");
            Err(problem::plain(400, "Missing key", &detail))
        }
        Who::TooLong(part) => Err(problem::too_long(&part)),
    }
}

/// The plan's name that the request holds, where the limit has plans, and the plan if there is one of that name.
pub(super) fn named_plan<'a, 'r>(
    prepared: &'a Prepared,
    attributes: &'r dyn Attributes,
) -> Option<(Cow<'r, str>, Option<&'a Allowance>)> {
    let name = prepared.limit.plan.as_ref().and_then(|part| attributes.value(part))?;
    let plan = prepared.plan(name.as_ref());
    Some((name, plan))
}

/// What the request's subject may use.
pub(super) fn plan<'a>(prepared: &'a Prepared, attributes: &dyn Attributes) -> &'a Allowance {
    named_plan(prepared, attributes).and_then(|(_, plan)| plan).unwrap_or(&prepared.quota)
}

fn exempt(prepared: &Prepared, attributes: &dyn Attributes) -> bool {
    exempting_network(prepared, attributes).is_some() || exempting_part(prepared, attributes).is_some()
}

/// The network that exempts the request's address.
pub(super) fn exempting_network<'a>(
    prepared: &'a Prepared,
    attributes: &dyn Attributes,
) -> Option<&'a Network> {
    let networks = &prepared.limit.exempt.networks;
    if networks.is_empty() {
        return None;
    }
    let address = attributes.address()?;
    networks.iter().find(|network| network.contains(address))
}

/// The attribute whose value exempts the request.
pub(super) fn exempting_part<'a>(prepared: &'a Prepared, attributes: &dyn Attributes) -> Option<&'a KeyPart> {
    let met = prepared
        .exempt
        .iter()
        .find(|(part, secret)| attributes.value(part).is_some_and(|value| secret.is(&value)));
    met.map(|(part, _)| part)
}
