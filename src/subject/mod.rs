//! Who is asking: the attributes of a request, and the subject that a limit counts them as.
//!
//! What clients send (headers, cookies, queries, paths) is never stored: a subject of such parts is the digest of
//! all of them, so its length is bounded and no value can be made to equal another's. An address stands as it is.

pub mod address;
pub mod claims;
pub mod digest;
pub mod request;

use std::borrow::Cow;
use std::net::IpAddr;

pub use claims::Claims;
pub use digest::Digester;
pub use request::{HttpRequest, Platform};

use crate::policy::{KeyPart, OnMissingKey};

/// Subject of `global`, and of requests that share for lack of a part.
pub const NOBODY: &str = "-";

/// Most bytes that a key takes of a header or a cookie. A longer one is refused, not cut: what is cut reads like the
/// key of somebody else. What stands in a URL is bounded with it.
pub const LONGEST_VALUE: usize = 8_192;

/// Attributes of a request by key part.
pub trait Attributes {
    /// The value of one part as the client would have sent it, canonical for `ip`, `host` and `path`; `None` where
    /// the request has none, an empty one, or one that cannot be read.
    fn value(&self, part: &KeyPart) -> Option<Cow<'_, str>>;
    /// The client's address, whole.
    fn address(&self) -> Option<IpAddr>;
    /// A header as it was sent, empty ones included; its name in lower case.
    fn header(&self, name: &str) -> Option<String>;
}

/// What a request is to a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// Counted as this subject, in the form the store's key ends with.
    Subject(String),
    /// The limit does not apply.
    Skipped,
    /// The request lacks this part and the limit denies such requests.
    Missing(KeyPart),
    /// This part is longer than [`LONGEST_VALUE`].
    TooLong(KeyPart),
}

/// Who a request is by the given key parts.
pub fn identify(
    parts: &[KeyPart],
    on_missing: OnMissingKey,
    attributes: &dyn Attributes,
    digester: &Digester,
) -> Who {
    match parts {
        [KeyPart::Global] => return Who::Subject(NOBODY.to_owned()),
        [KeyPart::Ip] => {
            return match attributes.value(&KeyPart::Ip) {
                Some(address) => Who::Subject(address.into_owned()),
                None => absent(&KeyPart::Ip, on_missing).unwrap_or_else(|| Who::Subject(NOBODY.to_owned())),
            };
        }
        _ => {}
    }
    let mut digest = digester.start();
    for part in parts {
        let value = match part {
            KeyPart::Global => Some(Cow::Borrowed(NOBODY)),
            other => attributes.value(other),
        };
        if value.is_none()
            && let Some(verdict) = absent(part, on_missing)
        {
            return verdict;
        }
        if value.as_ref().is_some_and(|value| is_too_long(part, value)) {
            return Who::TooLong(part.clone());
        }
        digest.part(part, value.as_deref());
    }
    Who::Subject(digest.finish())
}

/// Whether a value is longer than a key takes.
pub fn is_too_long(part: &KeyPart, value: &str) -> bool {
    value.len() > LONGEST_VALUE && matches!(part, KeyPart::Header(_) | KeyPart::Cookie(_))
}

/// What a missing part leads to; `None` where it is counted with the others that lack it.
fn absent(part: &KeyPart, on_missing: OnMissingKey) -> Option<Who> {
    match on_missing {
        OnMissingKey::Deny => Some(Who::Missing(part.clone())),
        OnMissingKey::Skip => Some(Who::Skipped),
        OnMissingKey::Share => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Given(HashMap<KeyPart, String>);

    impl Attributes for Given {
        fn value(&self, part: &KeyPart) -> Option<Cow<'_, str>> {
            self.0.get(part).map(|value| Cow::Borrowed(value.as_str()))
        }

        fn address(&self) -> Option<IpAddr> {
            None
        }

        fn header(&self, _: &str) -> Option<String> {
            None
        }
    }

    fn header(name: &str) -> KeyPart {
        KeyPart::Header(name.to_owned())
    }

    fn who(parts: &[KeyPart], given: &[(&str, &str)], on_missing: OnMissingKey) -> Who {
        let given = Given(given.iter().map(|(name, value)| (header(name), (*value).to_owned())).collect());
        identify(parts, on_missing, &given, &Digester::new(None))
    }

    #[test]
    fn digests_are_bounded_and_never_show_the_value() {
        let longest = "x".repeat(LONGEST_VALUE);
        let Who::Subject(subject) = who(&[header("x")], &[("x", &longest)], OnMissingKey::Deny) else {
            panic!("no subject");
        };
        assert_eq!(subject.len(), 20);
        assert!(subject.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    }

    #[test]
    fn what_is_too_long_is_refused_and_not_cut() {
        let longer = "x".repeat(LONGEST_VALUE + 1);
        for on_missing in [OnMissingKey::Deny, OnMissingKey::Skip, OnMissingKey::Share] {
            assert_eq!(who(&[header("x")], &[("x", &longer)], on_missing), Who::TooLong(header("x")));
        }
    }

    #[test]
    fn parts_cannot_be_shifted_into_each_other() {
        let parts = [header("a"), header("b")];
        let one = who(&parts, &[("a", "x"), ("b", "yz")], OnMissingKey::Deny);
        let two = who(&parts, &[("a", "xy"), ("b", "z")], OnMissingKey::Deny);
        let missing = who(&parts, &[("a", "xyz")], OnMissingKey::Share);
        assert!(one != two && two != missing && one != missing);
    }

    #[test]
    fn one_name_is_not_another() {
        let one = who(&[header("a")], &[("a", "x")], OnMissingKey::Deny);
        let two = who(&[header("b")], &[("b", "x")], OnMissingKey::Deny);
        assert_ne!(one, two);
    }

    #[test]
    fn a_missing_part_goes_by_policy() {
        // FIELD-REPORTS B34: an absent attribute must not share a bucket unless the policy says so.
        let parts = [header("x-api-key")];
        assert_eq!(who(&parts, &[], OnMissingKey::Deny), Who::Missing(header("x-api-key")));
        assert_eq!(who(&parts, &[], OnMissingKey::Skip), Who::Skipped);
        assert!(matches!(who(&parts, &[], OnMissingKey::Share), Who::Subject(_)));
    }
}
