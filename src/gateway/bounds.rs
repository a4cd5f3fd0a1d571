//! Requests that go no further, whatever the policy says: their URL is too long, or cannot be read in one way only.

use super::answer::Answer;
use super::problem;

/// Longest URL in bytes, scheme and host included.
pub const LONGEST_URL: usize = 16_384;

/// The answer to a request whose URL is out of bounds.
pub fn refused(url: &str) -> Option<Answer> {
    if url.len() > LONGEST_URL {
        let detail = format!("the URL is longer than {LONGEST_URL} bytes");
        return Some(problem::plain(414, "URI too long", &detail));
    }
    if !ends_in_a_path(url) {
        return Some(problem::plain(400, "Bad host", "the Host header holds what no host does"));
    }
    None
}

/// Whether the host ends where the path begins. The platform puts the `Host` header into the URL as it was sent: with
/// a `?` or `#` in it, a route would be looked up by the path `/` while the origin gets what stands behind.
fn ends_in_a_path(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    !matches!(rest.bytes().find(|byte| matches!(byte, b'/' | b'?' | b'#')), Some(b'?' | b'#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_an_end() {
        let of = |length: usize| format!("http://a/{}", "x".repeat(length - "http://a/".len()));
        assert_eq!(refused(&of(LONGEST_URL)), None);
        assert_eq!(refused(&of(LONGEST_URL + 1)).map(|answer| answer.status), Some(414));
    }

    #[test]
    fn a_host_has_no_query() {
        for url in ["http://a/", "http://a:80/?b#c", "http://a", "http://a*", "http://[::1]/x?y=//"] {
            assert_eq!(refused(url), None, "{url}");
        }
        for url in ["http://a?/x", "http://a#/x", "http://?/x", "http://a:80#b?/x"] {
            assert_eq!(refused(url).map(|answer| answer.status), Some(400), "{url}");
        }
    }
}
