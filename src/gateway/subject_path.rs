//! A subject as admin paths name it: the key's parts in order, each percent-encoded, joined by `,`; `-` for a part that
//! holds nothing, as `global` does. A value that is itself `-` is written `%2D`, a comma in a value `%2C`.

use std::rc::Rc;

use percent_encoding::percent_decode_str;

use super::given::{self, Given};
use crate::policy::{KeyPart, Limit};
use crate::subject::{Digester, LONGEST_VALUE, Who, identify};

/// A part that holds nothing.
const NOTHING: &str = "-";

/// Most bytes of a subject in a path: header values are no longer than 16 KB in all, and a byte takes three escaped.
const LONGEST: usize = 49_152;

/// The subject of a limit, in the form that its keys end with.
///
/// `text` is one path segment as it was sent, still encoded.
///
/// # Errors
/// What is wrong with the text, and what would be right.
pub fn subject(limit: &Limit, text: &str, ipv6_prefix: u8, digester: &Digester) -> Result<Rc<str>, String> {
    if text.len() > LONGEST {
        return Err(format!("the subject is longer than {LONGEST} bytes; no request could send it"));
    }
    let given = read(&limit.key, text, ipv6_prefix).map_err(|wrong| {
        format!("subject: {wrong}; limit {} counts by {}", limit.name, pattern(&limit.key))
    })?;
    match identify(&limit.key, limit.on_missing_key, &given, digester) {
        Who::Subject(subject) => Ok(subject.into()),
        Who::Skipped => Err(format!(
            "limit {} counts no request without all of {}, so there is nothing to find for this subject",
            limit.name,
            pattern(&limit.key)
        )),
        Who::TooLong(part) => {
            Err(format!("subject: {part} is longer than {LONGEST_VALUE} bytes; no request could send it"))
        }
        Who::Missing(part) => Err(format!(
            "limit {} counts by {part} and refuses requests without it, so it cannot be `{NOTHING}`; write {}",
            limit.name,
            pattern(&limit.key)
        )),
    }
}

fn read(key: &[KeyPart], text: &str, ipv6_prefix: u8) -> Result<Given, String> {
    let values: Vec<&str> = text.split(',').collect();
    if values.len() != key.len() {
        return Err(format!(
            "{} {} written, {} wanted",
            values.len(),
            if values.len() == 1 { "part is" } else { "parts are" },
            key.len()
        ));
    }
    let mut given = Given::default();
    for (part, value) in key.iter().zip(values) {
        match (part, value) {
            (KeyPart::Global, NOTHING) => {}
            (KeyPart::Global, _) => return Err(format!("`global` holds nothing: write `{NOTHING}`")),
            (_, NOTHING) => {}
            (part, "") => {
                return Err(format!("{part} is empty: write `{NOTHING}` for a part that holds nothing"));
            }
            (part, value) => given.set(part.clone(), &decoded(part, value)?, ipv6_prefix)?,
        }
    }
    Ok(given)
}

/// The value behind its percent-encoding, which must be whole and, unless a URL holds it, UTF-8: what is guessed at is
/// another subject.
fn decoded(part: &KeyPart, text: &str) -> Result<String, String> {
    let whole = text.split('%').skip(1).all(|behind| {
        let mut digits = behind.bytes();
        let mut hexadecimal = || digits.next().is_some_and(|digit| digit.is_ascii_hexdigit());
        hexadecimal() && hexadecimal()
    });
    if !whole {
        return Err(format!(
            "{part} holds a `%` without two hexadecimal digits: write `%25` for a percent sign"
        ));
    }
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    if std::str::from_utf8(&bytes).is_err() && !matches!(part, KeyPart::Query(_) | KeyPart::Param(_)) {
        return Err(format!("{part} is not UTF-8 when decoded: encode the bytes of its UTF-8 text"));
    }
    let value = given::text(part, &bytes);
    if value.trim().is_empty() {
        return Err(format!("{part} is blank: write `{NOTHING}` for a part that holds nothing"));
    }
    Ok(value.into_owned())
}

/// How a subject is written, such as `{ip},{header:x-tenant}`.
fn pattern(key: &[KeyPart]) -> String {
    let parts = key.iter().map(|part| match part {
        KeyPart::Global => NOTHING.to_owned(),
        part => format!("{{{part}}}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::document::read_json;

    fn limit(key: &str, on_missing_key: &str) -> Limit {
        let text = format!(
            r#"{{"version":1,"gateway":{{"origin":"http://o.invalid"}},"limits":[{{"name":"a","algorithm":"fixed-window",
            "limit":5,"window":"1m","key":{key},"on_missing_key":"{on_missing_key}","on_store_error":"open"}}]}}"#
        );
        read_json(&text).unwrap().limits.remove(0)
    }

    fn of(key: &str, text: &str) -> Result<Rc<str>, String> {
        subject(&limit(key, "deny"), text, 64, &Digester::new(None))
    }

    /// The subject of a request that carries these values.
    fn sent(key: &str, values: &[&str]) -> Rc<str> {
        let limit = limit(key, "share");
        let mut given = Given::default();
        for (part, value) in limit.key.iter().zip(values) {
            given.set(part.clone(), value, 64).unwrap();
        }
        match identify(&limit.key, limit.on_missing_key, &given, &Digester::new(None)) {
            Who::Subject(subject) => subject.into(),
            other => panic!("{other:?}"),
        }
    }

    const TENANT: &str = r#"["header:x-tenant"]"#;
    const PAIR: &str = r#"["header:x-tenant","query:q"]"#;

    #[test]
    fn is_the_subject_of_a_request_with_these_values() {
        for (text, value) in [
            ("acme", "acme"),
            ("a%2Cb", "a,b"),
            ("a%2fb", "a/b"),
            ("100%25", "100%"),
            ("a+b", "a+b"),
            ("%2D", "-"),
            ("--", "--"),
            ("%E2%82%AC", "€"),
            ("€", "€"),
            ("..", ".."),
            ("%2e%2e", ".."),
            ("a%20b", "a b"),
            ("%00", "\0"),
        ] {
            assert_eq!(of(TENANT, text), Ok(sent(TENANT, &[value])), "{text}");
        }
        let long = "x".repeat(LONGEST_VALUE);
        assert_eq!(of(TENANT, &long), Ok(sent(TENANT, &[&long])));
        assert!(
            of(TENANT, &format!("{long}x")).is_err_and(|detail| detail.contains("longer than 8192 bytes"))
        );
        assert_eq!(of(PAIR, "a%2Cb,c"), Ok(sent(PAIR, &["a,b", "c"])));
        assert_ne!(of(PAIR, "a%2Cb,c"), of(PAIR, "a,b%2Cc"));
    }

    #[test]
    fn addresses_and_hosts_have_one_form() {
        for text in ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1%3A80", "%5B::ffff:c000:201%5D"] {
            assert_eq!(of(r#"["ip"]"#, text).as_deref(), Ok("192.0.2.1"), "{text}");
        }
        assert_eq!(of(r#"["ip"]"#, "2001:db8::1").as_deref(), Ok("2001:db8::/64"));
        assert_eq!(of(r#"["host"]"#, "API.example.com."), of(r#"["host"]"#, "api.example.com"));
        assert_eq!(of(r#"["path"]"#, "%2Fa%2F%2Fb"), of(r#"["path"]"#, "%2Fa%2Fb"));
    }

    #[test]
    fn nothing_is_a_hyphen() {
        assert_eq!(of(r#"["global"]"#, "-").as_deref(), Ok("-"));
        let mut shared = limit(PAIR, "share");
        let digester = Digester::new(None);
        let of_shared = |limit: &Limit, text| subject(limit, text, 64, &digester);
        assert_eq!(of_shared(&shared, "acme,-"), Ok(sent(PAIR, &["acme"])));
        assert_ne!(of_shared(&shared, "acme,-"), of_shared(&shared, "acme,%2D"));
        shared.on_missing_key = crate::policy::OnMissingKey::Skip;
        assert!(of_shared(&shared, "acme,-").unwrap_err().contains("counts no request without"));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (key, text, said) in [
            (TENANT, "", "header:x-tenant is empty: write `-`"),
            (TENANT, "%20", "header:x-tenant is blank"),
            (TENANT, "a,b", "2 parts are written, 1 wanted; limit a counts by {header:x-tenant}"),
            (PAIR, "a", "1 part is written, 2 wanted; limit a counts by {header:x-tenant},{query:q}"),
            (PAIR, "a,", "query:q is empty"),
            (TENANT, "100%", "write `%25`"),
            (TENANT, "%zz", "write `%25`"),
            (TENANT, "%2", "write `%25`"),
            (TENANT, "%ff", "not UTF-8"),
            (TENANT, "-", "cannot be `-`"),
            (r#"["ip"]"#, "localhost", "one IPv4 or IPv6 address"),
            (r#"["global"]"#, "x", "write `-`"),
        ] {
            let wrong = of(key, text).unwrap_err();
            assert!(wrong.contains(said), "{text}: {wrong}");
        }
        assert!(of(TENANT, &"x".repeat(50_000)).unwrap_err().contains("longer than"));
    }
}
