//! What one limit is to one request.

use super::super::admit::{self, Admission, CostSource};
use super::super::prepared::{Allowance, Prepared};
use super::super::{Gateway, settle};
use super::explained::{
    Applies, Exemptions, Explained, FromIdle, Numbers, Part, Permits, Plan, Price, Problem, Settles, Waits,
};
use super::words;
use crate::limit::{self, Check, Quota, Wait};
use crate::policy::{Algorithm, ExemptValue, KeyPart, Limit, OnStoreError, duration};
use crate::store::Ask;
use crate::subject::Attributes;

/// Explains the limit of this index.
pub(super) fn explain(
    gateway: &Gateway,
    index: usize,
    attributes: &dyn Attributes,
    now_ms: u64,
) -> Option<Explained> {
    let prepared = gateway.rules.limits.get(index)?;
    let limit = &prepared.limit;
    let admitted =
        admit::admit(&gateway.rules.limits, &[index], attributes, CostSource::Rules, &gateway.digester);
    let allowance = admit::plan(prepared, attributes);
    let exempt = exemptions(prepared, attributes);
    let (admission, problem) = match admitted {
        Ok(admission) => (admission, None),
        Err(answer) => {
            let told: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
            let detail = told.get("detail").and_then(|text| text.as_str()).unwrap_or_default().to_owned();
            (Admission::default(), Some(Problem { status: answer.status, detail }))
        }
    };
    let (ask, line) = (admission.asks.first(), admission.blocked.first());
    let applies = match (ask, line, &problem) {
        (_, _, Some(_)) => Applies::Faulty,
        (Some(_), _, _) => Applies::Counted,
        (_, Some(_), _) => Applies::Blocked,
        _ if *allowance == Allowance::Unlimited => Applies::Unlimited,
        _ if exempt.by.is_some() => Applies::Exempt,
        _ => Applies::Skipped,
    };
    let degraded = ask.filter(|_| limit.on_store_error == OnStoreError::Degraded);
    Some(Explained {
        name: limit.name.clone(),
        algorithm: limit.algorithm.word(),
        shadow: limit.shadow,
        applies,
        quota: numbers(prepared, allowance),
        plan: limit.plan.as_ref().map(|part| plan(prepared, part, attributes)),
        cost: ask.map(|ask| ask.cost).or(line.map(|line| line.cost)).map(|units| Price {
            units,
            header: limit.cost.header.clone(),
            stated: limit.cost.header.as_ref().is_some_and(|name| attributes.header(name).is_some()),
            max: limit.cost.max,
        }),
        settle: limit.settle.as_ref().map(|settle| Settles {
            header: settle.header.clone(),
            max: settle.max,
            within: duration::to_text(settle.within_ms),
        }),
        key: limit.key.iter().map(|key_part| part(gateway, key_part, attributes)).collect(),
        on_missing_key: words::on_missing_key(limit.on_missing_key),
        store_key: ask.map(|ask| format!("{}{}", prepared.state_stem, ask.subject)),
        override_key: ask.map(|ask| format!("{}{}", prepared.override_stem, ask.subject)),
        from_idle: ask.and_then(|ask| from_idle(ask, now_ms)),
        on_store_error: words::on_store_error(limit.on_store_error),
        degraded: degraded
            .map(|ask| counted(&settle::shared(ask.quota, gateway.rules.policy.degraded.share))),
        exempt,
        over_limit: limit.over_limit.as_ref().map(Waits::of),
        idempotency: limit.idempotency.as_ref().map(|named| part(gateway, named, attributes)),
        permits: limit
            .batch
            .map(|batch| Permits { batch: batch.units, ttl: duration::to_text(batch.ttl_ms) }),
        problem,
    })
}

/// The model's verdict on a subject that has used nothing.
fn from_idle(ask: &Ask, now_ms: u64) -> Option<FromIdle> {
    // Nothing is held that the holder's id could be held against.
    let holder = (ask.quota.algorithm == Algorithm::Concurrency).then(|| "".into());
    let check = Check {
        quota: ask.quota,
        cost: ask.cost,
        shadow: ask.shadow,
        state: None,
        holder,
        ahead_ms: ask.ahead_ms,
        more: 0,
    };
    let verdict = *limit::decide(&[check], now_ms).verdicts.first()?;
    Some(FromIdle { passes: verdict.wait == Wait::None, remaining: verdict.remaining })
}

fn plan(prepared: &Prepared, part: &KeyPart, attributes: &dyn Attributes) -> Plan {
    let named = admit::named_plan(prepared, attributes);
    Plan {
        part: part.to_string(),
        known: named.as_ref().is_some_and(|(_, plan)| plan.is_some()),
        value: named.map(|(name, _)| name.into_owned()),
    }
}

fn part(gateway: &Gateway, part: &KeyPart, attributes: &dyn Attributes) -> Part {
    let value = attributes.value(part).map(std::borrow::Cow::into_owned);
    let give = if value.is_some() { None } else { give(part, &gateway.rules.policy.gateway.client_ip) };
    Part { part: part.to_string(), value, give }
}

/// The argument that would tell the checker of a part.
fn give(part: &KeyPart, client_ip: &str) -> Option<String> {
    match part {
        KeyPart::Ip => Some(format!("-H '{client_ip}: 192.0.2.1'")),
        KeyPart::Country => Some("--country CH".to_owned()),
        KeyPart::Asn => Some("--asn 13335".to_owned()),
        KeyPart::Header(name) => Some(format!("-H '{name}: …'")),
        KeyPart::Cookie(name) => Some(format!("-H 'cookie: {name}=…'")),
        KeyPart::Jwt(name) => Some(format!("--claim '{name}=…'")),
        KeyPart::Query(name) => Some(format!("?{name}=… in the URL")),
        KeyPart::Global
        | KeyPart::Route
        | KeyPart::Method
        | KeyPart::Host
        | KeyPart::Path
        | KeyPart::Param(_) => None,
    }
}

fn numbers(prepared: &Prepared, allowance: &Allowance) -> Numbers {
    let Limit { algorithm, window_ms, .. } = prepared.limit;
    match allowance {
        Allowance::Unlimited => over("unlimited".into(), None, algorithm, window_ms),
        Allowance::Blocked => over("blocked".into(), None, algorithm, window_ms),
        Allowance::Limited(quota, _) => counted(quota),
    }
}

fn counted(quota: &Quota) -> Numbers {
    let burst = (quota.algorithm == Algorithm::TokenBucket).then_some(quota.burst);
    over(quota.limit.into(), burst, quota.algorithm, quota.window_ms)
}

/// Numbers with the time they hold for: a lease or a window, by the algorithm.
fn over(limit: serde_json::Value, burst: Option<u64>, algorithm: Algorithm, ms: u64) -> Numbers {
    let slots = algorithm == Algorithm::Concurrency;
    let text = duration::to_text(ms);
    let (window, lease) = if slots { (None, Some(text)) } else { (Some(text), None) };
    Numbers { limit, burst, window, lease }
}

fn exemptions(prepared: &Prepared, attributes: &dyn Attributes) -> Exemptions {
    let network = admit::exempting_network(prepared, attributes).map(|network| format!("ip in {network}"));
    let by = network.or_else(|| admit::exempting_part(prepared, attributes).map(ToString::to_string));
    let written = &prepared.limit.exempt;
    let networks = written.networks.iter().map(|network| format!("ip in {network}"));
    let values = written.values.iter().map(|(part, _)| part.to_string());
    let unset = written.values.iter().filter_map(|(part, value)| match value {
        ExemptValue::Binding(name) if !prepared.exempt.iter().any(|(set, _)| set == part) => {
            Some(format!("{part} = binding:{name}"))
        }
        _ => None,
    });
    Exemptions { by, rules: networks.chain(values).collect(), unset: unset.collect() }
}
