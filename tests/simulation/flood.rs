//! 200,000 made-up subjects in an outage: memory stays flat, known subjects keep their counts.

use sluicegate::gateway::{Bindings, Gateway, Reply, Request, Step};
use sluicegate::limit::Quota;
use sluicegate::local::table::LocalAsk;
use sluicegate::local::{Key, Table};
use sluicegate::policy::Algorithm;
use sluicegate::subject::Platform;

use super::clock::START_MS;

const MADE_UP: u64 = 200_000;
const MOST: usize = 1_000;

/// An address, and whether it only looks.
struct From(u64, bool);

impl Platform for From {
    fn header(&self, name: &str) -> Option<String> {
        let [_, a, b, c] = (self.0 as u32).to_be_bytes();
        match name {
            "cf-connecting-ip" => Some(format!("11.{a}.{b}.{c}")),
            "x-cost" => self.1.then(|| "0".to_owned()),
            _ => None,
        }
    }

    fn country(&self) -> Option<String> {
        None
    }

    fn asn(&self) -> Option<String> {
        None
    }
}

#[test]
fn the_table_stays_within_its_bound() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingLog] {
        let quota = Quota { algorithm, limit: 5, burst: 5, window_ms: 60_000 };
        let ask = |subject: &str| LocalAsk {
            key: Key { stem: "limit".into(), subject: subject.into() },
            quota,
            cost: 1,
            shadow: false,
            holder: None,
            ahead_ms: None,
        };
        let mut table = Table::new(MOST);
        let attacked = (0..5).filter(|_| table.decide(&[ask("attacker")], START_MS).allowed).count();
        assert_eq!(attacked, 5);
        assert!(table.decide(&[ask("customer")], START_MS).allowed);
        let mut flat = 0;
        let mut made_up = 0;
        for subject in 0..MADE_UP / 4 {
            made_up += u64::from(table.decide(&[ask(&format!("{subject:06}"))], START_MS).allowed);
            assert!(table.len() <= MOST);
            if subject == 2 * MOST as u64 {
                flat = table.bytes();
            }
            if subject % 500 == 0 {
                assert!(!table.decide(&[ask("attacker")], START_MS).allowed, "not freed at {subject}");
            }
        }
        assert_eq!(table.bytes(), flat, "memory is flat");
        assert!(made_up <= MOST as u64 + 5, "{made_up}: those that found room, then one counter for all");
    }
}

#[test]
fn known_subjects_are_decided_right_through_the_gateway() {
    let policy = serde_json::json!({
        "version": 1,
        "gateway": { "origin": "http://127.0.0.1:8081", "headers": [] },
        "store": { "breaker": { "min_calls": 1, "open": "10m", "max_open": "10m" } },
        "degraded": { "share": 0.5, "max_subjects": MOST },
        "limits": [{
            "name": "client", "algorithm": "token-bucket", "limit": 10, "window": "10m",
            "key": ["ip"], "cost": { "header": "x-cost", "default": 1, "max": 1 }, "on_store_error": "degraded",
        }],
        "routes": [{ "name": "all", "path": "/{*rest}", "limits": ["client"] }],
    });
    let store_url = Some("https://store.example.com".to_owned());
    let bindings = Bindings { store_url, has_token: true, ..Bindings::default() };
    let mut gateway = Gateway::new(&policy.to_string(), &bindings).expect("a policy");
    let mut decide = |subject: u64, looks: bool| {
        let request = Request { method: "GET", url: "http://a/", platform: &From(subject, looks) };
        let mut step = gateway.receive(&request, START_MS, 0.5);
        if let Step::Ask(call) = &step {
            step = gateway.conclude(call.ticket, Reply::None("connection"), START_MS, 0.5);
        }
        gateway.take_log();
        matches!(step, Step::Forward(_))
    };
    let mut passes = |subject: u64| decide(subject, false);
    // Two known before the flood: one has used its share, one has two of five left.
    assert_eq!((0..10).filter(|_| passes(0)).count(), 5);
    assert_eq!((0..3).filter(|_| passes(1)).count(), 3);
    let mut made_up = 0;
    for subject in 2..MADE_UP + 2 {
        made_up += u64::from(decide(subject, false));
        // They go on asking, as they would; what has been used comes back to neither.
        if subject % 400 == 0 {
            assert!(!decide(0, false), "freed by the flood at {subject}");
            assert!(decide(1, true));
        }
    }
    let mut passes = |subject: u64| decide(subject, false);
    assert!(made_up <= MOST as u64 + 5, "{made_up}");
    assert_eq!((0..10).filter(|_| passes(0)).count(), 0);
    assert_eq!((0..10).filter(|_| passes(1)).count(), 2, "not locked out");
}
