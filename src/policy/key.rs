//! Key parts: the attributes of a request that a limit counts by.

use std::fmt;

use super::error::Wrong;
use super::text;

/// One attribute of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyPart {
    /// One counter for everybody.
    Global,
    /// The client's address (IPv6 by prefix).
    Ip,
    /// The matched route's name.
    Route,
    /// The request method.
    Method,
    /// The request's host, lower case, without port or trailing dot.
    Host,
    /// The canonical path.
    Path,
    /// The client's country as the platform says it.
    Country,
    /// The client's autonomous system number.
    Asn,
    /// A request header, name in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// A query parameter.
    Query(String),
    /// A parameter of the route's path.
    Param(String),
    /// A claim of a verified token.
    Jwt(String),
}

/// The kinds that stand alone, and the kinds that take a name behind a colon.
const PLAIN: [(&str, KeyPart); 8] = [
    ("global", KeyPart::Global),
    ("ip", KeyPart::Ip),
    ("route", KeyPart::Route),
    ("method", KeyPart::Method),
    ("host", KeyPart::Host),
    ("path", KeyPart::Path),
    ("country", KeyPart::Country),
    ("asn", KeyPart::Asn),
];
const NAMED: [&str; 5] = ["header", "cookie", "query", "param", "jwt"];

impl KeyPart {
    /// Reads `ip`, `header:x-tenant` and so on. Header names come out in lower case.
    ///
    /// # Errors
    /// An unknown kind, a name where none belongs or none where one does, a name its kind does not allow.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let (kind, name) = match text.split_once(':') {
            Some((kind, name)) => (kind, Some(name)),
            None => (text, None),
        };
        let plain = PLAIN.into_iter().find(|(known, _)| *known == kind).map(|(_, part)| part);
        match (plain, name) {
            (Some(part), None) => Ok(part),
            (Some(_), Some(_)) => {
                Err(Wrong::new(format!("\"{kind}\" takes no name"), format!("write \"{kind}\"")))
            }
            (None, Some(name)) if NAMED.contains(&kind) => Self::named(kind, name),
            (None, None) if NAMED.contains(&kind) => {
                Err(Wrong::new(format!("\"{kind}\" needs a name"), format!("write \"{kind}:NAME\"")))
            }
            (None, _) => {
                Err(Wrong::unknown("key part", kind, PLAIN.iter().map(|(known, _)| *known).chain(NAMED)))
            }
        }
    }

    /// The part's kind, and the name behind the colon (empty where it has none).
    pub fn kind_and_name(&self) -> (&'static str, &str) {
        match self {
            Self::Global => ("global", ""),
            Self::Ip => ("ip", ""),
            Self::Route => ("route", ""),
            Self::Method => ("method", ""),
            Self::Host => ("host", ""),
            Self::Path => ("path", ""),
            Self::Country => ("country", ""),
            Self::Asn => ("asn", ""),
            Self::Header(name) => ("header", name),
            Self::Cookie(name) => ("cookie", name),
            Self::Query(name) => ("query", name),
            Self::Param(name) => ("param", name),
            Self::Jwt(name) => ("jwt", name),
        }
    }

    fn named(kind: &str, name: &str) -> Result<Self, Wrong> {
        match kind {
            "header" => text::header(name).map(Self::Header),
            "cookie" => text::token("cookie name", name).map(Self::Cookie),
            "param" => text::param(name).map(Self::Param),
            "jwt" => text::claim(name).map(Self::Jwt),
            _ => text::query(name).map(Self::Query),
        }
    }
}

impl fmt::Display for KeyPart {
    /// As a policy writes it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = self.kind_and_name();
        if name.is_empty() { out.write_str(kind) } else { write!(out, "{kind}:{name}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_as_written() {
        for text in
            PLAIN.map(|(kind, _)| kind.to_owned()).into_iter().chain(NAMED.map(|k| format!("{k}:x-y")))
        {
            assert_eq!(KeyPart::parse(&text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn names() {
        assert_eq!(KeyPart::parse("header:X-Tenant"), Ok(KeyPart::Header("x-tenant".to_owned())));
        assert_eq!(KeyPart::parse("cookie:Sid"), Ok(KeyPart::Cookie("Sid".to_owned())));
        assert_eq!(KeyPart::parse("query:filter[a:b]"), Ok(KeyPart::Query("filter[a:b]".to_owned())));
        let claim = "jwt:https://example.com/tenant";
        assert_eq!(KeyPart::parse(claim).unwrap().to_string(), claim);
        assert!(KeyPart::parse(&format!("jwt:{}", "x".repeat(257))).is_err());
        for text in ["jwt:a b", "jwt:ä", "jwt:"] {
            assert!(KeyPart::parse(text).is_err(), "{text}");
        }
        for text in ["header:a b", "header:a:b", "cookie:a=b", "query:a&b", "query:a%20b", "param:a/b"] {
            assert!(KeyPart::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mistakes_name_the_cure() {
        let rows = [
            ("ip:x", "write \"ip\""),
            ("header", "write \"header:NAME\""),
            ("heeder:x", "did you mean \"header\"?"),
            ("header:", "write a header name"),
            ("IP", "known are"),
            ("", "known are"),
        ];
        for (text, cure) in rows {
            let wrong = KeyPart::parse(text).unwrap_err();
            assert!(wrong.cure.contains(cure), "{text}: {}", wrong.cure);
        }
    }
}
