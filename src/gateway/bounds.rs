//! Requests that go no further, whatever the policy says: their URL is too long, or cannot be read in one way only.

use super::answer::Answer;
use super::problem;
use crate::subject::request::has_plain_authority;

/// Longest URL in bytes, scheme and host included.
pub const LONGEST_URL: usize = 16_384;

/// The answer to a request whose URL is out of bounds.
pub fn refused(url: &str) -> Option<Answer> {
    if url.len() > LONGEST_URL {
        let detail = format!("the URL is longer than {LONGEST_URL} bytes");
        return Some(problem::plain(414, "URI too long", &detail));
    }
    // The platform puts the `Host` header into the URL as it was sent: with a `?` or `#` in it, a route would be looked
    // up by the path `/` while the origin gets what stands behind.
    if !has_plain_authority(url) {
        return Some(problem::plain(400, "Bad host", "the Host field holds no host"));
    }
    None
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
    fn a_url_has_a_host() {
        assert_eq!(refused("http://a:80/?b#c"), None);
        assert_eq!(refused("http://a?/x").map(|answer| answer.status), Some(400));
    }
}
