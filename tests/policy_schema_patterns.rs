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
    for origin in [
        "*",
        "https://a",
        "HTTPS://App.Example.com:8443",
        "http://[::1]:3000",
        "capacitor://localhost",
        "http://a:443",
        "https://a:80",
        "http://a:65535",
        "x+y://a_b.c",
        "",
        "null",
        "a",
        "1x://a",
        "https://",
        "https://*.example.com",
        "https://a.",
        "https://u@a",
        "https://a/",
        "https://a/b",
        "https://a?b",
        "https://a#b",
        "https://a:",
        "https://a:0",
        "https://a:080",
        "https://a:65536",
        "https://a:+1",
        "https://a:443",
        "HTTPS://a:443",
        "http://a:80",
        "Http://[::1]:80",
        "https://[::1",
        "https://a b",
    ] {
        agree(json!({"version": 1, "gateway": {"origin": "binding:A", "cors": [origin]}}), origin);
    }
    for url in [
        "https://issuer.example",
        "https://issuer.example/.well-known/jwks.json",
        "https://issuer.example:8443/keys?tenant=a",
        "https://issuer.example?a",
        "https://[2001:db8::1]/keys",
        "http://127.0.0.1:8080/jwks",
        "http://127.9.9.9/jwks",
        "http://LocalHost:80/jwks",
        "http://[::1]:1/jwks",
        "https://a:080/jwks",
        "",
        "issuer.example",
        "HTTPS://issuer.example",
        "ftp://issuer.example",
        "http://issuer.example/jwks",
        "http://127.0.0.1.example/jwks",
        "http://127.1/jwks",
        "http://localhost.example/jwks",
        "http://127.0.0.1@issuer.example/jwks",
        "http://[::2]/jwks",
        "https://",
        "https:///jwks",
        "https://?x",
        "https://a:/jwks",
        "https://a:0/jwks",
        "https://a:65536",
        "https://u:p@a/jwks",
        "https://a/jwks#x",
        "https://a#x",
        "https://a/jwks x",
        "https://a\\@b/jwks",
        "https://a/{b}",
        "https://\u{e4}/jwks",
        "https://a/\u{e4}",
    ] {
        let limit = json!({"name": "l", "algorithm": "fixed-window", "limit": 1, "window": "1s", "key": ["jwt:sub"],
            "on_store_error": "open"});
        let jwt = json!({"algorithms": ["RS256"], "jwks": url});
        agree(json!({"version": 1, "gateway": {"origin": "binding:A"}, "jwt": jwt, "limits": [limit]}), url);
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

/// Wherever a claim may stand, it needs `[jwt]`, and `[jwt]` needs it: for both.
#[test]
fn a_claim_anywhere_goes_with_tokens() {
    let schema =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("policy.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let places = [
        ("/limits/1/key", json!(["ip", "jwt:sub"])),
        ("/limits/1/plan", json!("jwt:plan")),
        ("/limits/1/idempotency", json!("jwt:jti")),
        ("/limits/1/exempt", json!({"country": "CH", "jwt:role": "admin"})),
        ("/defaults/exempt", json!({"jwt:role": "admin"})),
        ("/limits/1/shadow", json!(true)),
    ];
    for (place, value) in places {
        for tokens in [false, true] {
            let limit = |name: &str| {
                json!({"name": name, "algorithm": "fixed-window", "limit": 1, "window": "1s", "key": ["ip"],
                    "plan": "ip", "plans": {"a": 1}, "on_store_error": "open"})
            };
            let mut policy = json!({"version": 1, "gateway": {"origin": "binding:A"}, "defaults": {},
                "limits": [limit("a"), limit("b")]});
            let (table, field) = place.rsplit_once('/').unwrap();
            policy.pointer_mut(table).unwrap()[field] = value.clone();
            if tokens {
                policy["jwt"] = json!({"algorithms": ["HS256"], "secret": "S"});
            }
            let right = tokens == value.to_string().contains("jwt:");
            assert_eq!(read_json(&policy.to_string()).is_ok(), right, "the parser: {place}, [jwt]: {tokens}");
            assert_eq!(validator.is_valid(&policy), right, "the schema: {place}, [jwt]: {tokens}");
        }
    }
}
