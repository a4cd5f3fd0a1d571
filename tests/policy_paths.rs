//! No spelling of a path gives another canonical path.

use std::borrow::Cow;

use proptest::prelude::*;
use sluicegate::policy::path::canonical;

/// A canonical path: segments that are no dots, without anything that is encoded or is a separator.
fn canonical_path() -> impl Strategy<Value = String> {
    let segment = "[a-zA-Z0-9._~:@!$&'()*+,;=é-]{1,6}".prop_filter("dots", |s| s != "." && s != "..");
    prop::collection::vec(segment, 0..6).prop_map(|segments| format!("/{}", segments.join("/")))
}

/// One way to write a byte of a path differently.
fn respelled(byte: u8, way: u8) -> String {
    match way % 4 {
        0 => format!("%{byte:02x}"),
        1 => format!("%{byte:02X}"),
        _ => String::new(),
    }
}

/// One way to write a separator differently.
fn separator(way: u8) -> &'static str {
    const WAYS: [&str; 14] = [
        "/",
        "//",
        "///",
        "/./",
        "/x/../",
        "/.//",
        "\\",
        "%2F",
        "%5c",
        "/%2e/",
        "/y/%2E%2e/",
        "/y/.%2e\\",
        "/a/b/../../",
        "/./././",
    ];
    WAYS[usize::from(way) % WAYS.len()]
}

fn spelled(path: &str, ways: &[u8]) -> String {
    let mut ways = ways.iter().copied().cycle();
    let mut out = String::new();
    for character in path.chars() {
        let way = ways.next().unwrap();
        let encoded: String = character.to_string().bytes().map(|byte| respelled(byte, way)).collect();
        match character {
            '/' => out.push_str(separator(way)),
            // `.` before and behind others is text; encoded or not it must stay.
            _ if encoded.is_empty() => out.push(character),
            _ => out.push_str(&encoded),
        }
    }
    out
}

proptest! {
    #[test]
    fn canonical_paths_stay_as_they_are(path in canonical_path()) {
        prop_assert!(matches!(canonical(&path), Cow::Borrowed(same) if same == path));
    }

    #[test]
    fn every_spelling_gives_the_canonical_path(
        path in canonical_path(),
        ways in prop::collection::vec(any::<u8>(), 1..40),
        behind in prop::sample::select(vec!["", "/", "//", "/.", "/x/..", "%2f", "\\"]),
    ) {
        let spelling = spelled(&path, &ways) + behind;
        prop_assert_eq!(canonical(&spelling), &*path, "{}", spelling);
    }

    /// Of anything at all: it begins with a slash and has no empty or dot segments.
    #[test]
    fn every_result_has_the_canonical_shape(raw in ".{0,40}|[/.%\\\\2eEfF5cC]{0,20}") {
        let path = canonical(&raw).into_owned();
        prop_assert!(path.starts_with('/'));
        let mut segments = path.strip_prefix('/').unwrap().split('/');
        prop_assert!(path == "/" || segments.all(|s| !matches!(s, "" | "." | "..")), "{}", path);
        prop_assert!(!path.contains('\\'));
    }

    /// Once is enough, except that an escape hidden behind `%25` is decoded once and not twice, and that U+FFFD is
    /// written by its bytes.
    #[test]
    fn idempotent(raw in ".{0,40}|[/.%\\\\2eEfF5cC]{0,20}") {
        let once = canonical(&raw).into_owned();
        prop_assume!(!once.contains(['%', '\u{fffd}']));
        prop_assert_eq!(canonical(&once), &*once);
    }
}
