//! Where `policy.schema.json` knows the shape of a text by a pattern, it agrees with the parser text by text.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sluicegate::policy::document::read_json;

/// The texts whose shape the schema knows by a pattern are right for both or wrong for both.
#[test]
fn patterns_are_the_parsers() {
    let schema =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("policy.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let agree = |policy: Value, text: &str| {
        let parsed = read_json(&policy.to_string()).is_ok();
        assert_eq!(validator.is_valid(&policy), parsed, "{text:?}: the parser says {parsed}");
    };
    let paths = [
        "/",
        "/a/",
        "/v1/{id}/{*rest}",
        "/{*rest}",
        "/caf%C3%A9/caf\u{e9}",
        "/a:b/.a/...",
        "/%7Bid%7D/%2A",
        "/..a",
        "",
        "a",
        "//",
        "/a//b",
        "/a//",
        "/a/./b",
        "/a/..",
        "/%2e%2E/a",
        "/a%2Fb",
        "/a%5cb",
        "/{}",
        "/{*}",
        "/{a b}",
        "/{*rest}/a",
        "/{id}/{id}",
        "/{id}/{*id}",
        "/a{id}",
        "/{a}{b}",
        "/{a",
        "/a/*",
        "/:id",
        "/a?b",
        "/a\\b",
        "/a b",
        "/a\tb",
        "/a#b",
        "/.%2e/b",
        "/%2e",
        "/{*a}/",
        "/{a}/",
        "/{ab}/{a}",
        "/a\u{a0}b",
        "/a}",
    ];
    for path in paths {
        let route = json!({"name": "r", "path": path, "limits": []});
        agree(json!({"version": 1, "gateway": {"origin": "binding:A"}, "routes": [route]}), path);
    }
    for origin in [
        "https://a",
        "https://a/",
        "http://a.example:8081/base/",
        "http://[::1]:8081/a",
        "http://a:65535",
        "binding:A_1",
        "",
        "a",
        "ftp://a",
        "http://",
        "http:///a",
        "http://:80",
        "http://[::1",
        "http://a:",
        "http://a:0",
        "http://a:+1",
        "http://a:65536",
        "http://a?b",
        "http://a/b#c",
        "http://u:p@a",
        "http://a/b c",
        "http://a\\b",
        "binding:a-b",
        "http://a/\u{e9}",
        "http://a/{b}",
    ] {
        agree(json!({"version": 1, "gateway": {"origin": origin}}), origin);
    }
    for network in [
        "192.0.2.7",
        "10.0.0.0/8",
        "0.0.0.0/0",
        "2001:db8::/32",
        "::/0",
        "::1",
        "::ffff:10.0.0.0/104",
        "10.0.0",
        "10.0.0.0/",
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/+8",
        "10.0.0.0/08",
        "a/8",
        "",
        "10.0.0.0/8/8",
        "::1%eth0",
    ] {
        let exempt = json!({"exempt": {"ip": [network]}});
        agree(json!({"version": 1, "gateway": {"origin": "binding:A"}, "defaults": exempt}), network);
    }
}
