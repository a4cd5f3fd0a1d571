//! What a policy comes out as: defaults, plans and their bursts, costs.

use sluicegate::policy::document::read_toml;
use sluicegate::policy::{
    Clock, Cors, Cost, Dialect, HeaderDialect, Limit, OnMissingKey, OnStoreError, Origin, Policy, Quota,
    Unmatched,
};

fn policy(text: &str) -> Policy {
    let text = format!("version = 1\ngateway.origin = 'http://127.0.0.1:8081/'\n{text}");
    read_toml(&text).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"))
}

fn limit(text: &str) -> Limit {
    let head = "[[limits]]\nname = 'a'\nwindow = '1m'\nkey = ['ip']\non_store_error = 'closed'\n";
    policy(&format!("{head}{text}")).limits.remove(0)
}

fn numbers(quota: &Quota) -> Option<(u64, u64)> {
    match quota {
        Quota::Limited(capacity) => Some((capacity.limit.get(), capacity.burst.get())),
        Quota::Unlimited | Quota::Blocked => None,
    }
}

#[test]
fn defaults() {
    let policy = policy("");
    assert_eq!(policy.gateway.origin, Origin::Url("http://127.0.0.1:8081".to_owned()));
    assert_eq!(policy.gateway.client_ip, "cf-connecting-ip");
    assert_eq!(policy.gateway.ipv6_prefix, 64);
    assert_eq!(policy.gateway.unmatched, Unmatched::Pass);
    assert_eq!(policy.gateway.headers, [HeaderDialect::Draft10]);
    assert!(!policy.gateway.tier_header);
    assert_eq!(policy.gateway.origin_timeout_ms, None);
    assert_eq!((policy.store.timeout_ms, policy.store.remember_ms), (150, 10_000));
    assert_eq!((policy.store.clock, policy.store.dialect), (Clock::Edge, Dialect::Auto));
    assert_eq!(policy.store.prefix, "sg");
    assert!(!policy.store.cluster);
    assert!((policy.degraded.share - 0.1).abs() < f64::EPSILON);
    assert_eq!(policy.degraded.max_subjects, 10_000);
    assert!(policy.limits.is_empty() && policy.router.routes().is_empty());

    let limit = limit("algorithm = 'fixed-window'\nlimit = 5");
    assert_eq!(limit.on_missing_key, OnMissingKey::Deny);
    assert_eq!(limit.cost, Cost { header: None, default: 1, max: 1 });
    assert!(!limit.shadow && limit.plan.is_none() && limit.plans.is_empty());
    assert!(limit.exempt.networks.is_empty() && limit.exempt.values.is_empty());
}

#[test]
fn bursts() {
    let rows = [
        // algorithm, what is written, limit and burst, those of the plan "p"
        ("fixed-window", "limit = 60\nplans = { p = 7 }", Some((60, 60)), Some((7, 7))),
        ("token-bucket", "limit = 60\nplans = { p = 7 }", Some((60, 60)), Some((7, 7))),
        // The plan keeps the limit's proportion, rounded up: 20 × 600 ÷ 60, 20 × 7 ÷ 60, 20 × 1 ÷ 60.
        ("token-bucket", "limit = 60\nburst = 20\nplans = { p = 600 }", Some((60, 20)), Some((600, 200))),
        ("token-bucket", "limit = 60\nburst = 20\nplans = { p = 7 }", Some((60, 20)), Some((7, 3))),
        ("token-bucket", "limit = 60\nburst = 20\nplans = { p = 1 }", Some((60, 20)), Some((1, 1))),
        (
            "token-bucket",
            "limit = 60\nburst = 20\nplans.p = { limit = 600 }",
            Some((60, 20)),
            Some((600, 200)),
        ),
        (
            "token-bucket",
            "limit = 60\nburst = 20\nplans.p = { limit = 6, burst = 90 }",
            Some((60, 20)),
            Some((6, 90)),
        ),
        ("token-bucket", "limit = 'blocked'\nplans = { p = 7 }", None, Some((7, 7))),
        ("token-bucket", "limit = 'unlimited'\nplans.p = { limit = 7, burst = 9 }", None, Some((7, 9))),
        ("token-bucket", "limit = 60\nburst = 20\nplans = { p = 'blocked' }", Some((60, 20)), None),
    ];
    for (algorithm, written, base, plan) in rows {
        let limit = limit(&format!("algorithm = '{algorithm}'\nplan = 'header:x-plan'\n{written}"));
        assert_eq!(numbers(&limit.quota), base, "{written}");
        assert_eq!(numbers(&limit.plans["p"]), plan, "{written}");
    }
}

#[test]
fn costs() {
    let rows = [
        ("cost = 5", Cost { header: None, default: 5, max: 5 }),
        ("cost = 0", Cost { header: None, default: 0, max: 0 }),
        (
            "cost = { header = 'X-Cost', max = 9 }",
            Cost { header: Some("x-cost".to_owned()), default: 1, max: 9 },
        ),
        (
            "cost = { header = 'x-cost', default = 0, max = 9 }",
            Cost { header: Some("x-cost".to_owned()), default: 0, max: 9 },
        ),
        (
            "cost = { header = 'x-cost', default = 9, max = 9 }",
            Cost { header: Some("x-cost".to_owned()), default: 9, max: 9 },
        ),
    ];
    for (written, cost) in rows {
        assert_eq!(limit(&format!("algorithm = 'sliding-log'\nlimit = 9\n{written}")).cost, cost);
    }
}

#[test]
fn defaults_of_limits_hold_for_those_that_do_not_say() {
    let policy = policy(
        "[defaults]\non_store_error = 'open'\non_missing_key = 'share'\nshadow = true\nexempt = { asn = '1' }\n\
         [[limits]]\nname = 'a'\nalgorithm = 'fixed-window'\nlimit = 5\nwindow = '1s'\nkey = ['ip']\n\
         [[limits]]\nname = 'b'\nalgorithm = 'fixed-window'\nlimit = 5\nwindow = '1s'\nkey = ['ip']\n\
         on_store_error = 'closed'\non_missing_key = 'skip'\nshadow = false\nexempt = {}\n",
    );
    let said: Vec<_> = policy
        .limits
        .iter()
        .map(|l| (l.on_store_error, l.on_missing_key, l.shadow, l.exempt.values.len()))
        .collect();
    assert_eq!(
        said,
        [
            (OnStoreError::Open, OnMissingKey::Share, true, 1),
            (OnStoreError::Closed, OnMissingKey::Skip, false, 0)
        ]
    );
}

#[test]
fn routes_name_limits_by_index() {
    let policy = policy(
        "defaults.on_store_error = 'open'\n\
         [[limits]]\nname = 'a'\nalgorithm = 'fixed-window'\nlimit = 5\nwindow = '1s'\nkey = ['ip']\n\
         [[limits]]\nname = 'b'\nalgorithm = 'fixed-window'\nlimit = 5\nwindow = '1s'\nkey = ['param:id']\n\
         [[routes]]\nname = 'r'\npath = '/{id}'\nlimits = ['b', 'a']\n",
    );
    let matched = policy.router.match_route("GET", "h", "/7").unwrap();
    assert_eq!((matched.index, matched.route.limits.as_slice()), (0, [1, 0].as_slice()));
    assert_eq!(matched.params, [("id", "7")]);
    assert!(policy.router.match_route("GET", "h", "/7/8").is_none());
}

/// A renewal waits for a retry only where one may be made.
#[test]
fn the_least_lease_counts_the_wait_before_a_retry_that_may_be() {
    let lease = |seconds, budget| {
        read_toml(&format!(
            "version = 1\ngateway.origin = 'http://127.0.0.1:8081/'\n\
             store = {{ timeout = '2900ms', retry = {{ budget = {budget}, backoff = '100ms' }} }}\n\
             [[limits]]\nname = 'a'\nalgorithm = 'concurrency'\nlimit = 1\nlease = '{seconds}s'\n\
             key = ['ip']\non_store_error = 'closed'\n"
        ))
    };
    assert!(lease(5, "0.0").is_ok() && lease(4, "0.0").is_err());
    assert!(lease(6, "0.1").is_ok() && lease(5, "0.1").is_err());
}

#[test]
fn scripts_of_anyone_of_some_and_of_nobody() {
    let cors = |text: &str| policy(text).gateway.cors;
    assert_eq!(cors(""), Cors::Nobody);
    assert_eq!(cors("gateway.cors = []"), Cors::Nobody);
    assert_eq!(cors("gateway.cors = ['*']"), Cors::Anyone);
    assert_eq!(
        cors("gateway.cors = ['https://a.example']"),
        Cors::Listed(vec!["https://a.example".to_owned()])
    );
}

#[test]
fn the_breaker_by_itself_and_at_its_bounds() {
    let breaker = policy("").store.breaker;
    assert_eq!((breaker.window_ms, breaker.min_calls, breaker.probes), (10_000, 5, 2));
    assert_eq!((breaker.failure_rate, breaker.slow_rate), (0.5, 0.8));
    assert_eq!((breaker.open_ms, breaker.max_open_ms, breaker.long_open_ms), (1_000, 30_000, 60_000));
    // Four fifths of the deadline, whichever that is.
    assert_eq!(breaker.slow_ms, 120);
    assert_eq!(policy("store.timeout = '1s'").store.breaker.slow_ms, 800);
    let constant = policy("store.breaker = { open = '5s', max_open = '5s' }").store.breaker;
    assert_eq!((constant.open_ms, constant.max_open_ms), (5_000, 5_000));
}

#[test]
fn a_route_has_as_many_limits_as_it_may() {
    let text = |count: usize| {
        let limit =
            |n| format!("[[limits]]\nname = 'l{n}'\nalgorithm = 'fixed-window'\nlimit = 1\nwindow = '1s'\n");
        let names: Vec<_> = (0..count).map(|n| format!("'l{n}'")).collect();
        let limits: String =
            (0..count).map(|n| limit(n) + "key = ['ip']\non_store_error = 'open'\n").collect();
        let route = format!("[[routes]]\nname = 'r'\npath = '/'\nlimits = [{}]\n", names.join(", "));
        format!("version = 1\ngateway.origin = 'http://127.0.0.1:8081/'\n{limits}{route}")
    };
    let most = sluicegate::policy::bounds::MAX_LIMITS_PER_ROUTE;
    let read = read_toml(&text(most)).unwrap_or_else(|errors| panic!("{errors:#?}"));
    assert_eq!(read.router.routes()[0].limits.len(), most);
    assert!(read_toml(&text(most + 1)).is_err());
}
