//! URLs taken apart.

use sluicegate::gateway::bounds;
use sluicegate::subject::request::{canonical_host, split_url};

use crate::drive::each;
use crate::mutate::Corpus;

#[test]
fn urls() {
    let inputs = vec![
        "http://127.0.0.1:8787/",
        "https://user:pw@Api.Example.com:8443/a%2Fb//c/./d?x=%7B&y",
        "http://[::1]:8787/x?",
        "http://[2001:db8::1]/",
        "http://localhost",
        "http://a?x=/b",
        "http://a#/b?c",
        "http://a*",
        "https://api.example.com./v1?q=http://b/c?d#e",
        "/relative?x",
    ];
    let corpus = Corpus::of(inputs, &["/", "?", "#", "@", ":", "://", "[", "]", "%2F", "\\", " ", "é"]);
    each("urls", 40_000, |random| {
        let url = corpus.text(random);
        let parts = split_url(&url);
        assert!(parts.path.starts_with('/'), "{url:?}");
        assert!(!parts.host.contains(['/', '?', '#', '@']), "{url:?}: {:?}", parts.host);
        assert!(!parts.path.contains(['?', '#']) && !parts.query.contains('#'), "{url:?}");
        // Each part stands in the URL, in that order, and a path that was not there is the root.
        let host = url.find(parts.host).expect("a host");
        let path = url[host..].find(parts.path).map(|at| host + at);
        assert!(path.is_some() || parts.path == "/", "{url:?}");
        assert!(url[host..].contains(parts.query), "{url:?}");
        let host = canonical_host(parts.host);
        assert!(!host.bytes().any(|byte| byte.is_ascii_uppercase()));
        // A request that goes on is looked up by the path that the origin gets: what stands from the first slash on.
        if url.contains("://") && bounds::refused(&url).is_none() {
            let rest = url.split_once("://").unwrap().1;
            let sent = rest.find('/').map_or("/", |at| &rest[at..]);
            let sent = sent.split(['?', '#']).next().unwrap();
            assert_eq!(parts.path, sent, "{url:?}");
        }
    });
}

#[test]
fn built_urls() {
    each("built_urls", 10_000, |random| {
        let host = random.pick(&["a", "Api.Example.com", "[::1]", "10.0.0.1", "a."]);
        let user = random.pick(&["", "u@", "u:p@"]);
        let port = random.pick(&["", ":1", ":65535"]);
        let path = random.pick(&["/", "/a", "//a:b@c/%2F", "/@:1"]);
        let query = random.pick(&["", "x", "x=/?@:", "a=1&b"]);
        let mark = if query.is_empty() && random.percent(50) { "" } else { "?" };
        let fragment = random.pick(&["", "#", "#/x?y"]);
        let url = format!("https://{user}{host}{port}{path}{mark}{query}{fragment}");
        let parts = split_url(&url);
        assert_eq!((parts.host, parts.path, parts.query), (host, path, query), "{url}");
    });
}
