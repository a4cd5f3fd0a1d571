//! What a token says of its bearer. Both halves are pure: which text is a token worth verifying, and what the claims
//! of a verified one come to. The verifying itself is WebCrypto's and so JavaScript's (`edge/jwt.js`).

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Longest token that is looked at, in bytes. Headers of most platforms end at 16 KiB; identity providers keep below 8.
pub const LONGEST_TOKEN: usize = 8_192;

/// Integers beyond this, 2^53, are one and the same to readers that know only doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The claims of a verified token; without one, none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// Reads a token's payload as it was signed: an integer of 64 bits keeps all its digits, so that two subjects
    /// never become one. What is no JSON object holds no claims.
    pub fn read(payload: &str) -> Self {
        match serde_json::from_str(payload) {
            Ok(Value::Object(claims)) => Self(claims),
            _ => Self::default(),
        }
    }

    /// The text of a claim: a string as it is, an integer in digits, another number as short as it can be told, `true`
    /// or `false`. `None` for anything else and for numbers beyond 64 bits.
    pub fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.0.get(name)? {
            Value::String(text) => Some(Cow::Borrowed(text)),
            Value::Bool(true) => Some(Cow::Borrowed("true")),
            Value::Bool(false) => Some(Cow::Borrowed("false")),
            Value::Number(number) => {
                let exact = !number.is_f64() || number.as_f64().is_some_and(|n| n.abs() < EXACT);
                exact.then(|| Cow::Owned(number.to_string()))
            }
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// The token in a header's value, if it has the form of one (RFC 7515 section 7.1) and is not too long. Behind
/// `Bearer`, which `Authorization` must have (RFC 6750 section 2.1) and another header may. Two header lines reach us
/// joined by a comma, which is in no token.
pub fn token<'a>(header: &str, value: &'a str) -> Option<&'a str> {
    let value = value.trim();
    let token = match value.split_once(' ') {
        Some((scheme, rest)) => scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim_start())?,
        None => (header != "authorization").then_some(value)?,
    };
    let form = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let dots = token.bytes().filter(|byte| *byte == b'.').count();
    (token.len() <= LONGEST_TOKEN && dots == 2 && token.bytes().all(form)).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        for (header, value, expected) in [
            ("authorization", "Bearer a.b.c", Some("a.b.c")),
            ("authorization", "bearer   a-_Z.b.", Some("a-_Z.b.")),
            ("authorization", " BEARER a.b.c ", Some("a.b.c")),
            ("authorization", "a.b.c", None),
            ("authorization", "Basic a.b.c", None),
            ("authorization", "Bearer", None),
            ("authorization", "Bearer a.b", None),
            ("authorization", "Bearer a.b.c.d", None),
            ("authorization", "Bearer a.b.c, Bearer a.b.c", None),
            ("authorization", "Bearer a.b.c,a.b.c", None),
            ("authorization", "Bearer a.b.ü", None),
            ("authorization", "Bearer a.b.c\n", Some("a.b.c")),
            ("authorization", "Bearer a.b\n.c", None),
            ("authorization", "", None),
            ("x-token", "a.b.c", Some("a.b.c")),
            ("x-token", "Bearer a.b.c", Some("a.b.c")),
            ("x-token", "a.b.c a.b.c", None),
        ] {
            assert_eq!(token(header, value), expected, "{header}: {value:?}");
        }
        let long = |length: usize| format!("Bearer a.b.{}", "c".repeat(length - 4));
        assert!(token("authorization", &long(LONGEST_TOKEN)).is_some());
        assert!(token("authorization", &long(LONGEST_TOKEN + 1)).is_none());
    }

    #[test]
    fn values() {
        let payload = r#"{"s":"a b","e":"","i":-7,"u":18446744073709551615,"big":18446744073709551616,"f":1.5,"huge":1e300,
            "t":true,"n":null,"l":["a"],"o":{"s":"x"},"https://example.com/tenant":"t","o.s":"dotted","s2":"\u0061"}"#;
        let claims = Claims::read(payload);
        for (name, expected) in [
            ("s", Some("a b")),
            ("i", Some("-7")),
            ("u", Some("18446744073709551615")),
            ("big", None),
            ("f", Some("1.5")),
            ("huge", None),
            ("t", Some("true")),
            ("n", None),
            ("l", None),
            ("o", None),
            ("o.s", Some("dotted")),
            ("https://example.com/tenant", Some("t")),
            ("s2", Some("a")),
            ("nowhere", None),
        ] {
            assert_eq!(claims.value(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn neighbours_beyond_2_53_stay_apart() {
        let of = |number: &str| {
            let claims = Claims::read(&format!(r#"{{"sub":{number}}}"#));
            claims.value("sub").map(Cow::into_owned)
        };
        assert_ne!(of("9007199254740993"), of("9007199254740992"));
        assert!(of("1234567890123456789").is_some());
    }

    #[test]
    fn what_is_no_object_holds_no_claims() {
        for text in ["", "null", "[]", "\"sub\"", "7", "{", "{\"sub\":\"a\"} x", "{\"sub\":\"\\ud800\"}"] {
            assert_eq!(Claims::read(text), Claims::default(), "{text}");
        }
    }
}
