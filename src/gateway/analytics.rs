//! The data point of a decision for Workers Analytics Engine, as text: fields between tabs, the index first, then
//! [`BLOBS`] texts, then numbers. `edge/analytics.js` takes it apart; docs/observability.md says what each holds.
//! None holds what a client sent: subjects are digests.

use std::fmt::Write as _;

use super::log;
use super::outcome::{Outcome, Reason};
use super::prepared::Prepared;
use crate::limit::Wait;
use crate::subject::Digester;

/// How many texts a point has, the index not counted.
pub const BLOBS: usize = 8;

/// The point of a decision over a route's limits, or of a check where there is no route.
pub fn point(
    outcome: &Outcome,
    route: &str,
    limits: &[Prepared],
    digester: &Digester,
    policy_digest: &str,
) -> String {
    let line = outcome.tightest();
    let silent = outcome.silent.first();
    let index = line.map(|line| line.limit).or(silent.map(|&(limit, ..)| limit));
    let prepared = index.and_then(|index| limits.get(index));
    let name = prepared.map_or("", |prepared| prepared.limit.name.as_str());
    let subject = line.map(|line| log::subject(line, prepared, digester)).unwrap_or_default();
    let said = if outcome.allowed() { "allowed" } else { "refused" };
    let reason = outcome.refused.map_or("", Reason::word);
    let mut point = String::with_capacity(192);
    // Writing to a String cannot fail.
    let _ = write!(
        point,
        "{subject}\t{name}\t{said}\t{}\t{reason}\t{route}\t{subject}\t{policy_digest}\t",
        outcome.tier.word()
    );
    let shadowed = outcome.lines.iter().filter(|line| line.shadow && !line.verdict.allowed());
    for (place, line) in shadowed.enumerate() {
        let name = limits.get(line.limit).map_or("", |prepared| prepared.limit.name.as_str());
        let _ = write!(point, "{}{name}", if place == 0 { "" } else { "," });
    }
    let (cost, limit, remaining, reset_ms) = line.map_or((0, 0, 0, 0), |line| {
        (line.cost, line.verdict.limit, line.verdict.remaining, line.verdict.reset_ms)
    });
    let wait_ms = line.map_or(0, |line| match line.verdict.wait {
        Wait::Ms(ms) => ms,
        _ => 0,
    });
    let several = outcome.lines.len().saturating_add(outcome.silent.len());
    let _ = write!(point, "\t{cost}\t{limit}\t{remaining}\t{reset_ms}\t{wait_ms}\t{several}");
    point
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::outcome::{Line, Tier};
    use crate::limit::Verdict;
    use crate::policy::document::read_json;

    #[test]
    fn one_row_of_fixed_columns_with_digests_only() {
        let text = r#"{"version":1,"gateway":{"origin":"http://o.invalid"},"defaults":{"on_store_error":"open"},"limits":[
            {"name":"a","algorithm":"fixed-window","limit":5,"window":"1m","key":["ip"]},
            {"name":"b","algorithm":"fixed-window","limit":5,"window":"1m","key":["ip"],"shadow":true}]}"#;
        let limits = crate::gateway::prepared::prepare(&read_json(text).unwrap(), &Default::default());
        let line = |limit, shadow, remaining, wait| Line {
            limit,
            window_ms: 60_000,
            shadow,
            cost: 2,
            subject: "192.0.2.1".into(),
            verdict: Verdict { limit: 5, remaining, reset_ms: 700, wait },
        };
        let lines = vec![line(0, false, 1, Wait::Ms(700)), line(1, true, 0, Wait::Ms(900))];
        let outcome = Outcome::of(Tier::Store, lines);
        let row = point(&outcome, "r", &limits, &Digester::new(None), "digest");
        let fields: Vec<&str> = row.split('\t').collect();
        let subject = fields[0];
        assert_eq!(subject.len(), 20);
        assert_eq!(
            fields[1..=BLOBS],
            ["a", "refused", "store", "quota-exceeded", "r", subject, "digest", "b"]
        );
        assert_eq!(fields[BLOBS + 1..], ["2", "5", "1", "700", "700", "2"]);
        assert!(!row.contains("192.0.2.1"));
        let open = Outcome { silent: vec![(1, 5, 60_000)], ..Outcome::of(Tier::Open, Vec::new()) };
        let row = point(&open, "", &limits, &Digester::new(None), "digest");
        assert_eq!(row, "\tb\tallowed\topen\t\t\t\tdigest\t\t0\t0\t0\t0\t0\t1");
    }
}
