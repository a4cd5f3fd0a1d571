//! Attributes of an HTTP request as it came in.

use std::borrow::Cow;
use std::net::IpAddr;

use super::{Attributes, Claims, address};
use crate::policy::{KeyPart, octets};

/// What the platform knows of a request, read only when a limit asks for it.
pub trait Platform {
    /// The value of a header, its name in lower case.
    fn header(&self, name: &str) -> Option<String>;
    /// The client's country, two letters.
    fn country(&self) -> Option<String>;
    /// The client's autonomous system number.
    fn asn(&self) -> Option<String>;
    /// Whether the request comes without a body and asks for no other protocol.
    fn is_bare(&self) -> bool {
        ["content-length", "transfer-encoding", "upgrade"].iter().all(|name| self.header(name).is_none())
    }
}

/// A request whose URL has been taken apart and whose route is known.
pub struct HttpRequest<'a> {
    /// As sent.
    pub method: &'a str,
    /// Lower case, without port or trailing dot.
    pub host: Cow<'a, str>,
    /// Canonical path, as routes are matched.
    pub path: Cow<'a, str>,
    /// Raw query, without the question mark.
    pub query: &'a str,
    /// Name of the matched route.
    pub route: &'a str,
    /// Parameters of the matched route's path.
    pub params: Vec<(&'a str, &'a str)>,
    /// Headers and what the platform adds.
    pub platform: &'a dyn Platform,
    /// The one header trusted for the address.
    pub client_ip: &'a str,
    /// Leading bits by which IPv6 addresses are counted.
    pub ipv6_prefix: u8,
    /// Claims of the verified token; `None` where no token was looked for.
    pub claims: Option<&'a Claims>,
}

/// A URL's parts, borrowed: host, path and query as sent.
pub struct UrlParts<'a> {
    /// Authority without user information or port.
    pub host: &'a str,
    /// `/…`, never empty.
    pub path: &'a str,
    /// Without the question mark; empty where there is none.
    pub query: &'a str,
}

/// Takes an absolute http(s) URL, or one that begins with its path, apart without changing a byte of it.
pub fn split_url(url: &str) -> UrlParts<'_> {
    let rest = behind_scheme(url);
    let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
    let (before_query, query) = rest.split_once('?').unwrap_or((rest, ""));
    let slash = before_query.find('/').unwrap_or(before_query.len());
    let (authority, path) = before_query.split_at_checked(slash).unwrap_or((before_query, ""));
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = without_port(authority);
    UrlParts { host, path: if path.is_empty() { "/" } else { path }, query }
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// A URL that begins with its path has no scheme: what looks like one may stand in its query.
fn behind_scheme(url: &str) -> &str {
    url.split_once("://").filter(|_| !url.starts_with('/')).map_or(url, |(_, rest)| rest)
}

/// Whether what stands before a URL's path is a host, with a port at most.
///
/// The platform puts a client's `Host` field there as it is. A `?`, `#` or `@` in it would make two readers of the URL
/// see two paths or two hosts, and one limit of two; so would a port that is none, where one reader cuts it off.
pub fn has_plain_authority(url: &str) -> bool {
    let rest = behind_scheme(url);
    let host = without_port(rest.split_once('/').map_or(rest, |(authority, _)| authority));
    match host.strip_prefix('[') {
        Some(open) => open
            .strip_suffix(']')
            .is_some_and(|v6| v6.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))),
        None => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !host.is_empty() && host.bytes().all(plain)
        }
    }
}

/// A host in the form that policies name it: lower case, without the root's trailing dot.
pub fn canonical_host(host: &str) -> Cow<'_, str> {
    let host = host.trim_end_matches('.');
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

impl Attributes for HttpRequest<'_> {
    fn value(&self, part: &KeyPart) -> Option<Cow<'_, str>> {
        let value = match part {
            KeyPart::Global => return None,
            KeyPart::Ip => Cow::Owned(self.client()?),
            KeyPart::Route => Cow::Borrowed(self.route),
            KeyPart::Method => Cow::Borrowed(self.method),
            KeyPart::Host => Cow::Borrowed(&*self.host),
            KeyPart::Path => Cow::Borrowed(&*self.path),
            KeyPart::Country => Cow::Owned(self.platform.country()?),
            KeyPart::Asn => Cow::Owned(self.platform.asn()?),
            KeyPart::Header(name) => Cow::Owned(readable(self.platform.header(name)?)?),
            KeyPart::Cookie(name) => Cow::Owned(readable(cookie(&self.platform.header("cookie")?, name)?)?),
            KeyPart::Query(name) => Cow::Owned(query_value(self.query, name)?),
            KeyPart::Param(name) => {
                let found = self.params.iter().find(|(param, _)| param == name);
                Cow::Borrowed(found.map(|(_, value)| *value)?)
            }
            KeyPart::Jwt(name) => self.claims?.value(name)?,
        };
        if value.trim().is_empty() { None } else { Some(value) }
    }

    fn header(&self, name: &str) -> Option<String> {
        self.platform.header(name)
    }

    /// From the one header that is trusted for it.
    fn address(&self) -> Option<IpAddr> {
        let found = address::parse(&self.platform.header(self.client_ip)?)?;
        if self.client_ip == CLOUDFLARES && address::is_pseudo_ipv4(found) {
            let real = self.platform.header("cf-connecting-ipv6");
            return real.and_then(|text| address::parse(&text)).filter(IpAddr::is_ipv6).or(Some(found));
        }
        Some(found)
    }
}

impl HttpRequest<'_> {
    /// What the client is counted as by its address. Of the Worker of another zone Cloudflare says which zone that is
    /// in `CF-Worker`, which it sets on every request of a Worker's; behind another header of the client's address,
    /// anybody may have written it.
    fn client(&self) -> Option<String> {
        let address = self.address()?;
        if address == IpAddr::V6(address::WORKERS) && self.client_ip == CLOUDFLARES {
            return Some(address::worker_subject(self.platform.header("cf-worker").as_deref()));
        }
        Some(address::subject(address, self.ipv6_prefix))
    }
}

/// The header in which Cloudflare says the client's address.
const CLOUDFLARES: &str = "cf-connecting-ip";

/// A value, unless it was sent in bytes that are no UTF-8: the platform reads each of those as U+FFFD, so that what
/// different clients sent could not be told apart.
fn readable(value: String) -> Option<String> {
    (!value.contains(char::REPLACEMENT_CHARACTER)).then_some(value)
}

/// The first cookie of that name (RFC 6265 section 5.4), without quotes around its value.
fn cookie(header: &str, name: &str) -> Option<String> {
    header.split(';').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// The first query parameter of that name, decoded as forms are (`+` is a space).
pub fn query_value(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key) == name).then(|| decoded(value).into_owned())
    })
}

/// Percent and plus decoding of a form value; see [`octets`] for bytes that are no UTF-8.
fn decoded(text: &str) -> Cow<'_, str> {
    // 0xEF: perhaps U+FFFD, which has a spelling of its own.
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+' | 0xEF)) {
        return Cow::Borrowed(text);
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(octets::to_text(percent_encoding::percent_decode_str(&spaced).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_apart_without_a_byte_changed() {
        let parts = split_url("https://user@Api.Example.com:8443/a%2Fb//c/./d?x=%7B&y");
        assert_eq!((parts.host, parts.path, parts.query), ("Api.Example.com", "/a%2Fb//c/./d", "x=%7B&y"));
        let bare = split_url("http://localhost");
        assert_eq!((bare.host, bare.path, bare.query), ("localhost", "/", ""));
        let v6 = split_url("http://[::1]:8787/?");
        assert_eq!((v6.host, v6.path, v6.query), ("[::1]", "/", ""));
        let v6 = split_url("http://[::1]/x");
        assert_eq!(v6.host, "[::1]");
    }

    /// What stands in a query is no scheme: else a client could name the path that it is counted by.
    #[test]
    fn a_path_alone_comes_apart_too() {
        for (url, path, query) in [
            ("/a?next=https://b.test/c", "/a", "next=https://b.test/c"),
            ("/a/http://b.test/c", "/a/http://b.test/c", ""),
            ("//b.test/c?x", "//b.test/c", "x"),
        ] {
            let parts = split_url(url);
            assert_eq!((parts.host, parts.path, parts.query), ("", path, query), "{url}");
        }
    }

    #[test]
    fn hosts_have_one_form() {
        assert_eq!(canonical_host("API.Example.com."), "api.example.com");
        assert_eq!(canonical_host("api.example.com"), "api.example.com");
        assert_eq!(canonical_host("api.example.com.."), "api.example.com");
    }

    #[test]
    fn authorities_that_hide_nothing() {
        for url in
            ["http://a", "http://a/", "https://A-b_c.D.:8443/x?y#z", "http://[::1]:80/", "http://a/b@c?d"]
        {
            assert!(has_plain_authority(url), "{url}");
        }
        for url in [
            "http://a?/b",
            "http://a#/b",
            "http://u@a/b",
            "http://a*",
            "http://a, b/",
            "http://%61/",
            "http:///b",
            "http://:80/",
            "http://a:b/",
            "http://a:80:80/",
            "http://a:+80/",
            "http://[::1/",
            "http://[::1]a/",
            "http://[::1]:a/",
            "http://[a.test]/",
            "http://a[b/",
        ] {
            assert!(!has_plain_authority(url), "{url}");
        }
    }

    #[test]
    fn cookies_and_queries() {
        assert_eq!(cookie("a=1; sid=\"x y\"; b=2", "sid").as_deref(), Some("x y"));
        assert_eq!(cookie("asid=1", "sid"), None);
        assert_eq!(query_value("a=1&api%5Fkey=k%20v+w&a=2", "api_key").as_deref(), Some("k v w"));
        assert_eq!(query_value("a=1&a=2", "a").as_deref(), Some("1"));
        assert_eq!(query_value("", "a"), None);
        assert_ne!(query_value("a=%FF", "a"), query_value("a=%FE", "a"));
        assert_eq!(query_value("a=\u{fffd}", "a"), query_value("a=%EF%BF%BD", "a"));
    }
}
