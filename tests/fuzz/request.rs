//! Whole requests: whatever their URL and headers, they go to the store, to the origin, or back with a problem.

use sluicegate::gateway::{Bindings, Gateway, Request, Step};
use sluicegate::subject::Platform;

use crate::drive::each;
use crate::mutate::Corpus;

struct Headers(Vec<(&'static str, String)>);

impl Platform for Headers {
    fn header(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    fn country(&self) -> Option<String> {
        None
    }

    fn asn(&self) -> Option<String> {
        Some("64500".to_owned())
    }
}

const POLICY: &str = r#"{"version":1,"gateway":{"origin":"http://o","unmatched":"deny"},"limits":[
    {"name":"a","algorithm":"token-bucket","limit":9,"window":"1s","key":["ip"],"on_store_error":"open"},
    {"name":"b","algorithm":"sliding-log","limit":9,"window":"1s","key":["header:x","path","host"],"on_missing_key":"skip",
     "on_store_error":"closed","cost":{"header":"x-cost","max":5},"idempotency":"header:idempotency-key"},
    {"name":"c","algorithm":"fixed-window","limit":9,"window":"1s","key":["query:q","cookie:c","param:rest","country","asn"],
     "on_missing_key":"share","on_store_error":"degraded"}],
    "routes":[{"name":"r","path":"/v1/{*rest}","limits":["a","b","c"]},{"name":"free","path":"/free","limits":[]}]}"#;

#[test]
fn requests() {
    let urls = vec![
        "http://a/v1/chat?q=s3cret-query",
        "http://a/v1/s3cret-param",
        "http://api.test:8080//v1/%2e%2e/v1/x?q=%FF",
        "http://a/free",
        "http://a/.sluicegate/health",
        "http://a/.sluicegate/v1/check",
        "http://a?/v1/x",
    ];
    let urls = Corpus::of(
        urls,
        &["/", "//", "%2F", "%2e", "?", "#", "v1", "/.sluicegate/", "..", "q=", "&", "\u{fffd}"],
    );
    let values = vec![
        "192.0.2.1",
        "2001:db8::1",
        "s3cret-header",
        "c=s3cret-cookie; d=1",
        "1",
        "",
        "2a06:98c0:3600::103",
        "1.1 sluicegate",
    ];
    let values = Corpus::of(values, &[",", ";", "=", ":", "%", "\u{fffd}", " ", "\"", "sluicegate"]);
    let zones = Corpus::of(vec!["a.example", "b.workers.dev"], &[".", ":", "%", ",", "\n", "-"]);
    let names = [
        "cf-connecting-ip",
        "cf-worker",
        "x",
        "x-cost",
        "cookie",
        "idempotency-key",
        "via",
        "origin",
        "authorization",
        "access-control-request-method",
    ];
    let bindings =
        Bindings { store_url: Some("http://store".to_owned()), has_token: true, ..Bindings::default() };
    each("requests", 3_000, |random| {
        let mut gateway = Gateway::new(POLICY, &bindings).unwrap();
        let url = urls.text(random);
        let mut headers: Vec<(&str, String)> = Vec::new();
        for name in names {
            if random.percent(40) {
                let long = if random.percent(3) { 5_000 } else { 1 };
                // The zone of another Worker is said by Cloudflare, and stands in keys as addresses do.
                let from = if name == "cf-worker" { &zones } else { &values };
                headers.push((name, from.text(random).repeat(long)));
            }
        }
        if random.percent(60) {
            headers.insert(0, ("cf-connecting-ip", "192.0.2.1".to_owned()));
        }
        let platform = Headers(headers);
        let request = Request {
            method: random.pick(&["GET", "POST", "OPTIONS", "PURGE"]),
            url: &url,
            platform: &platform,
        };
        let step = gateway.receive(&request, random.next() >> 20, 0.5);
        match &step {
            Step::Ask(call) => {
                assert!(serde_json::from_str::<Vec<String>>(&call.body).is_ok());
                assert!(!call.body.contains("s3cret"), "{url} {:?}: {}", platform.0, call.body);
            }
            Step::Forward(forward) => assert_eq!(forward.origin, "http://o"),
            Step::Page => assert!(url.contains("sluicegate"), "{url}"),
            Step::Answer(answer) => {
                let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
                assert!(
                    matches!(answer.status, 200 | 400 | 401 | 404 | 405 | 414 | 431 | 508),
                    "{url}: {body}"
                );
                assert!(!answer.body.contains("s3cret"), "{url} {:?}: {body}", platform.0);
                assert!(answer.headers.iter().all(|(_, value)| !value.contains(['\n', '\r'])));
            }
            other => panic!("{url}: {other:?}"),
        }
        assert!(gateway.take_log().iter().all(|line| !line.contains("s3cret")));
    });
}
