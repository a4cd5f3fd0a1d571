//! Paths: one form for every spelling, and one spelling for no two paths.

use sluicegate::policy::document::read_json;
use sluicegate::policy::path::canonical;

use crate::drive::{Random, each};
use crate::mutate::Corpus;

const TOKENS: &[&str] = &[
    "/",
    "//",
    "/./",
    "/../",
    "\\",
    "%2F",
    "%5c",
    "%2e",
    "%2E%2e",
    "%",
    "%25",
    "%ff",
    "%EF%BF%BD",
    "\u{fffd}",
    ".",
    "..",
];

#[test]
fn paths() {
    let corpus = Corpus::lines(include_str!("corpus/paths.txt"), TOKENS);
    each("paths", 40_000, |random| {
        let raw = corpus.text(random);
        let path = canonical(&raw);
        assert!(path.starts_with('/'), "{raw:?} {path:?}");
        assert!(!path.contains('\\'), "{raw:?} {path:?}");
        let sound = |segment: &str| !matches!(segment, "" | "." | "..");
        assert!(path == "/" || path[1..].split('/').all(sound), "{raw:?} {path:?}");
        // What was hidden behind an escape is decoded once; U+FFFD is written by its bytes.
        if !path.contains(['%', '\u{fffd}']) {
            assert_eq!(canonical(&path), path, "{raw:?}");
        }
    });
}

/// Segments as bytes, none of which is a separator; no segment is empty or dots.
fn segments(random: &mut Random) -> Vec<Vec<u8>> {
    let words: [&[u8]; 9] =
        [b"v1", b"chat", b"x", b"caf\xC3\xA9", b"caf\xE9", b"\xEF\xBF\xBD", b"\xFF", b"%2e", b"a.b"];
    let segment = |random: &mut Random| {
        let mut bytes = random.pick(&words).to_vec();
        if random.percent(40) {
            bytes.push(random.next() as u8);
        }
        bytes.retain(|byte| !b"/\\".contains(byte));
        if bytes.is_empty() || bytes.iter().all(|byte| *byte == b'.') { b"z".to_vec() } else { bytes }
    };
    (0..random.between(0, 4)).map(|_| segment(random)).collect()
}

/// One of the ways to send these segments.
fn spelled(random: &mut Random, segments: &[Vec<u8>]) -> String {
    let separators = ["/", "//", "/./", "/x/../", "\\", "%2F", "%5c", "/%2e/", "/y/.%2E\\"];
    let mut raw = String::new();
    for segment in segments {
        raw.push_str(if random.percent(70) { "/" } else { random.pick(&separators) });
        let plain = std::str::from_utf8(segment).is_ok() && random.percent(60);
        match std::str::from_utf8(segment).ok().filter(|_| plain) {
            Some(text) => raw.push_str(&text.replace('%', "%25")),
            None => {
                for byte in segment {
                    let plain = byte.is_ascii_graphic() && *byte != b'%' && random.percent(50);
                    raw.push_str(&match plain {
                        true => char::from(*byte).to_string(),
                        false if random.percent(50) => format!("%{byte:02x}"),
                        false => format!("%{byte:02X}"),
                    });
                }
            }
        }
    }
    raw + random.pick(&["", "/", "//", "/.", "/x/..", "%2f"])
}

#[test]
fn spellings() {
    let policy = r#"{"version":1,"gateway":{"origin":"http://a"},"routes":[
        {"name":"chat","path":"/v1/chat","limits":[]},
        {"name":"cafe","path":"/caf%C3%A9/{id}","limits":[]},
        {"name":"latin","path":"/caf%E9","limits":[]},
        {"name":"one","path":"/{id}","limits":[]},
        {"name":"rest","path":"/v1/{*rest}","limits":[]}]}"#;
    let router = read_json(policy).unwrap().router;
    each("spellings", 40_000, |random| {
        let one = segments(random);
        let (a, b) = (spelled(random, &one), spelled(random, &one));
        let (x, y) = (canonical(&a), canonical(&b));
        assert_eq!(x, y, "{a:?} and {b:?}");
        let found = |path| {
            router.match_route("GET", "a", path).map(|found| (found.index, format!("{:?}", found.params)))
        };
        assert_eq!(found(&x), found(&y));
        let other = segments(random);
        let c = spelled(random, &other);
        assert_eq!(canonical(&c) == x, one == other, "{a:?} and {c:?}");
    });
}
