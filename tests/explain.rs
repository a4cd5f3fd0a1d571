//! The checker's explanation says what the Worker would do: the same keys in the same call, the same answer.

use std::collections::HashMap;

use serde_json::{Value, json};
use sluicegate::gateway::explain::{Applies, Course, Explanation};
use sluicegate::gateway::{Bindings, Gateway, Request, Step};
use sluicegate::subject::{Claims, Platform};

struct Told<'a>(&'a [(&'a str, &'a str)]);

impl Platform for Told<'_> {
    fn header(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    fn country(&self) -> Option<String> {
        self.header("cf-ipcountry")
    }

    fn asn(&self) -> Option<String> {
        None
    }
}

/// In a window of a minute, ten seconds in.
const NOW_MS: u64 = 1_800_000_010_000;

fn policy() -> Value {
    json!({
        "version": 1,
        "gateway": {"origin": "http://origin.example", "tier_header": true, "unmatched": "deny"},
        "defaults": {"on_store_error": "degraded"},
        "limits": [
            {"name": "burst", "algorithm": "token-bucket", "limit": 10, "burst": 25, "window": "1s", "key": ["ip"],
                "exempt": {"ip": ["10.0.0.0/8"], "header:x-internal": "binding:INTERNAL"}},
            {"name": "spaced", "algorithm": "token-bucket", "limit": 10, "burst": 1, "window": "1s", "key": ["global"],
                "over_limit": {"delay": "1500ms"}},
            {"name": "tenant", "algorithm": "sliding-window", "limit": 60, "window": "1m",
                "key": ["header:x-tenant", "param:rest"], "plan": "header:x-plan",
                "plans": {"tiny": 3, "pro": 600, "staff": "unlimited", "gone": "blocked"},
                "cost": {"header": "x-cost", "default": 2, "max": 100}, "on_store_error": "closed",
                "idempotency": "header:idempotency-key"},
            {"name": "country", "algorithm": "fixed-window", "limit": 5, "window": "1h", "key": ["country"],
                "on_missing_key": "skip", "shadow": true, "on_store_error": "open", "cost": 2}
        ],
        "routes": [
            {"name": "all", "path": "/v1/{*rest}", "methods": ["POST"], "limits": ["burst", "tenant", "country"]},
            {"name": "free", "path": "/free", "limits": []},
            {"name": "loose", "path": "/loose", "limits": ["country"]},
            {"name": "one", "path": "/one", "host": "one.example", "limits": ["burst"]},
            {"name": "spaced", "path": "/spaced", "limits": ["spaced"]},
            {"name": "ahead", "path": "/ahead/{*rest}", "limits": ["tenant"], "optimistic": true}
        ]
    })
}

fn bindings(store: bool) -> Bindings {
    Bindings {
        store_url: store.then(|| "http://store.example".to_owned()),
        has_token: true,
        key_secret: Some("secret".to_owned()),
        texts: HashMap::from([("INTERNAL".to_owned(), "open sesame".to_owned())]),
        ..Bindings::default()
    }
}

fn gateway(store: bool) -> Gateway {
    Gateway::new(&policy().to_string(), &bindings(store)).unwrap()
}

fn explain(method: &str, url: &str, headers: &[(&str, &str)]) -> Explanation {
    gateway(false).explain(&Request { method, url, platform: &Told(headers) }, &Claims::default(), NOW_MS)
}

fn step(store: bool, method: &str, url: &str, headers: &[(&str, &str)]) -> Step {
    gateway(store).receive(&Request { method, url, platform: &Told(headers) }, NOW_MS, 0.0)
}

const CHAT: &str = "https://API.example.com:8443/v1//chat/%63?x=1";
const USUAL: [(&str, &str); 4] =
    [("cf-connecting-ip", "192.0.2.1"), ("x-tenant", "acme"), ("x-plan", "pro"), ("x-cost", "5")];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = USUAL.into_iter().filter(|(name, _)| !more.iter().any(|(other, _)| other == name));
    more.iter().copied().filter(|(_, value)| !value.is_empty()).chain(kept).collect()
}

/// The keys of an explanation are those of the call that the Worker would make, in the same order.
#[test]
fn keys_are_those_of_the_call() {
    for headers in [
        with(&[]),
        with(&[("cf-ipcountry", "CH")]),
        with(&[("x-plan", "staff")]),
        with(&[("cf-connecting-ip", "10.1.1.1")]),
    ] {
        let Step::Ask(call) = step(true, "POST", CHAT, &headers) else { panic!("no call") };
        let command: Vec<String> = serde_json::from_str(&call.body).unwrap();
        let count: usize = command[2].parse().unwrap();
        let explanation = explain("POST", CHAT, &headers);
        let keys = explanation.limits.iter().flat_map(|limit| [&limit.store_key, &limit.override_key]);
        assert_eq!(keys.flatten().collect::<Vec<_>>(), command[3..3 + count].iter().collect::<Vec<_>>());
    }
}

/// What is said to be begun ahead of its decision is what the Worker begins.
#[test]
fn optimistic_requests_are_those_that_are_begun() {
    let rows = [
        ("GET", "http://h/ahead/1", with(&[]), true),
        ("HEAD", "http://h/ahead/1", with(&[]), true),
        ("POST", "http://h/ahead/1", with(&[]), false),
        ("GET", "http://h/ahead/1", with(&[("idempotency-key", "k")]), false),
        ("GET", "http://h/ahead/1", with(&[("upgrade", "websocket")]), false),
        ("GET", "http://h/ahead/1", with(&[("x-plan", "staff")]), false),
        ("GET", "http://h/ahead/1", with(&[("x-plan", "gone")]), false),
        ("GET", "http://h/loose", with(&[("cf-ipcountry", "CH")]), false),
    ];
    for (method, url, headers, begun) in rows {
        let explanation = explain(method, url, &headers);
        assert_eq!(explanation.optimistic, begun, "{method} {url} {headers:?}");
        assert_eq!(matches!(step(true, method, url, &headers), Step::Ahead(_)), begun, "{method} {url}");
        assert_eq!(explanation.to_string().contains("the origin is asked while the store decides"), begun);
    }
}

/// Whatever is sent, the answer is the one a gateway without a store gives, and the limits account for it.
#[test]
fn answers_are_the_workers() {
    let requests = [
        ("POST", CHAT, with(&[])),
        ("POST", CHAT, with(&[("x-tenant", "")])),
        ("POST", CHAT, with(&[("x-cost", "101")])),
        ("POST", CHAT, with(&[("x-plan", "gone")])),
        ("POST", CHAT, with(&[("via", "1.1 sluicegate")])),
        ("GET", CHAT, with(&[])),
        ("GET", "http://h/free", with(&[])),
        ("OPTIONS", "http://h/loose", with(&[("access-control-request-method", "PUT")])),
        ("GET", "http://h/loose", with(&[])),
    ];
    for (method, url, headers) in requests {
        let explained = explain(method, url, &headers).answer.unwrap();
        match step(false, method, url, &headers) {
            Step::Forward(forward) => {
                assert_eq!(explained.forwarded_to, Some(forward.origin), "{method} {url}");
                let told = forward.headers.iter().filter(|(name, _)| *name != "Sluicegate-Tier");
                assert_eq!(explained.headers.len(), told.count());
            }
            Step::Answer(answer) => {
                assert_eq!(explained.status, Some(answer.status), "{method} {url}");
                assert_eq!(explained.problem, serde_json::from_str(&answer.body).ok());
            }
            other => panic!("{other:?}"),
        }
    }
}

fn applies(headers: &[(&str, &str)]) -> Vec<Applies> {
    explain("POST", CHAT, headers).limits.iter().map(|limit| limit.applies).collect()
}

#[test]
fn each_limit_says_whether_it_counts() {
    use Applies::{Blocked, Counted, Exempt, Faulty, Skipped, Unlimited};
    assert_eq!(applies(&with(&[])), [Counted, Counted, Skipped]);
    assert_eq!(applies(&with(&[("cf-ipcountry", "CH")])), [Counted, Counted, Counted]);
    assert_eq!(applies(&with(&[("x-plan", "staff")])), [Counted, Unlimited, Skipped]);
    assert_eq!(applies(&with(&[("x-plan", "gone")])), [Counted, Blocked, Skipped]);
    assert_eq!(applies(&with(&[("cf-connecting-ip", "10.0.0.9")])), [Exempt, Counted, Skipped]);
    assert_eq!(applies(&with(&[("x-internal", "open sesame")])), [Exempt, Counted, Skipped]);
    assert_eq!(applies(&with(&[("x-internal", "open")])), [Counted, Counted, Skipped]);
    // A fault of one limit does not hide the next.
    assert_eq!(applies(&with(&[("cf-connecting-ip", ""), ("x-cost", "many")])), [Faulty, Faulty, Skipped]);
}

#[test]
fn the_numbers() {
    let explanation = explain("POST", CHAT, &with(&[("cf-ipcountry", "CH"), ("idempotency-key", "k1")]));
    assert_eq!((explanation.course, explanation.path.as_str()), (Course::Limited, "/v1/chat/c"));
    assert_eq!(explanation.host, "api.example.com");
    let whole = serde_json::to_value(&explanation).unwrap();
    let [burst, tenant, country] = whole["limits"].as_array().unwrap().as_slice() else { panic!("{whole}") };
    assert_eq!(burst["quota"], json!({"limit": 10, "burst": 25, "window": "1s", "lease": null}));
    assert_eq!(burst["from_idle"], json!({"passes": true, "remaining": 24}));
    assert_eq!(burst["degraded"], json!({"limit": 1, "burst": 3, "window": "1s", "lease": null}));
    assert_eq!(burst["store_key"], "sg:1:burst:b1s:192.0.2.1");
    assert_eq!(tenant["quota"], json!({"limit": 600, "burst": null, "window": "1m", "lease": null}));
    assert_eq!(tenant["plan"], json!({"part": "header:x-plan", "value": "pro", "known": true}));
    assert_eq!(tenant["cost"], json!({"units": 5, "header": "x-cost", "stated": true, "max": 100}));
    assert_eq!(tenant["from_idle"]["remaining"], 595);
    assert_eq!(tenant["key"][1], json!({"part": "param:rest", "value": "chat/c", "give": null}));
    assert_eq!(tenant["idempotency"]["value"], "k1");
    assert_eq!(country["quota"]["limit"], 5);
    assert_eq!((&country["shadow"], &country["from_idle"]["remaining"]), (&json!(true), &json!(3)));
    assert_eq!(whole["answer"]["forwarded_to"], "http://origin.example");
    assert_eq!(whole["store_down"], json!({"tier": "closed", "by": ["tenant"]}));
    assert_eq!(whole["keyed_digests"], true);
}

#[test]
fn a_limit_that_delays_says_so() {
    let explanation = explain("GET", "http://h/spaced", &[]);
    let limit = serde_json::to_value(&explanation.limits[0]).unwrap();
    assert_eq!(limit["over_limit"], json!({"delay": "1500ms", "waiting": 1000}));
    let text = explanation.to_string();
    let told = "over_limit      held up to 1500ms for its moment, 1000 at once in an isolate, then 429";
    assert!(text.contains(told), "{text}");
    assert!(!explain("POST", CHAT, &USUAL).to_string().contains("over_limit"));
}

/// A concurrency limit has slots and leases, not units and windows; the slot of the request itself is taken.
#[test]
fn slots_are_told_as_slots() {
    let explained = |plan: &str| {
        let slots = json!({"name": "slots", "algorithm": "concurrency", "limit": 20, "lease": "30s",
            "key": ["ip"], "plan": "header:x-plan", "plans": {"one": 1, "gone": "blocked"}});
        let mut policy = policy();
        policy["limits"].as_array_mut().unwrap().push(slots);
        let route = json!({"name": "report", "path": "/report", "limits": ["slots"]});
        policy["routes"].as_array_mut().unwrap().push(route);
        let headers = [("cf-connecting-ip", "192.0.2.1"), ("x-plan", plan)];
        let request = Request { method: "GET", url: "http://h/report", platform: &Told(&headers) };
        let gateway = Gateway::new(&policy.to_string(), &bindings(false)).unwrap();
        gateway.explain(&request, &Claims::default(), NOW_MS)
    };
    let explanation = explained("none");
    let limit = serde_json::to_value(&explanation.limits[0]).unwrap();
    assert_eq!(limit["quota"], json!({"limit": 20, "burst": null, "window": null, "lease": "30s"}));
    assert_eq!(limit["degraded"], json!({"limit": 2, "burst": null, "window": null, "lease": "30s"}));
    assert_eq!(limit["from_idle"], json!({"passes": true, "remaining": 19}));
    let headers = &explanation.answer.as_ref().unwrap().headers;
    assert!(headers["RateLimit"].contains(";r=19;"), "as many as the answer says: {headers:?}");
    let text = explanation.to_string();
    for line in [
        "  quota           20 at once, leases of 30s: header:x-plan is \"none\", which is no plan, so the limit's own\n",
        "  cost            one slot, held until the answer has ended\n",
        "  from idle       passes, 19 left\n",
        "  on_store_error  degraded: each isolate grants 2 at once, leases of 30s\n",
    ] {
        assert!(text.contains(line), "{line}in\n{text}");
    }
    assert!(
        explained("one").to_string().contains("  quota           1 at once, leases of 30s: plan \"one\"")
    );
    assert!(explained("gone").to_string().contains("  quota           blocked: plan \"gone\""));
}

/// The model's word, and so the Worker's: a cost above what the plan has can never pass.
#[test]
fn a_cost_above_the_plan() {
    let explanation = explain("POST", CHAT, &with(&[("x-plan", "tiny")]));
    let tenant = serde_json::to_value(&explanation.limits[1]).unwrap();
    assert_eq!(tenant["from_idle"], json!({"passes": false, "remaining": 3}));
    let answer = explanation.answer.unwrap();
    assert_eq!(answer.status, Some(429));
    assert!(answer.problem.unwrap()["detail"].as_str().unwrap().contains("cost-exceeds-capacity"));
}

#[test]
fn while_the_store_is_down() {
    let down = |url, headers: &[(&str, &str)]| {
        let down = explain("POST", url, headers).store_down;
        down.map(|down| (down.tier, down.by.join(",")))
    };
    assert_eq!(down(CHAT, &with(&[])), Some(("closed", "tenant".to_owned())));
    assert_eq!(down(CHAT, &with(&[("x-plan", "staff")])), Some(("degraded", "burst".to_owned())));
    assert_eq!(down("http://h/loose", &with(&[("cf-ipcountry", "CH")])), Some(("open", String::new())));
    assert_eq!(down("http://h/loose", &with(&[])), None, "nothing asks the store");
    assert_eq!(down(CHAT, &with(&[("x-plan", "gone")])), None, "blocked without asking");
}

#[test]
fn what_would_have_matched() {
    let near = |method, url| {
        let near = explain(method, url, &[]).nearest;
        near.map(|near| format!("{} {} {}", near.method, near.host, near.route))
    };
    assert_eq!(near("GET", "http://h/v1/x").as_deref(), Some("POST h all"));
    assert_eq!(near("GET", "http://h/one").as_deref(), Some("GET one.example one"));
    assert_eq!(near("GET", "http://h/nothing"), None);
    assert_eq!(near("GET", "http://h/free"), None, "it has a route");
}

#[test]
fn courses() {
    let course = |method, url, headers: &[(&str, &str)]| explain(method, url, headers).course;
    assert_eq!(course("GET", "http://h/.sluicegate/v1/status", &[]), Course::Own);
    assert!(explain("GET", "http://h/.sluicegate/health", &[]).answer.is_none());
    assert_eq!(course("GET", "http://h/free", &[("via", "1.1 sluicegate")]), Course::Loop);
    assert_eq!(course("GET", "http://h/nothing", &[]), Course::Unmatched);
    assert_eq!(course("GET", "http://h/free", &[]), Course::WithoutLimits);
    let preflight = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
    assert_eq!(course("OPTIONS", "http://h/loose", &preflight), Course::Preflight);
    assert_eq!(course("OPTIONS", "http://h/loose", &[]), Course::Limited);
}

/// A path that two origins would read differently is counted by both readings' routes, and so explained by both.
#[test]
fn a_path_that_reads_in_two_ways() {
    let explanation = explain("POST", "http://h/loose/r%2Fz/..", &with(&[("cf-ipcountry", "CH")]));
    assert_eq!(explanation.course, Course::Limited);
    let names: Vec<&str> = explanation.limits.iter().map(|limit| limit.name.as_str()).collect();
    assert_eq!(names, ["country"]);
    let url = "http://h/v1/r%2Fz/../search";
    let explanation = explain("POST", url, &with(&[]));
    let keys: Vec<_> =
        explanation.limits.iter().map(|limit| (limit.name.as_str(), &limit.store_key)).collect();
    assert_eq!(
        keys.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["burst", "tenant", "country", "tenant"]
    );
    assert_ne!(keys[1].1, keys[3].1, "the limit counts both subjects");
    let Step::Ask(call) = step(true, "POST", url, &with(&[])) else { panic!("no call") };
    for (_, key) in keys.iter().filter(|(_, key)| key.is_some()) {
        assert!(call.body.contains(&format!("\"{}\"", key.as_ref().unwrap())), "{key:?} in {}", call.body);
    }
    let text = explanation.to_string();
    assert!(text.contains("  read otherwise  all: POST /v1/{*rest}, rest = \"search\"\n"), "{text}");
}

#[test]
fn paths_of_our_own_and_urls_out_of_bounds() {
    for url in ["http://h/.sluicegate//../loose", "http://h/x/../.sluicegate//../a"] {
        assert_eq!(explain("GET", url, &[]).course, Course::Own, "{url}");
    }
    let explanation = explain("GET", "http://h?/loose", &[]);
    assert_eq!(
        (explanation.course, explanation.answer.and_then(|answer| answer.status)),
        (Course::Refused, Some(400))
    );
}
