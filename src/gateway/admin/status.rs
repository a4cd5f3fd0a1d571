//! `status`: what this isolate is, knows and has counted, for a person or a script that asks.
//!
//! Written as text: limit names, digests and words hold only characters that JSON takes as they are (`policy::text`),
//! and a document of values would cost the Wasm several times the code.

use std::fmt::Write as _;

use crate::gateway::Gateway;
use crate::gateway::answer::Answer;
use crate::gateway::metrics::{Counts, SAID, TIERS};
use crate::store::Form;
use crate::store::breaker::Phase;
use crate::store::error::CLASSES;

impl Gateway {
    /// This isolate's view, with that of the entry on tasks, as JSON. No store call.
    pub(super) fn status(&mut self, tasks: &str, now_ms: u64) -> Answer {
        let phase = self.breaker.phase(now_ms);
        let tier = match (self.form, phase) {
            (None, _) => "isolate",
            (Some(_), Phase::Open) => "degraded",
            (Some(_), Phase::Closed | Phase::HalfOpen) => "store",
        };
        let store = self.store_status(phase, now_ms);
        let permits = self.permit_counts(now_ms);
        let mut text = String::with_capacity(2_048);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{{\"scope\":\"this isolate alone, since its first request; every location runs several\",\
             \"isolate\":\"{}\",\"uptime_ms\":{},\"version\":\"{}\",\
             \"policy\":{{\"digest\":\"{}\",\"limits\":{},\"routes\":{}}},\"tier\":\"{tier}\",\"store\":{store},",
            self.isolate_name(),
            now_ms.saturating_sub(self.metrics.since_ms),
            env!("CARGO_PKG_VERSION"),
            self.rules.policy.digest,
            self.rules.limits.len(),
            self.rules.policy.router.routes().len(),
        );
        let _ = write!(
            text,
            "\"memory\":{{\"refusals\":{},\"subjects\":{},\"max_subjects\":{},\"bytes\":{}}},\
             \"permits\":{{\"batches\":{},\"granted\":{},\"spent\":{},\"lapsed\":{},\"in_hand\":{}}},\
             \"decisions\":{{\"allowed\":{},\"refused\":{}}},\
             \"delayed\":{{\"waiting\":{},\"held\":{},\"full\":{}}},\
             \"optimistic\":{{\"begun\":{},\"discarded\":{},\"held_back\":{}}},\
             \"refusals_not_logged\":{},\"limits\":[",
            self.refusals.len(),
            self.local.len(),
            self.rules.policy.degraded.max_subjects,
            self.local.bytes(),
            permits.batches,
            permits.granted,
            permits.spent,
            permits.lapsed,
            permits.in_hand(),
            self.metrics.decisions.sum("allowed"),
            self.metrics.decisions.sum("refused"),
            self.places.held(now_ms),
            self.counters.held,
            self.counters.waiting_full,
            self.ahead.begun,
            self.ahead.discarded,
            self.ahead.held_back,
            self.sampler.not_logged(),
        );
        for (place, (prepared, counts)) in self.metrics.of(&self.rules.limits).enumerate() {
            let _ = write!(
                text,
                "{}{{\"name\":\"{}\",\"shadow\":{},\"allowed\":{},\"refused\":{},\"spared\":{},\"shadowed\":{},\
                 \"tiers\":{}}}",
                if place == 0 { "" } else { "," },
                prepared.limit.name,
                prepared.limit.shadow,
                counts.sum("allowed"),
                counts.sum("refused"),
                counts.sum("spared"),
                counts.sum("shadowed"),
                tiers(counts),
            );
        }
        let settlements = object(self.counters.settlements.words().into_iter());
        let _ = write!(text, "],\"settlements\":{settlements},\"tasks\":{tasks},{}}}", self.in_force(now_ms));
        Answer::json(200, text)
    }

    /// Tells isolates apart.
    pub(in crate::gateway) fn isolate_name(&self) -> String {
        format!("{:08x}", self.metrics.isolate)
    }

    fn store_status(&mut self, phase: Phase, now_ms: u64) -> String {
        let Some(form) = self.form else {
            return "null".to_owned();
        };
        let under_way = self.under_way(now_ms);
        let (calls, failed, slow) = self.breaker.counts();
        let counters = &self.counters;
        let failures = CLASSES.iter().zip(counters.failures).map(|(class, count)| (class.word(), count));
        let latency = &self.metrics.latency;
        let quantile = |part| latency.quantile_ms(part).map_or("null".to_owned(), |ms| format!("{ms:.1}"));
        format!(
            "{{\"dialect\":\"{}\",\"breaker\":{{\"state\":\"{}\",\"opens_for_ms\":{},\
             \"window\":{{\"calls\":{calls},\"failed\":{failed},\"slow\":{slow}}}}},\
             \"latency_ms\":{{\"p50\":{},\"p99\":{},\"calls\":{}}},\"calls\":{},\"retries\":{},\"failures\":{},\
             \"kept_back\":{{\"breaker\":{},\"bulkhead\":{}}},\"in_flight\":{},\"max_in_flight\":{}}}",
            match form {
                Form::Redis => "redis",
                Form::Upstash => "upstash",
            },
            phase.word(),
            self.breaker.opens_in_ms(now_ms),
            quantile(0.5),
            quantile(0.99),
            latency.count(),
            counters.calls,
            counters.retries,
            object(failures),
            counters.breaker,
            counters.bulkhead,
            under_way,
            self.rules.policy.store.max_in_flight,
        )
    }
}

/// What a limit said by the tier that decided, where it said anything.
fn tiers(counts: &Counts) -> String {
    let sums = TIERS.iter().map(|tier| {
        (tier.word(), SAID.iter().fold(0_u64, |sum, said| sum.saturating_add(counts.of(*tier, *said))))
    });
    object(sums.filter(|(_, sum)| *sum > 0))
}

fn object(fields: impl Iterator<Item = (&'static str, u64)>) -> String {
    let mut text = "{".to_owned();
    for (name, number) in fields {
        let _ = write!(text, "{}\"{name}\":{number}", if text.len() == 1 { "" } else { "," });
    }
    text.push('}');
    text
}
