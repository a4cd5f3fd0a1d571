//! Degraded limits are warm, bounded, and neither replayed nor reset at recovery. Time stands still, so that every
//! number is exact: no algorithm gives anything back.

use sluicegate::gateway::{Bindings, Gateway, Reply, Step};
use sluicegate::limit::Quota;
use sluicegate::policy::Algorithm;

use super::clock::START_MS;
use super::command::Command;
use super::random::Random;
use super::scenario::ALGORITHMS;
use super::seeds;
use super::store::Store;
use super::verdicts::Told;

struct Fleet {
    isolates: Vec<Gateway>,
    store: Store,
    up: bool,
    now_ms: u64,
    random: Random,
}

impl Fleet {
    fn new(quota: &Quota, algorithm: &str, share: f64, count: u64, random: Random) -> Self {
        let mut limit = serde_json::json!({
            "name": "tenant", "algorithm": algorithm, "limit": quota.limit, "window": "1m",
            "key": ["header:x-tenant"], "on_store_error": "degraded",
        });
        if quota.algorithm == Algorithm::TokenBucket {
            limit["burst"] = quota.burst.into();
        }
        let policy = serde_json::json!({
            "version": 1,
            "gateway": { "origin": "http://127.0.0.1:8081" },
            // Neither memory nor breaker stands between the outage and the isolate's count.
            "store": { "remember": "0s", "breaker": { "min_calls": 1_000 } },
            "degraded": { "share": share },
            "limits": [limit],
        });
        let store_url = Some("https://store.example.com".to_owned());
        let bindings = Bindings { store_url, has_token: true, ..Bindings::default() };
        let isolate = || Gateway::new(&policy.to_string(), &bindings).expect("a policy");
        let isolates = (0..count).map(|_| isolate()).collect();
        // In the middle of a window.
        Self { isolates, store: Store::default(), up: true, now_ms: START_MS + 30_000, random }
    }

    fn ask(&mut self, isolate: usize, tenant: &str) -> Told {
        let question = serde_json::json!({ "limits": ["tenant"], "subject": { "header:x-tenant": tenant } });
        let now_ms = self.now_ms;
        let gateway = &mut self.isolates[isolate];
        let mut step = gateway.check(Some(&question.to_string()), now_ms, self.random.part());
        while let Step::Ask(call) = step {
            let body = match self.store.run(&Command::read(&call.body), now_ms) {
                _ if !self.up => None,
                Ok(ran) => Some(serde_json::json!({ "result": ran.reply }).to_string()),
                Err(text) => Some(serde_json::json!({ "error": text }).to_string()),
            };
            let reply = match &body {
                Some(body) => Reply::Whole { status: 200, body, retry_after_s: 0 },
                None => Reply::None("connection"),
            };
            step = gateway.conclude(call.ticket, reply, now_ms, self.random.part());
        }
        Told::of(&step, true)
    }

    /// How many of so many requests pass, all of which this tier decides.
    fn passed(&mut self, isolate: usize, tenant: &str, times: u64, tier: &str) -> u64 {
        let decided: Vec<Told> = (0..times).map(|_| self.ask(isolate, tenant)).collect();
        assert!(decided.iter().all(|told| told.tier.as_deref() == Some(tier)), "{tier}: {decided:?}");
        decided.iter().filter(|told| told.passed).count() as u64
    }

    fn charged(&self) -> u64 {
        let ledgers = self.store.ledgers.values().flat_map(|ledger| ledger.lives.iter().flatten());
        ledgers.map(|charge| charge.units).sum()
    }
}

#[test]
fn warm_bounded_and_neither_replayed_nor_reset() {
    seeds::each(400, |seed| {
        let mut random = Random::new(seed);
        let (algorithm, name) = random.pick(&ALGORITHMS);
        let limit = random.between(1, 40);
        let bucket = algorithm == Algorithm::TokenBucket;
        let burst = if bucket { random.between(1, 60) } else { limit };
        let quota = Quota { algorithm, limit, burst, window_ms: 60_000 };
        let share = random.pick(&[0.01, 0.1, 0.25, 0.5, 1.0]);
        let count = random.between(2, 4);
        let granted = ((limit as f64 * share).floor() as u64).max(1);
        let local = if bucket { (burst * granted).div_ceil(limit) } else { granted };
        let capacity = quota.capacity();
        let many = capacity + 3;
        let mut fleet = Fleet::new(&quota, name, share, count, random.clone());

        // One isolate serves a tenant all it may have, and another one a part of it.
        assert_eq!(fleet.passed(0, "spent", many, "store"), capacity);
        let part = random.between(0, capacity);
        assert_eq!(fleet.passed(1, "half-spent", part, "store"), part);

        // Applied, and the reply lost: the store has charged one, the isolate answers by itself.
        fleet.up = false;
        let isolates = count as usize;
        assert_eq!(fleet.passed(0, "spent", 5, "degraded"), 0, "served here, and refused at once");
        let left = local.min(capacity - part);
        assert_eq!(fleet.passed(1, "half-spent", many, "degraded"), left, "no more than is left");
        let elsewhere: u64 = (1..isolates).map(|at| fleet.passed(at, "spent", many, "degraded")).sum();
        // SPEC section 5, in one window: what the store had admitted + isolates × max(1, ⌊limit × share⌋).
        assert!(elsewhere <= count * local);
        let fresh: Vec<u64> = (0..isolates).map(|at| fleet.passed(at, "fresh", many, "degraded")).collect();
        assert!(fresh.iter().all(|passed| *passed == local), "{fresh:?} at {local} each");

        // The store is well again, and has forgotten: it sees what is asked now and nothing else.
        fleet.store = Store::default();
        fleet.up = true;
        assert_eq!(fleet.charged(), 0);
        assert_eq!(fleet.passed(0, "fresh", 1, "store"), 1);
        assert_eq!(fleet.charged(), 1, "nothing is replayed");

        // It fails once more: what the isolates had counted still counts.
        fleet.up = false;
        for at in 0..isolates {
            assert_eq!(fleet.passed(at, "fresh", 3, "degraded"), 0, "no fresh share after recovery");
        }
        assert_eq!(fleet.passed(0, "spent", 3, "degraded"), 0);
    });
}
