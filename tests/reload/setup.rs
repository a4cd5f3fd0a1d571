//! A gateway with one client and a store that answers what a test says.

use serde_json::{Value, json};
use sluicegate::gateway::{Bindings, Gateway, Reply, Request, Step};
use sluicegate::subject::Platform;

/// The beginning of an hour, so that no window ends within a test.
pub const NOW: u64 = 1_785_430_800_000;

/// A client with one address.
pub struct Client<'a>(pub &'a str);

impl Platform for Client<'_> {
    fn header(&self, name: &str) -> Option<String> {
        (name == "cf-connecting-ip").then(|| self.0.to_owned())
    }

    fn country(&self) -> Option<String> {
        None
    }

    fn asn(&self) -> Option<String> {
        None
    }
}

/// A fixed window an hour by address that is counted by the isolate while the store fails.
pub fn limit(name: &str, fields: Value) -> Value {
    let mut limit = json!({
        "name": name, "algorithm": "fixed-window", "limit": 10, "window": "1h", "key": ["ip"],
        "on_store_error": "degraded",
    });
    limit.as_object_mut().unwrap().append(&mut fields.as_object().unwrap().clone());
    limit
}

/// A policy with a route for each limit, at `/NAME`, and one for all at `/all`. `origin` tells policies apart.
pub fn policy(origin: &str, limits: &[Value], sections: Value) -> String {
    let names: Vec<&str> = limits.iter().map(|limit| limit["name"].as_str().unwrap()).collect();
    let mut routes: Vec<Value> = names
        .iter()
        .map(|name| json!({ "name": name, "path": format!("/{name}"), "limits": [name] }))
        .collect();
    routes.push(json!({ "name": "everything", "path": "/all", "limits": names }));
    let mut policy = json!({
        "version": 1,
        "gateway": { "origin": format!("http://{origin}.example.com"), "tier_header": true },
        "store": { "retry": { "budget": 0 } },
        "limits": limits,
        "routes": routes,
    });
    for (name, section) in sections.as_object().unwrap() {
        for (field, value) in section.as_object().unwrap() {
            policy[name][field] = value.clone();
        }
    }
    policy.to_string()
}

pub fn with_store() -> Bindings {
    let url = Some("https://store.example.com".to_owned());
    Bindings { store_url: url, has_token: true, ..Bindings::default() }
}

pub fn gateway(policy: &str, bindings: &Bindings) -> Gateway {
    let mut gateway = Gateway::new(policy, bindings).unwrap();
    gateway.take_log();
    gateway
}

pub fn receive(gateway: &mut Gateway, path: &str, ip: &str, now_ms: u64) -> Step {
    let url = format!("https://api.example.com{path}");
    let request = Request { method: "GET", url: &url, platform: &Client(ip) };
    gateway.receive(&request, now_ms, 0.5)
}

/// A request that asks the store: its ticket, and the command.
pub fn ask(gateway: &mut Gateway, path: &str, now_ms: u64) -> (u32, String) {
    match receive(gateway, path, "192.0.2.1", now_ms) {
        Step::Ask(call) => (call.ticket, call.body),
        other => panic!("the store is not asked: {other:?}"),
    }
}

/// The store lets it pass: for each limit its quota and what is left.
pub fn passes(gateway: &mut Gateway, ticket: u32, limits: &[(u64, u64)], now_ms: u64) -> Step {
    let numbers: Vec<String> =
        limits.iter().map(|(limit, left)| format!("{limit},{left},3600000,0")).collect();
    let body = format!("{{\"result\":[1,{}]}}", numbers.join(","));
    gateway.conclude(ticket, whole(&body), now_ms, 0.5)
}

/// The store refuses the one limit, for this long.
pub fn refuses(gateway: &mut Gateway, ticket: u32, limit: u64, wait_ms: u64, now_ms: u64) -> Step {
    let body = format!("{{\"result\":[0,{limit},0,{wait_ms},{wait_ms}]}}");
    gateway.conclude(ticket, whole(&body), now_ms, 0.5)
}

pub fn whole(body: &str) -> Reply<'_> {
    Reply::Whole { status: 200, body, retry_after_s: 0 }
}

/// The store is not there.
pub fn fails(gateway: &mut Gateway, ticket: u32, now_ms: u64) -> Step {
    gateway.conclude(ticket, Reply::None("connection"), now_ms, 0.5)
}

/// Where a step leads: `origin tier`, or `status tier` of an answer.
pub fn told(step: &Step) -> String {
    let (what, headers) = match step {
        Step::Forward(forward) => {
            (forward.origin.trim_start_matches("http://").replace(".example.com", ""), &forward.headers)
        }
        Step::Answer(answer) => (answer.status.to_string(), &answer.headers),
        other => panic!("no end: {other:?}"),
    };
    let tier = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("sluicegate-tier"));
    format!("{what} {}", tier.map_or("-", |(_, tier)| tier))
}

/// How many of so many requests pass, each decided by the isolate at once.
pub fn passed(gateway: &mut Gateway, path: &str, times: usize, now_ms: u64) -> usize {
    let all = (0..times).map(|_| receive(gateway, path, "192.0.2.1", now_ms));
    all.filter(|step| matches!(step, Step::Forward(_))).count()
}

/// How many of so many requests pass while the store fails, the breaker's opening included.
pub fn degraded(gateway: &mut Gateway, path: &str, times: usize) -> usize {
    let all = (0..times).map(|_| match receive(gateway, path, "192.0.2.1", NOW) {
        Step::Ask(call) => fails(gateway, call.ticket, NOW),
        other => other,
    });
    all.filter(|step| matches!(step, Step::Forward(_))).count()
}

/// Events in the log since the last look.
pub fn events(gateway: &mut Gateway) -> Vec<String> {
    gateway.take_log().iter().map(|line| event(line)).filter(|event| event != "refused").collect()
}

pub fn event(line: &str) -> String {
    serde_json::from_str::<Value>(line).unwrap()["event"].as_str().unwrap().to_owned()
}
