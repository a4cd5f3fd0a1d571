//! Values taken out of cookies and queries, beside readers that know nothing but the grammar.

use std::borrow::Cow;

use sluicegate::policy::{KeyPart, OnMissingKey};
use sluicegate::subject::{Attributes, Digester, HttpRequest, LONGEST_VALUE, Platform, Who, identify};

use crate::drive::each;
use crate::mutate::Corpus;

struct Headers<'a>(&'a [(&'a str, &'a str)]);

impl Platform for Headers<'_> {
    fn header(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    fn country(&self) -> Option<String> {
        None
    }

    fn asn(&self) -> Option<String> {
        None
    }
}

fn request<'a>(platform: &'a dyn Platform, query: &'a str) -> HttpRequest<'a> {
    HttpRequest {
        method: "GET",
        host: Cow::Borrowed("a"),
        path: Cow::Borrowed("/"),
        query,
        route: "r",
        params: Vec::new(),
        platform,
        client_ip: "cf-connecting-ip",
        ipv6_prefix: 64,
        claims: None,
    }
}

/// What the first cookie of a name holds, read character by character.
fn cookie(header: &str, name: &str) -> Option<String> {
    let mut pair = (String::new(), None::<String>);
    let mut pairs = Vec::new();
    for character in header.chars().chain([';']) {
        match (character, &mut pair) {
            (';', _) => pairs.push(std::mem::take(&mut pair)),
            ('=', (_, value @ None)) => *value = Some(String::new()),
            (c, (_, Some(value))) => value.push(c),
            (c, (key, None)) => key.push(c),
        }
    }
    let (_, value) = pairs.into_iter().find(|(key, value)| value.is_some() && key.trim() == name)?;
    let value = value?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[test]
fn cookies() {
    let inputs = vec![
        "sid=1",
        "a=b; sid=1; sid=2",
        "asid=1;sid=\"x y\"",
        "sid=; sid=2",
        "sid",
        "sid==x=",
        "sid=caf\u{fffd}",
    ];
    let corpus = Corpus::of(inputs, &["sid", "=", ";", "; ", "\"", " ", "sid=", "é", "\u{fffd}", ","]);
    let part = KeyPart::Cookie("sid".to_owned());
    each("cookies", 40_000, |random| {
        let header = corpus.text(random);
        let headers = [("cookie", header.as_str())];
        let platform = Headers(&headers);
        let read = request(&platform, "").value(&part).map(Cow::into_owned);
        let expected =
            cookie(&header, "sid").filter(|value| !value.trim().is_empty() && !value.contains('\u{fffd}'));
        assert_eq!(read, expected, "{header:?}");
    });
}

/// The bytes of the first parameter of a name, decoded by index.
fn parameter(query: &str, name: &[u8]) -> Option<Vec<u8>> {
    let bytes = |text: &[u8]| {
        let mut out = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let digit = |offset: usize| text.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
            match (text[at], digit(1), digit(2)) {
                (b'%', Some(high), Some(low)) => {
                    out.push((high * 16 + low) as u8);
                    at += 2;
                }
                (b'+', ..) => out.push(b' '),
                (byte, ..) => out.push(byte),
            }
            at += 1;
        }
        out
    };
    query.as_bytes().split(|byte| *byte == b'&').find_map(|pair| {
        let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (bytes(&pair[..end]) == name).then(|| bytes(pair.get(end + 1..).unwrap_or_default()))
    })
}

#[test]
fn queries() {
    let inputs = vec![
        "key=k",
        "a=1&key=%6B&key=z",
        "k%65y=k+v%20w",
        "key",
        "key=",
        "key=%FF",
        "key=%fe&x",
        "key=caf%C3%A9",
        "key=%",
        "key==&",
    ];
    let corpus =
        Corpus::of(inputs, &["key", "key=", "&", "=", "%", "%FF", "%EF%BF%BD", "+", "%2B", "%00", "é"]);
    let part = KeyPart::Query("key".to_owned());
    let digester = Digester::new(None);
    each("queries", 40_000, |random| {
        let (one, other) = (corpus.text(random), corpus.text(random));
        let platform = Headers(&[]);
        let read = |query: &str| request(&platform, query).value(&part).map(Cow::into_owned);
        let bytes = |query: &str| parameter(query, b"key");
        match (read(&one), bytes(&one)) {
            (Some(text), Some(bytes)) if !text.contains('\u{fffd}') => {
                assert_eq!(text.as_bytes(), bytes, "{one:?}")
            }
            (Some(_), Some(bytes)) => {
                assert!(String::from_utf8_lossy(&bytes).contains('\u{fffd}'), "{one:?}");
            }
            (None, bytes) => {
                let empty = bytes.is_none_or(|bytes| String::from_utf8_lossy(&bytes).trim().is_empty());
                assert!(empty, "{one:?}");
            }
            (Some(_), None) => panic!("{one:?} has no such parameter"),
        }
        // Two values are one subject if their bytes are the same, and only then.
        if read(&one).is_some() && read(&other).is_some() {
            let who = |query: &str| {
                identify(
                    std::slice::from_ref(&part),
                    OnMissingKey::Deny,
                    &request(&platform, query),
                    &digester,
                )
            };
            assert_eq!(who(&one) == who(&other), bytes(&one) == bytes(&other), "{one:?} {other:?}");
        }
    });
}

/// Header values of any kind come to a digest of one length, a missing part or a refusal.
#[test]
fn headers() {
    let corpus = Corpus::of(
        vec!["tenant", "Bearer abc.def", "a, b", "", " ", "caf\u{fffd}"],
        &["\u{fffd}", ",", " ", "\"", "é", "\n"],
    );
    let part = [KeyPart::Header("x".to_owned())];
    let digester = Digester::new(Some("secret"));
    each("headers", 10_000, |random| {
        let mut value = corpus.text(random);
        if random.percent(20) {
            value = value.repeat(random.between(1, 4000) as usize);
        }
        let headers = [("x", value.as_str())];
        let platform = Headers(&headers);
        let who = identify(&part, OnMissingKey::Deny, &request(&platform, ""), &digester);
        let expected = if value.trim().is_empty() || value.contains('\u{fffd}') {
            Who::Missing(part[0].clone())
        } else if value.len() > LONGEST_VALUE {
            Who::TooLong(part[0].clone())
        } else {
            let Who::Subject(subject) = &who else { panic!("{who:?}") };
            assert!(
                subject.len() == 20
                    && subject.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
            );
            return;
        };
        assert_eq!(who, expected);
    });
}
