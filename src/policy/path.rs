//! What route matching sees of a request's path.

use std::borrow::Cow;

use super::octets;

/// The canonical path: no spelling of a URL that an origin could take for the same thing dodges a limit.
///
/// Percent-escapes are decoded once (an escape that is none stays; see [`octets`] for bytes that are no UTF-8), `\`
/// counts as `/`, and so do `%2F` and `%5C`; slashes are collapsed, `.` and `..` removed (never above the root),
/// a trailing slash dropped. The usual path has nothing of that and is borrowed as it is.
///
/// `raw` is the path alone, without query or fragment.
#[must_use]
pub fn canonical(raw: &str) -> Cow<'_, str> {
    if is_canonical(raw) { Cow::Borrowed(raw) } else { Cow::Owned(read(raw.as_bytes(), &USUAL)) }
}

/// The canonical path in the other reading there is of `raw`, where that differs from `canonical`: dot segments are
/// removed before slashes are collapsed, each `..` taking one segment, an empty one too (URL standard, section 4.4; RFC
/// 3986 section 5.2.4), and an encoded slash is a character of its segment, `%2F` or `%5C` here.
///
/// `canonical` is what [`canonical`] made of `raw`; where it borrowed that, there is one reading.
#[must_use]
pub fn other_reading(raw: &str, canonical: &str) -> Option<String> {
    if std::ptr::eq(raw, canonical) || !can_differ(raw.as_bytes()) {
        return None;
    }
    let arrives = without_dots(raw.as_bytes(), &URL);
    Some(read(&arrives, &Reader { encoded: false, ..USUAL })).filter(|other| other != canonical)
}

/// What else an origin may make of `raw`, which it gets without dot segments, or without those that are not encoded, in
/// the canonical form of [`other_reading`]. May hold what that and [`canonical`] say, and one path more than once.
#[must_use]
pub fn odd_readings(raw: &str) -> Vec<String> {
    if !can_differ(raw.as_bytes()) {
        return Vec::new();
    }
    let mut found = Vec::with_capacity(16);
    for by in [URL, KEPT] {
        let arrives = without_dots(raw.as_bytes(), &by);
        for bits in 0..8_u8 {
            let reader =
                Reader { backslash: bits & 1 != 0, encoded: bits & 2 != 0, empty_counts: bits & 4 != 0 };
            found.push(read(&arrives, &reader));
        }
    }
    found
}

/// How a path is read.
struct Reader {
    /// `\` parts segments.
    backslash: bool,
    /// What parts them does so encoded, too.
    encoded: bool,
    /// `..` takes an empty segment as any other; else slashes are collapsed first.
    empty_counts: bool,
}

/// As routes are matched.
const USUAL: Reader = Reader { backslash: true, encoded: true, empty_counts: false };

/// What removes dot segments on the way to the origin.
struct Remover {
    /// `\` parts segments.
    backslash: bool,
    /// Encoded dots are dots.
    encoded: bool,
}

/// `fetch()` of a URL that is given as text (URL standard, section 4.4).
const URL: Remover = Remover { backslash: true, encoded: true };

/// The platform, on a URL that stays in its request.
const KEPT: Remover = Remover { backslash: false, encoded: false };

/// Whether readers may disagree, as far as that can be seen at once.
fn can_differ(raw: &[u8]) -> bool {
    let plain = |pair: &[u8]| matches!(pair, [b'\\', _] | [_, b'\\'] | [b'/', b'.']);
    let encoded =
        |three: &[u8]| matches!(three, [b'%', b'2', b'e' | b'E' | b'f' | b'F'] | [b'%', b'5', b'c' | b'C']);
    raw.windows(2).any(plain) || raw.windows(3).any(encoded)
}

/// A path without dot segments, each `..` taking one segment, an empty one too; its other bytes as they are.
#[inline(never)]
fn without_dots(raw: &[u8], by: &Remover) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in raw.split(|byte| *byte == b'/' || by.backslash && *byte == b'\\').skip(1) {
        match if by.encoded { decoded(segment) } else { segment.to_vec() }.as_slice() {
            b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    joined(&kept)
}

fn joined(segments: &[&[u8]]) -> Vec<u8> {
    let mut path = Vec::new();
    for segment in segments {
        path.push(b'/');
        path.extend_from_slice(segment);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    path
}

#[inline(never)]
fn read(raw: &[u8], by: &Reader) -> String {
    let mut plain = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((byte, escaped, behind)) = next(rest) {
        let parts = byte == b'/' || by.backslash && byte == b'\\';
        match byte {
            _ if parts && (by.encoded || !escaped) => plain.push(b'/'),
            b'/' => plain.extend_from_slice(b"%2F"),
            b'\\' => plain.extend_from_slice(b"%5C"),
            other => plain.push(other),
        }
        rest = behind;
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in plain.split(|byte| *byte == b'/').skip(usize::from(plain.first() == Some(&b'/'))) {
        match segment {
            b"" if !by.empty_counts => {}
            b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    kept.retain(|segment| !segment.is_empty());
    octets::to_text(joined(&kept))
}

fn is_canonical(raw: &str) -> bool {
    let Some(rest) = raw.strip_prefix('/') else {
        return false;
    };
    if rest.is_empty() {
        return true;
    }
    // One pass over the bytes: every request pays for it.
    let mut segment = Segment::Empty;
    for byte in rest.bytes() {
        segment = match (byte, segment) {
            (b'%' | b'\\', _) => return false,
            // Perhaps U+FFFD, which has a spelling of its own.
            (0xEF, _) => return false,
            (b'/', Segment::Text) => Segment::Empty,
            (b'/', _) => return false,
            (b'.', Segment::Empty) => Segment::Dot,
            (b'.', Segment::Dot) => Segment::DotDot,
            _ => Segment::Text,
        };
    }
    segment == Segment::Text
}

/// What the segment holds so far.
#[derive(Clone, Copy, PartialEq)]
enum Segment {
    Empty,
    Dot,
    DotDot,
    Text,
}

fn decoded(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((byte, _, behind)) = next(rest) {
        out.push(byte);
        rest = behind;
    }
    out
}

/// The first byte, decoded, whether it was escaped, and what stands behind it.
fn next(raw: &[u8]) -> Option<(u8, bool, &[u8])> {
    if let [b'%', high, low, behind @ ..] = raw
        && let Some((high, low)) = hex(*high).zip(hex(*low))
    {
        return Some((high << 4 | low, true, behind));
    }
    raw.split_first().map(|(byte, behind)| (*byte, false, behind))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn borrowed_when_nothing_changes() {
        for path in ["/", "/a", "/a/b.c", "/v1/chat/..x", "/a/.well-known/x", "/...", "/a:b@c;d=e", "/ä"] {
            assert!(matches!(canonical(path), Cow::Borrowed(same) if same == path), "{path}");
        }
    }

    #[test]
    fn spellings() {
        let rows = [
            ("", "/"),
            ("a", "/a"),
            ("*", "/*"),
            ("//", "/"),
            ("/a/", "/a"),
            ("/a//b///c", "/a/b/c"),
            ("/a/./b/.", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("/a\\b", "/a/b"),
            ("/%61", "/a"),
            ("/a%2Fb", "/a/b"),
            ("/a%2fb", "/a/b"),
            ("/a%5cb", "/a/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/a%2F..%2Fb", "/b"),
            ("/%252e", "/%2e"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%zz", "/%zz"),
            ("/%%61", "/%a"),
            ("/caf%C3%A9", "/café"),
            ("/%FF", "/\u{fffd}FF"),
            ("/\u{fffd}", "/\u{fffd}EF\u{fffd}BF\u{fffd}BD"),
            ("/%EF%BF%BD", "/\u{fffd}EF\u{fffd}BF\u{fffd}BD"),
            ("/\u{ff01}", "/\u{ff01}"),
            ("/a%00", "/a\0"),
        ];
        for (raw, expected) in rows {
            assert_eq!(canonical(raw), expected, "{raw}");
        }
    }

    #[test]
    fn readings() {
        let rows = [
            ("/a//../b", Some("/a/b")),
            ("/a/x//..//../b", Some("/a/x/b")),
            ("/a//%2e%2E/b", Some("/a/b")),
            ("/a/\\/../b", Some("/a/b")),
            ("/v1/a%2Fb/chat", Some("/v1/a%2Fb/chat")),
            ("/v1/a%5cb", Some("/v1/a%5Cb")),
            ("/hello%2f", Some("/hello%2F")),
            ("/a%2F..%2Fb", Some("/a%2F..%2Fb")),
            ("/a%2F../b", Some("/a%2F../b")),
            ("/a", None),
            ("/a//b", None),
            ("//../a", None),
            ("/a/../b", None),
            ("/a/.//b/", None),
            ("/%68i/%2e%2e", None),
            ("/a/..", None),
            ("/a\\b", None),
        ];
        for (raw, expected) in rows {
            assert_eq!(other_reading(raw, &canonical(raw)).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_make_no_other_reading() {
        for raw in ["/a/caf%E9", "/a/caf%EF%BF%BD", "/a/%ff%fe"] {
            assert_eq!(other_reading(raw, &canonical(raw)), None, "{raw}");
        }
        let of = |raw: &str| other_reading(raw, &canonical(raw));
        assert_ne!(of("/a%2Fb/%E9"), of("/a%2Fb/%E8"));
    }

    #[test]
    fn dot_segments_that_are_removed_on_the_way() {
        for (raw, by_url, kept) in [
            ("/a/./../b", "/b", "/b"),
            ("/a//../b", "/a/b", "/a/b"),
            ("/a/%2E/../b", "/b", "/a/b"),
            ("/a\\..\\b", "/b", "/a\\..\\b"),
            ("/..", "/", "/"),
        ] {
            let arrives = [URL, KEPT].map(|by| without_dots(raw.as_bytes(), &by));
            assert_eq!(arrives, [by_url.as_bytes(), kept.as_bytes()], "{raw}");
        }
    }

    #[test]
    fn odd_ones() {
        for (raw, expected) in [
            ("/v1//../chat%2F", "/v1/chat"),
            ("/chat/%2e/..", "/chat"),
            ("/chat/%2E%2e/..", "/chat"),
            ("/x/a%2F%2F..%2Fb", "/x/a/b"),
            ("/v1/x\\..\\..\\y", "/v1/x%5C..%5C..%5Cy"),
            ("/v1/x%5C..%2Fy", "/v1/x%5C../y"),
        ] {
            assert!(odd_readings(raw).iter().any(|path| path == expected), "{raw}: {:?}", odd_readings(raw));
        }
        // Each way of reading, by itself and with the others.
        let mut all = odd_readings("/a\\b//..%2Fc");
        all.sort();
        all.dedup();
        let expected = ["/a%5Cb/..%2Fc", "/a%5Cb/c", "/a/b/..%2Fc", "/a/b/c", "/a/c", "/c"];
        assert_eq!(all, expected);
        for raw in ["/", "/a//b/", "/caf%C3%A9", "/a%20b", "/%zz"] {
            assert_eq!(odd_readings(raw), Vec::<String>::new(), "{raw}");
        }
    }

    proptest! {
        /// Whoever removes dot segments on the way, what arrives has no reading that what was sent has not.
        #[test]
        fn what_arrives_reads_like_what_was_sent(
            tokens in prop::collection::vec(
                prop::sample::select(vec!["/", "//", ".", "..", "/../", "%2e", "%2E%2e", "%2F", "%5c", "\\", "a", "b", "%"]),
                0..12,
            ),
        ) {
            let raw = format!("/{}", tokens.concat());
            let mut sent = odd_readings(&raw);
            sent.push(canonical(&raw).into_owned());
            for by in [URL, KEPT] {
                let arrives = String::from_utf8(without_dots(raw.as_bytes(), &by)).unwrap();
                let usual = canonical(&arrives);
                let other = other_reading(&arrives, &usual).unwrap_or_else(|| usual.clone().into_owned());
                for path in [usual.into_owned(), other] {
                    prop_assert!(sent.contains(&path), "{raw} arrives as {arrives}, which is {path}, not one of {sent:?}");
                }
            }
        }
    }
}
