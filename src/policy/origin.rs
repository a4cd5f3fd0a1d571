//! Where admitted requests go: the shape of `origin` and of the `ORIGIN` var.

use super::Origin;
use super::error::Wrong;
use super::text;

impl Origin {
    /// Reads `http(s)://host[:port][/base]` or `binding:NAME`. Slashes at the end are dropped.
    ///
    /// # Errors
    /// Another scheme, no host, a port out of range, user information, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        if let Some(name) = text.strip_prefix("binding:") {
            return text::binding(name).map(Self::Binding);
        }
        let wrong = |problem: &str| {
            Wrong::new(
                format!("the origin \"{}\" {problem}", text.escape_default()),
                "write \"https://host\", with port and base path if need be, or \"binding:NAME\"",
            )
        };
        let after = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let after = after.ok_or_else(|| wrong("is neither http:// nor https:// nor binding:"))?;
        if after.contains(['?', '#']) {
            return Err(wrong("has a query or a fragment"));
        }
        host_of(after, &wrong)?;
        Ok(Self::Url(text.trim_end_matches('/').to_owned()))
    }
}

/// The host of a URL, given what stands behind its `//`.
///
/// # Errors
/// Characters that no URL holds, user information, no host, a port out of range.
pub(super) fn host_of<'a>(after: &'a str, wrong: &dyn Fn(&str) -> Wrong) -> Result<&'a str, Wrong> {
    if let Some(odd) = after.chars().find(|&c| !c.is_ascii_graphic() || "\"<>\\^`{|}".contains(c)) {
        return Err(wrong(&format!("holds '{}'", odd.escape_default())));
    }
    let end = after.find(['/', '?']).unwrap_or(after.len());
    let authority = after.get(..end).unwrap_or_default();
    if authority.contains('@') {
        return Err(wrong("holds a user or a password"));
    }
    let (host, port) = split_port(authority);
    if !is_host(host) {
        return Err(wrong("has no host"));
    }
    if port.is_some_and(|digits| !is_port(digits)) {
        return Err(wrong("has no port of 1 to 65535 behind the colon"));
    }
    Ok(host)
}

/// The colons inside `[::1]` are not the port's.
pub(super) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

pub(super) fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|open| open.strip_suffix(']'));
    inner.map_or_else(|| text::host(host).is_ok(), |v6| v6.parse::<std::net::Ipv6Addr>().is_ok())
}

pub(super) fn is_port(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        let rows = [
            ("http://127.0.0.1:8081", "http://127.0.0.1:8081"),
            ("https://api.example.com/", "https://api.example.com"),
            ("https://api.example.com/base/", "https://api.example.com/base"),
            ("http://[::1]:8081/a", "http://[::1]:8081/a"),
            ("http://[2001:db8::1]", "http://[2001:db8::1]"),
        ];
        for (text, expected) in rows {
            assert_eq!(Origin::parse(text), Ok(Origin::Url(expected.to_owned())));
        }
        assert_eq!(Origin::parse("binding:API"), Ok(Origin::Binding("API".to_owned())));
    }

    #[test]
    fn not_origins() {
        let rows = [
            ("", "neither"),
            ("api.example.com", "neither"),
            ("ftp://a", "neither"),
            ("http://", "no host"),
            ("http:///a", "no host"),
            ("http://:80", "no host"),
            ("http://[::1", "no host"),
            ("http://a:", "no port"),
            ("http://a:0", "no port"),
            ("http://a:65536", "no port"),
            ("http://a:+1", "no port"),
            ("http://a?b", "query"),
            ("http://a/b#c", "fragment"),
            ("http://user:pw@a", "user"),
            ("http://a/b c", "holds"),
            ("http://a\\b", "holds"),
            ("binding:", "binding"),
            ("binding:a-b", "binding"),
        ];
        for (text, problem) in rows {
            let wrong = Origin::parse(text).unwrap_err();
            assert!(wrong.problem.contains(problem), "{text}: {}", wrong.problem);
        }
    }
}
