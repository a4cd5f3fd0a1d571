//! `metrics`: OpenMetrics 1.0 text. A page speaks for the isolate that answers and for no other.

use std::fmt::{Display, Write as _};

use crate::gateway::Gateway;
use crate::gateway::answer::Answer;
use crate::gateway::metrics::{REASONS, SAID, Said, TIERS};
use crate::gateway::outcome::{Reason, Tier};
use crate::store::breaker::Phase;
use crate::store::error::CLASSES;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A page in the making.
struct Page(String);

impl Page {
    /// Begins a family; a unit is the end of its name.
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
    }

    /// One sample; labels that are empty are left out.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        let mut before = '{';
        for (label, text) in labels.iter().filter(|(_, text)| !text.is_empty()) {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{before}{label}=\"{escaped}\"");
            before = ',';
        }
        let _ = writeln!(self.0, "{} {value}", if before == ',' { "}" } else { "" });
    }

    fn one(&mut self, name: &str, kind: &str, unit: &str, help: &str, value: impl Display) {
        self.family(name, kind, unit, help);
        let total = if kind == "counter" { "_total" } else { "" };
        self.sample(&[name, total].concat(), &[], value);
    }
}

impl Gateway {
    /// The page, with the entry's families on tasks. No store call.
    pub(super) fn open_metrics(&mut self, tasks: &str, now_ms: u64) -> Answer {
        let mut page = Page(String::with_capacity(4_096));
        page.family(
            "sluicegate_isolate",
            "info",
            "",
            "The isolate that answered: all numbers here are this isolate's alone, since it began.",
        );
        let labels = [
            ("isolate", self.isolate_name()),
            ("policy", self.rules.policy.digest.clone()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, text)| (*name, text.as_str())).collect();
        page.sample("sluicegate_isolate_info", &labels, 1);
        let uptime = seconds(now_ms.saturating_sub(self.metrics.since_ms));
        let help = "Since this isolate's first request.";
        page.one("sluicegate_uptime_seconds", "gauge", "seconds", help, uptime);
        self.decisions(&mut page);
        self.store_calls(&mut page, now_ms);
        let help = "Requests that wait for their moment.";
        page.one("sluicegate_waiting_requests", "gauge", "", help, self.places.held(now_ms));
        let help = "Requests that have waited for their moment, or still do.";
        page.one("sluicegate_held_requests", "counter", "", help, self.counters.held);
        let help = "Requests that would have waited, and were refused because as many did as may.";
        page.one("sluicegate_waiting_full", "counter", "", help, self.counters.waiting_full);
        let help = "Requests of optimistic routes: begun at the origin while the store decided, discarded with its answer \
                    since they were refused, held back to be decided first.";
        page.family("sluicegate_optimistic", "counter", "", help);
        let ahead = &self.ahead;
        for (what, count) in
            [("begun", ahead.begun), ("discarded", ahead.discarded), ("held-back", ahead.held_back)]
        {
            page.sample("sluicegate_optimistic_total", &[("what", what)], count);
        }
        self.settlements(&mut page);
        let help = "Refusals that this isolate remembers.";
        page.one("sluicegate_remembered_refusals", "gauge", "", help, self.refusals.len());
        let help = "Subjects that this isolate counts by itself.";
        page.one("sluicegate_local_subjects", "gauge", "", help, self.local.len());
        let help = "What those subjects take, about.";
        page.one("sluicegate_local_bytes", "gauge", "bytes", help, self.local.bytes());
        let permits = self.permit_counts(now_ms);
        let help = "Batches of permits that this isolate asked for.";
        page.one("sluicegate_permit_batches", "counter", "", help, permits.batches);
        page.family(
            "sluicegate_permits",
            "counter",
            "",
            "Permits granted in them, and what became of those.",
        );
        let became = [("granted", permits.granted), ("spent", permits.spent), ("lapsed", permits.lapsed)];
        for (became, count) in became {
            page.sample("sluicegate_permits_total", &[("became", became)], count);
        }
        let help = "Refusals that had no log line of their own.";
        page.one("sluicegate_refusals_not_logged", "counter", "", help, self.sampler.not_logged());
        page.0.push_str(tasks);
        page.0.push_str("# EOF\n");
        let headers =
            vec![("Content-Type", CONTENT_TYPE.to_owned()), ("Cache-Control", "no-store".to_owned())];
        Answer { status: 200, headers, body: page.0 }
    }

    /// What a policy's limits come to from the first scrape on, so that the first of a kind shows as an increase.
    fn usual(&self, tier: Tier, said: Said) -> bool {
        let usual = if self.form.is_some() { Tier::Store } else { Tier::Isolate };
        tier == usual && matches!(said, Said::Allowed | Said::Refused(Reason::QuotaExceeded))
    }

    fn decisions(&self, page: &mut Page) {
        let help = "Decisions over all limits of a request, by who decided, outcome and reason.";
        page.family("sluicegate_decisions", "counter", "", help);
        let said = [Said::Allowed].into_iter().chain(REASONS.map(Said::Refused));
        for (tier, said) in TIERS.into_iter().flat_map(|tier| said.clone().map(move |said| (tier, said))) {
            let count = self.metrics.decisions.of(tier, said);
            if count > 0 || self.usual(tier, said) {
                page.sample("sluicegate_decisions_total", &labels(tier, said, None), count);
            }
        }
        let help = "What each limit said in decisions: allowed, refused, spared (another limit refused), shadowed (it \
                    would have refused, but is in shadow).";
        page.family("sluicegate_limit_decisions", "counter", "", help);
        for (prepared, counts) in self.metrics.of(&self.rules.limits) {
            for (tier, said) in TIERS.into_iter().flat_map(|tier| SAID.map(|said| (tier, said))) {
                let count = counts.of(tier, said);
                if count > 0 || self.usual(tier, said) {
                    let labels = labels(tier, said, Some(&prepared.limit.name));
                    page.sample("sluicegate_limit_decisions_total", &labels, count);
                }
            }
        }
    }

    fn settlements(&self, page: &mut Page) {
        if !self.rules.settles {
            return;
        }
        let help = "Charges to be settled after the answer, by what became of them.";
        let (mut family, mut help) = ("sluicegate_settlements", help);
        for (place, (what, count)) in self.counters.settlements.words().into_iter().enumerate() {
            if place == 5 {
                family = "sluicegate_settled_units";
                help = "Units by which settled charges differed from what was reserved.";
            }
            if place == 0 || place == 5 {
                page.family(family, "counter", "", help);
            }
            page.sample(&[family, "_total"].concat(), &[("outcome", what)], count);
        }
    }

    fn store_calls(&mut self, page: &mut Page, now_ms: u64) {
        if self.form.is_none() {
            return;
        }
        let latency = &self.metrics.latency;
        let name = "sluicegate_store_latency_seconds";
        page.family(name, "histogram", "seconds", "How long store calls took, failed ones included.");
        for (bound, count) in latency.cumulative() {
            let bound = bound.map_or("+Inf".to_owned(), seconds);
            page.sample("sluicegate_store_latency_seconds_bucket", &[("le", bound.as_str())], count);
        }
        page.sample("sluicegate_store_latency_seconds_count", &[], latency.count());
        page.sample("sluicegate_store_latency_seconds_sum", &[], seconds(latency.sum_ms()));
        let counters = &self.counters;
        page.one(
            "sluicegate_store_calls",
            "counter",
            "",
            "Store calls made, retries included.",
            counters.calls,
        );
        page.one("sluicegate_store_retries", "counter", "", "Store calls made once more.", counters.retries);
        page.family("sluicegate_store_failures", "counter", "", "Store calls that failed, by class.");
        for (class, count) in CLASSES.into_iter().zip(counters.failures) {
            page.sample("sluicegate_store_failures_total", &[("class", class.word())], count);
        }
        let help = "Decisions that were kept from the store, by what kept them.";
        page.family("sluicegate_store_kept_back", "counter", "", help);
        for (by, count) in [("breaker", counters.breaker), ("bulkhead", counters.bulkhead)] {
            page.sample("sluicegate_store_kept_back_total", &[("by", by)], count);
        }
        let help = "Store calls under way.";
        page.one("sluicegate_store_in_flight", "gauge", "", help, self.under_way(now_ms));
        page.family("sluicegate_breaker", "stateset", "", "Where the circuit breaker stands.");
        let phase = self.breaker.phase(now_ms);
        for state in [Phase::Closed, Phase::Open, Phase::HalfOpen] {
            let on = u8::from(state == phase);
            page.sample("sluicegate_breaker", &[("sluicegate_breaker", state.word())], on);
        }
    }
}

fn labels(tier: Tier, said: Said, limit: Option<&str>) -> [(&'static str, &str); 4] {
    [
        ("limit", limit.unwrap_or_default()),
        ("tier", tier.word()),
        ("outcome", said.word()),
        ("reason", said.reason().map_or("", Reason::word)),
    ]
}

/// Seconds as OpenMetrics writes a canonical number: with a point, and no more digits than needed.
fn seconds(ms: u64) -> String {
    let (whole, rest) = (ms / 1000, ms % 1000);
    let digits = format!("{rest:03}");
    let digits = digits.trim_end_matches('0');
    format!("{whole}.{}", if digits.is_empty() { "0" } else { digits })
}
