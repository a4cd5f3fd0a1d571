//! Which characters the policy's names may hold, and why.

use super::error::Wrong;

/// Most characters of a limit's or route's name.
pub const MAX_NAME: usize = 64;
/// Most characters of `store.prefix`.
pub const MAX_PREFIX: usize = 32;
/// Most characters of a claim's name.
pub const MAX_CLAIM: usize = 256;

/// A limit's or route's name, or the key prefix: printable ASCII that needs no quoting where it will stand.
///
/// Names stand in structured header fields (no `"` or `\`), in store keys whose segments are told apart by `:`,
/// in Cluster keys where braces mean a hash tag, in admin paths (no `/`, `%`, `.` or `..`) and in comma lists.
pub(super) fn name(what: &str, text: &str, longest: usize) -> Result<String, Wrong> {
    if text.is_empty() {
        return Err(Wrong::new(format!("the {what} is empty"), format!("write 1 to {longest} characters")));
    }
    if let Some(odd) = text.chars().find(|&c| !c.is_ascii_graphic() || "\"\\:,/%{}".contains(c)) {
        return Err(Wrong::new(
            format!("the {what} \"{}\" holds {}", text.escape_default(), shown(odd)),
            "write printable ASCII without space and \" \\ : , / % { }",
        ));
    }
    if text.len() > longest {
        return Err(Wrong::new(
            format!("the {what} has {} characters", text.len()),
            format!("write at most {longest}"),
        ));
    }
    if matches!(text, "." | "..") {
        return Err(Wrong::new(
            format!("the {what} \"{text}\" is a step in a path"),
            "write a name that is a word".to_owned(),
        ));
    }
    Ok(text.to_owned())
}

/// RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

/// An RFC 9110 token: header names, methods, and cookie names by RFC 6265.
pub(super) fn token(what: &str, text: &str) -> Result<String, Wrong> {
    if is_token(text) {
        return Ok(text.to_owned());
    }
    Err(Wrong::new(
        format!("\"{}\" is not a {what}", text.escape_default()),
        format!("write a {what} of letters, digits and ! # $ % & ' * + - . ^ _ ` | ~"),
    ))
}

/// A header name, in lower case.
pub(super) fn header(text: &str) -> Result<String, Wrong> {
    token("header name", text).map(|name| name.to_ascii_lowercase())
}

/// A request method. Methods are case-sensitive (RFC 9110, section 9.1) and the known ones are upper case, so
/// lower case is a slip that would never match.
pub(super) fn method(text: &str) -> Result<String, Wrong> {
    let name = token("method", text)?;
    let upper = name.to_ascii_uppercase();
    if name == upper {
        return Ok(name);
    }
    Err(Wrong::new(format!("the method \"{name}\" has lower case"), format!("write \"{upper}\"")))
}

/// The name of a path parameter.
pub(super) fn param(text: &str) -> Result<String, Wrong> {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
        return Ok(text.to_owned());
    }
    Err(Wrong::new(
        format!("\"{}\" is not a parameter name", text.escape_default()),
        "write a parameter name of letters, digits, _ and -",
    ))
}

/// The name of a query parameter, decoded; what would separate or escape it in a query cannot be meant.
pub(super) fn query(text: &str) -> Result<String, Wrong> {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !"&=#+%".contains(c)) {
        return Ok(text.to_owned());
    }
    Err(Wrong::new(
        format!("\"{}\" is not a query parameter name", text.escape_default()),
        "write a query parameter name of printable ASCII without space and & = # + %",
    ))
}

/// The name of a token's claim. Names may be URLs (RFC 7519 section 4.2), so colons, slashes and dots belong to them.
pub(super) fn claim(text: &str) -> Result<String, Wrong> {
    if !text.is_empty() && text.len() <= MAX_CLAIM && text.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(Wrong::new(
        format!("\"{}\" is not the name of a claim", text.escape_default()),
        format!("write a claim name of 1 to {MAX_CLAIM} printable ASCII characters without space"),
    ))
}

/// The name of a binding: what JavaScript takes as a property without quoting.
pub(super) fn binding(text: &str) -> Result<String, Wrong> {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if first && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(text.to_owned());
    }
    Err(Wrong::new(
        format!("\"{}\" is not the name of a binding", text.escape_default()),
        "write \"binding:NAME\" with the name wrangler.toml gives it",
    ))
}

/// A host name or IPv4 address, in lower case, without a trailing dot: the form requests are compared in.
pub(super) fn host(text: &str) -> Result<String, Wrong> {
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    if let Some((before, port)) = name.rsplit_once(':')
        && !port.is_empty()
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(Wrong::new(
            format!("the host \"{text}\" has a port"),
            format!("write \"{before}\": hosts match on every port"),
        ));
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if name.len() <= 253 && name.split('.').all(label) {
        return Ok(name.to_owned());
    }
    Err(Wrong::new(
        format!("\"{}\" is not a host name", text.escape_default()),
        "write one host such as \"api.example.com\"; international names in their xn-- form",
    ))
}

fn shown(odd: char) -> String {
    match odd {
        ' ' => "a space".to_owned(),
        c if c.is_ascii_graphic() => format!("{c}"),
        c => format!("U+{:04X}", u32::from(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for text in ["a", "tenant-minute", "a.b_c", "~!@#$^&*()'`<>?|;=+[]", &"x".repeat(64)] {
            assert_eq!(name("name", text, MAX_NAME).as_deref(), Ok(text));
        }
        let odd = ["", "a b", "a:b", "a,b", "a/b", "a%b", "a\"b", "a\\b", "{a}", "ä", "a\n", ".", ".."];
        for text in odd.into_iter().chain([&*"x".repeat(65)]) {
            assert!(name("name", text, MAX_NAME).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts() {
        for (text, expected) in [
            ("API.example.com", "api.example.com"),
            ("a.", "a"),
            ("10.0.0.1", "10.0.0.1"),
            ("a_b.c", "a_b.c"),
        ] {
            assert_eq!(host(text).as_deref(), Ok(expected));
        }
        for text in ["", ".", "a..b", "-a.b", "a b", "http://a", "a:80", "a/b", "*.a", "é.fr", "[::1]"] {
            assert!(host(text).is_err(), "{text}");
        }
        assert_eq!(host("a.b:80").unwrap_err().cure, "write \"a.b\": hosts match on every port");
    }

    #[test]
    fn methods() {
        assert_eq!(method("GET").as_deref(), Ok("GET"));
        assert_eq!(method("M-SEARCH").as_deref(), Ok("M-SEARCH"));
        assert_eq!(method("post").unwrap_err().cure, "write \"POST\"");
        assert!(method("").is_err());
        assert!(method("GET POST").is_err());
    }

    #[test]
    fn bindings() {
        for (text, good) in [("API", true), ("_a1", true), ("1a", false), ("", false), ("a-b", false)] {
            assert_eq!(binding(text).is_ok(), good, "{text}");
        }
    }
}
