//! Half-open through the gateway: so many probes, and a cancelled one's permit comes back.

use sluicegate::gateway::{Bindings, Call, Gateway, Reply, Step};
use sluicegate::store::breaker::Phase;

use super::clock::START_MS;
use super::random::Random;
use super::seeds;

fn gateway(timeout_ms: u64, probes: u64) -> Gateway {
    let policy = serde_json::json!({
        "version": 1,
        "gateway": { "origin": "http://127.0.0.1:8081" },
        "store": {
            "timeout": format!("{timeout_ms}ms"),
            "breaker": { "min_calls": 1, "open": "1s", "max_open": "1s", "probes": probes },
        },
        "limits": [{
            "name": "all", "algorithm": "fixed-window", "limit": 1_000_000, "window": "1h",
            "key": ["global"], "on_store_error": "open",
        }],
    });
    let store_url = Some("https://store.example.com".to_owned());
    let bindings = Bindings { store_url, has_token: true, ..Bindings::default() };
    Gateway::new(&policy.to_string(), &bindings).expect("a policy")
}

fn receive(gateway: &mut Gateway, now_ms: u64, random: f64) -> Option<Call> {
    match gateway.check(Some(r#"{"limits":["all"]}"#), now_ms, random) {
        Step::Ask(call) => Some(call),
        Step::Answer(_) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cancelled_probe_gives_its_permit_back() {
    seeds::each(300, |seed| {
        let mut random = Random::new(seed);
        let timeout_ms = random.between(10, 500);
        let probes = random.between(1, 5);
        let mut gateway = gateway(timeout_ms, probes);
        let mut now_ms = random.pick(&[0, START_MS]);
        let call = receive(&mut gateway, now_ms, random.part()).expect("closed");
        gateway.conclude(call.ticket, Reply::None("connection"), now_ms, random.part());
        let calls = gateway.counters().calls;
        while gateway.breaker_phase(now_ms) == Phase::Open {
            assert!(receive(&mut gateway, now_ms, 0.0).is_none());
            assert_eq!(gateway.counters().calls, calls, "open, nothing reaches the store");
            now_ms += random.between(1, 50);
        }
        // All probes go out, and their clients leave.
        for _ in 0..probes {
            assert!(receive(&mut gateway, now_ms, 0.0).is_some());
        }
        let given_up_ms = now_ms + timeout_ms + 1_000;
        for at_ms in [now_ms, random.between(now_ms, given_up_ms), given_up_ms] {
            assert!(receive(&mut gateway, at_ms, 0.0).is_none(), "{probes} probes are out");
        }
        let again: Vec<Call> = (0..50).filter_map(|_| receive(&mut gateway, given_up_ms + 1, 0.0)).collect();
        assert_eq!(again.len() as u64, probes, "as many as before, and no more");
        for call in again {
            let body = r#"{"result":[1,1000000,999999,1000,0]}"#;
            let reply = Reply::Whole { status: 200, body, retry_after_s: 0 };
            gateway.conclude(call.ticket, reply, given_up_ms + 2, 0.0);
        }
        assert_eq!(gateway.breaker_phase(given_up_ms + 2), Phase::Closed);
    });
}
