//! `gateway.cors`: whose scripts may read the answers that are the gateway's own.

use super::error::Wrong;
use super::origin::{is_host, is_port, split_port};

/// The web origins whose scripts may read answers of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cors {
    /// None: answers say nothing of it.
    Nobody,
    /// Any (`"*"`).
    Anyone,
    /// These, in the form that browsers send: `scheme://host[:port]` in lower case, without a default port.
    Listed(Vec<String>),
}

/// A web origin as a browser's `Origin` header says it (RFC 6454 section 6.2): `scheme://host[:port]`.
///
/// # Errors
/// A path, a query, user information, no scheme or host, or the port that the scheme has anyway.
pub fn web_origin(text: &str) -> Result<String, Wrong> {
    let wrong = |problem: &str| {
        Wrong::new(
            format!("the origin \"{}\" {problem}", text.escape_default()),
            "write \"https://host\", with a port if need be, or [\"*\"] for all",
        )
    };
    let Some((scheme, authority)) = text.split_once("://") else {
        return Err(wrong("has no scheme"));
    };
    if !is_scheme(scheme) {
        return Err(wrong("has no scheme"));
    }
    if authority.contains(['/', '?', '#']) {
        return Err(wrong("has more than a host and a port"));
    }
    let (host, port) = split_port(authority);
    if !is_host(host) || host.ends_with('.') {
        return Err(wrong("has no host"));
    }
    if port.is_some_and(|digits| !is_port(digits) || digits.starts_with('0')) {
        return Err(wrong("has no port of 1 to 65535 behind the colon"));
    }
    let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
    match (scheme.as_str(), port) {
        ("http", Some("80")) | ("https", Some("443")) => Err(Wrong::new(
            format!("the origin \"{text}\" has the port of its scheme"),
            format!("write \"{scheme}://{host}\", as browsers do"),
        )),
        (_, Some(port)) => Ok(format!("{scheme}://{host}:{port}")),
        (_, None) => Ok(format!("{scheme}://{host}")),
    }
}

/// RFC 3986 section 3.1.
fn is_scheme(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    first && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_in_the_form_browsers_send() {
        for (text, expected) in [
            ("https://app.example.com", "https://app.example.com"),
            ("HTTPS://App.Example.com:8443", "https://app.example.com:8443"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("capacitor://localhost", "capacitor://localhost"),
            ("http://a:443", "http://a:443"),
        ] {
            assert_eq!(web_origin(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn anything_else_is_none() {
        for (text, problem) in [
            ("", "scheme"),
            ("null", "scheme"),
            ("app.example.com", "scheme"),
            ("1x://a", "scheme"),
            ("https://", "no host"),
            ("https://*.example.com", "no host"),
            ("https://a.", "no host"),
            ("https://u@a", "no host"),
            ("https://a/", "more than"),
            ("https://a/b", "more than"),
            ("https://a?b", "more than"),
            ("https://a:0", "no port"),
            ("https://a:080", "no port"),
            ("https://a:443", "port of its scheme"),
            ("http://a:80", "port of its scheme"),
        ] {
            let wrong = web_origin(text).unwrap_err();
            assert!(wrong.problem.contains(problem), "{text}: {}", wrong.problem);
        }
    }
}
