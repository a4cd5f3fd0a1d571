//! Commands that a slot costs, by Redis's own counters, on the scripts as they are built in; and its memory.

use std::collections::BTreeMap;

use sluicegate::limit::Quota;
use sluicegate::limit::waiting::Patience;
use sluicegate::policy::{Algorithm, Clock};
use sluicegate::store::call::{self, Check};
use sluicegate::store::script::{CHECK, SLOTS};
use sluicegate::store::slots::{self, Call, Operation, SlotStems};
use sluicegate::store::{Ask, ChargeId, Form, ScriptCall, Stems};

use super::super::commands::calls;
use super::super::support::redis::{Client, Reply, Server};

const KEYS: [&str; 3] = ["sg:1:running:c:", "sg:1:running:!:", "sg:1:running:queue:"];
const TAKE: Operation = Operation::Take(None);

struct Bench {
    client: Client,
    subject: String,
    limit: u64,
}

impl Bench {
    fn new(server: &Server, limit: u64) -> Self {
        let mut client = server.client();
        client.call(&["FLUSHALL"]);
        client.call(&["SCRIPT", "LOAD", CHECK.redis]);
        client.call(&["SCRIPT", "LOAD", SLOTS.redis]);
        Self { client, subject: "s".to_owned(), limit }
    }

    fn quota(&self) -> Quota {
        Quota { algorithm: Algorithm::Concurrency, limit: self.limit, burst: self.limit, window_ms: 60_000 }
    }

    fn slot(&mut self, id: &str, operation: Operation) -> Vec<i64> {
        let [holders, overrides, queue] = KEYS;
        let stems = SlotStems { holders, overrides, queue };
        let (form, by, subject, quota) =
            (Form::Redis, ScriptCall::BySha, self.subject.as_str(), self.quota());
        self.run(&slots::body(&SLOTS, &Call { form, by, stems, subject, quota, id, operation }))
    }

    /// One request over this limit and so many rate limits.
    fn request(&mut self, id: &str, cost: u64, rates: usize, charge: Option<&str>) -> Vec<i64> {
        let ask = |limit: usize, quota: Quota, arguments: String| Ask {
            limit,
            quota,
            arguments: arguments.into(),
            subject: self.subject.as_str().into(),
            cost,
            shadow: false,
            ahead_ms: None,
            more: 0,
        };
        let mut asks = vec![ask(0, self.quota(), call::slot_arguments(&self.quota(), false, id))];
        for limit in 0..rates {
            let quota =
                Quota { algorithm: Algorithm::FixedWindow, limit: 99, burst: 99, window_ms: 3_600_000 };
            asks.push(ask(limit + 1, quota, call::arguments(&quota, false)));
        }
        let stems: Vec<String> = (0..=rates).map(|limit| format!("sg:1:rate{limit}:f1h:")).collect();
        let charge = charge.map(|id| ChargeId::of_key(id, "-", 60_000));
        let (form, by, clock, now_ms) = (Form::Redis, ScriptCall::BySha, Clock::Edge, self.now_ms());
        let charge = charge.as_ref().map(|charge| ("sg:1::charge:", charge));
        let check = Check { form, by, clock, now_ms, asks: &asks, charge };
        let body = call::check_body(&CHECK, check, |ask| match ask.limit {
            0 => Stems { state: KEYS[0], overrides: KEYS[1] },
            limit => Stems { state: &stems[limit], overrides: "sg:1:rate:!:" },
        });
        self.run(&body)
    }

    fn now_ms(&self) -> u64 {
        std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock past 1970").as_millis() as u64
    }

    fn run(&mut self, body: &str) -> Vec<i64> {
        let command: Vec<String> = serde_json::from_str(body).expect("an array of strings");
        self.client.call(&["CONFIG", "RESETSTAT"]);
        let reply = self.client.call(&command);
        let number = |reply: &Reply| if let Reply::Int(number) = reply { *number } else { 0 };
        reply.array().iter().map(number).collect()
    }

    /// What the last call came to. Left out are `EVALSHA` and the `PEXPIRE` that follows a `PTTL`, unless the key's
    /// life was renewed in this very millisecond.
    fn cost(&mut self) -> String {
        let mut calls: BTreeMap<String, u64> = calls(&mut self.client);
        assert_eq!(calls.remove("evalsha"), Some(1));
        assert!(calls.remove("pexpire") <= calls.get("pttl").copied());
        let words = calls.iter().map(|(name, times)| match times {
            1 => name.clone(),
            times => format!("{name}*{times}"),
        });
        words.collect::<Vec<String>>().join(" ")
    }

    /// Ends the leases of so many holders, the first to end first.
    fn end(&mut self, holders: usize) {
        let last = (holders - 1).to_string();
        let ids = self.client.call(&["ZRANGE", &format!("{}s", KEYS[0]), "0", &last]);
        for id in ids.array() {
            self.client.call(&["ZADD", &format!("{}s", KEYS[0]), "1700000000000", id.text()]);
        }
    }
}

/// Fences rise however soon after a flush the next one is given, within the same millisecond, too.
#[test]
fn fences_rise_over_a_flush() {
    let server = Server::start();
    let mut bench = Bench::new(&server, 9);
    for round in 0..300 {
        let mut fences = Vec::new();
        for (id, by_request) in [("a", false), ("b", true), ("c", false), ("d", true)] {
            bench.client.call(&["FLUSHALL"]);
            let reply = if by_request { bench.request(id, 1, 0, None) } else { bench.slot(id, TAKE) };
            let at = if by_request { reply.len() - 1 } else { 1 };
            fences.push(reply[at]);
        }
        assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "{round}: {fences:?}");
    }
}

#[test]
fn a_request_with_a_slot_costs_what_its_contract_says() {
    let server = Server::start();
    let mut bench = Bench::new(&server, 2);
    assert_eq!(bench.request("a", 1, 0, None)[0], 1);
    assert_eq!(bench.cost(), "mget pttl time zadd zmscore", "the first");
    assert_eq!(bench.request("b", 1, 0, None)[0], 1);
    assert_eq!(bench.cost(), "mget pttl time zadd zcard zmscore zrange", "another");
    assert_eq!(bench.request("c", 1, 0, None)[0], 0);
    assert_eq!(bench.cost(), "mget zcard zmscore zrange*2", "refused");
    assert_eq!(bench.request("c", 0, 0, None)[0], 0);
    assert_eq!(bench.cost(), "mget zcard zmscore zrange", "a look, refused as well");
    assert_eq!(bench.request("b", 1, 0, None)[0], 1);
    // One ZRANGE more where all of it fell into one millisecond, so that the first lease to end may be its own.
    let repeat = bench.cost();
    assert_eq!(repeat.trim_end_matches("*2"), "mget pttl time zadd zcard zmscore zrange", "a repeat");
    bench.client.call(&["SET", &format!("{}s", KEYS[1]), "0 0"]);
    assert_eq!(bench.request("d", 1, 0, None)[0], 0);
    assert_eq!(bench.cost(), "mget", "banned");
}

#[test]
fn a_slot_beside_rate_limits_costs_both_and_nothing_more() {
    let server = Server::start();
    let mut bench = Bench::new(&server, 1);
    assert_eq!(bench.request("a", 1, 3, Some("x"))[0], 1);
    assert_eq!(bench.cost(), "mget pttl set*4 time zadd zmscore", "with a charge id");
    assert_eq!(bench.request("a", 1, 3, Some("x"))[0], 1);
    assert_eq!(bench.cost(), "mget", "again");
    assert_eq!(bench.request("b", 1, 3, None)[0], 0);
    assert_eq!(bench.cost(), "mget zcard zmscore zrange*2", "refused");
}

/// FIELD-REPORTS B52: what is left by holders that vanished costs the next one command each, once.
#[test]
fn leases_that_have_ended_are_dropped_once() {
    let server = Server::start();
    let mut bench = Bench::new(&server, 10);
    for id in 0..10 {
        bench.request(&id.to_string(), 1, 0, None);
    }
    bench.end(7);
    assert_eq!(bench.request("x", 0, 0, None)[2], 7);
    assert_eq!(bench.cost(), "mget time zcard zcount zmscore zrange*2", "a look drops nobody");
    assert_eq!(bench.request("x", 1, 0, None)[2], 6);
    assert_eq!(bench.cost(), "mget pttl time zadd zcard zcount zmscore zrange*4 zrem*7");
    assert_eq!(bench.request("y", 1, 0, None)[2], 5);
    assert_eq!(bench.cost(), "mget pttl time zadd zcard zmscore zrange");
    bench.end(3);
    assert_eq!(bench.slot("z", TAKE)[5], 7);
    assert_eq!(bench.cost(), "get pttl time zadd zcard*2 zcount zmscore zrange zrem*3");
}

#[test]
fn operations_on_slots_cost_what_their_contract_says() {
    let server = Server::start();
    let mut bench = Bench::new(&server, 1);
    let patience = |wait_ms| Operation::Take(Some(Patience { wait_ms, patience_ms: 50_000, most: 9 }));
    let taken = bench.slot("a", TAKE);
    assert_eq!(bench.cost(), "get pttl time zadd zcard*2 zmscore", "the first");
    let fence = taken[1] as u64;
    bench.slot("a", Operation::Renew(fence));
    assert_eq!(bench.cost(), "get pttl time zadd zcard zcount zmscore", "renewed");
    assert_eq!(bench.slot("b", TAKE)[0], 0);
    assert_eq!(bench.cost(), "get time zcard*2 zcount zmscore zrange", "refused");
    assert_eq!(bench.slot("b", patience(60_000))[2], 0);
    assert_eq!(bench.cost(), "get pttl time zadd zcard*2 zcount zmscore zrange", "the first in the queue");
    assert_eq!(bench.slot("c", patience(60_000))[2], 1);
    assert_eq!(bench.cost(), "get pttl time zadd zcard*2 zcount*2 zmscore zrange*2 zrank", "queued");
    assert_eq!(bench.slot("c", patience(60_000))[2], 1);
    assert_eq!(bench.cost(), "get pttl time zadd zcard*2 zcount*2 zmscore zrange zrank", "asked again");
    bench.slot("-", Operation::List);
    assert_eq!(bench.cost(), "get time zcard*2 zcount*2 zrange*3", "listed");
    assert_eq!(bench.slot("a", Operation::Free(fence + 1)), [3]);
    assert_eq!(bench.cost(), "get time zcard zcount zmscore", "another fence");
    bench.slot("a", Operation::Free(fence));
    assert_eq!(bench.cost(), "get pttl time zcard zcount zmscore zrem", "freed");
    assert_eq!(bench.slot("a", Operation::Free(fence)), [2]);
    assert_eq!(bench.cost(), "get time zcard zmscore", "freed twice");
    assert_eq!(bench.slot("b", TAKE)[0], 1);
    assert_eq!(bench.cost(), "get pttl time zadd zcard*2 zcount zmscore zrank zrem", "in its turn");
    assert_eq!(bench.slot("c", Operation::Leave)[0], 1);
    assert_eq!(bench.cost(), "get time zcard zcount zrem", "left");
}

/// No command is called more often because more hold or wait.
#[test]
fn the_work_does_not_grow_with_the_holders() {
    let server = Server::start();
    let mut bench = Bench::new(&server, 3_000);
    let mut costs = Vec::new();
    for id in 0..3_000 {
        assert_eq!(bench.request(&id.to_string(), 1, 0, None)[0], 1);
        costs.push(bench.cost());
    }
    assert!(costs[1..].iter().all(|cost| *cost == costs[1]), "{:?}", costs.last());
    assert_eq!(bench.request("x", 1, 0, None)[0], 0);
    assert_eq!(bench.cost(), "mget zcard zmscore zrange*2");
}

/// Bytes per holder: up to 63 in Redis's compact form, beyond that in its general one.
#[test]
fn what_a_holder_weighs() {
    let server = Server::start();
    let mut wrong = Vec::new();
    for (holders, most) in [(1, 220), (20, 90), (60, 80), (1_000, 270)] {
        let mut bench = Bench::new(&server, holders);
        for number in 0..holders {
            // As long as the ids that requests are given.
            assert_eq!(bench.request(&format!("{number:0>20}"), 1, 0, None)[0], 1);
        }
        let key = format!("{}s", KEYS[0]);
        let bytes = bench.client.call(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).int() as u64;
        println!("{holders} holders: {bytes} bytes, {} each", bytes / holders);
        wrong
            .extend((bytes / holders > most).then(|| format!("{} bytes each of {holders}", bytes / holders)));
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
