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
    if is_canonical(raw) { Cow::Borrowed(raw) } else { Cow::Owned(rebuilt(raw)) }
}

/// The canonical path in the other reading there is of `raw`, where that differs from `canonical`: dot segments are
/// removed before slashes are collapsed, each `..` taking one segment, an empty one too (URL standard, section 4.4; RFC
/// 3986 section 5.2.4), and an encoded slash is a character of its segment, `%2F` or `%5C` here.
///
/// `canonical` is what [`canonical`] made of `raw`; where it borrowed that, there is one reading.
#[must_use]
pub fn other_reading(raw: &str, canonical: &str) -> Option<String> {
    if std::ptr::eq(raw, canonical) {
        return None;
    }
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for segment in raw.as_bytes().split(|byte| matches!(byte, b'/' | b'\\')).skip(1) {
        match decoded(segment).as_slice() {
            b"." => {}
            b".." => drop(kept.pop()),
            text => kept.push(slashes_encoded(text)),
        }
    }
    let mut path = Vec::with_capacity(raw.len());
    for segment in kept.iter().filter(|segment| !segment.is_empty()) {
        path.push(b'/');
        path.extend_from_slice(segment);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Some(octets::to_text(path)).filter(|other| other != canonical)
}

fn slashes_encoded(segment: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(segment.len());
    for byte in segment {
        match byte {
            b'/' => out.extend_from_slice(b"%2F"),
            b'\\' => out.extend_from_slice(b"%5C"),
            other => out.push(*other),
        }
    }
    out
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

fn rebuilt(raw: &str) -> String {
    let decoded = decoded(raw.as_bytes());
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|byte| matches!(byte, b'/' | b'\\')) {
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let mut path = Vec::with_capacity(decoded.len().saturating_add(1));
    for segment in &kept {
        path.push(b'/');
        path.extend_from_slice(segment);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    octets::to_text(path)
}

fn decoded(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, behind)) = rest.split_first() {
        let escaped = match (byte, behind) {
            (b'%', [high, low, after @ ..]) => hex(*high).zip(hex(*low)).map(|(h, l)| (h << 4 | l, after)),
            _ => None,
        };
        let (byte, behind) = escaped.unwrap_or((byte, behind));
        out.push(byte);
        rest = behind;
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
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
}
