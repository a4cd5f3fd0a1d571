//! What lets a script in a browser read an answer of ours that was made for a page of another origin (Fetch standard,
//! section 3.3). Answers of the origin's are its own to open.

use crate::policy::Cors;

impl Cors {
    /// The fields for a request with this `Origin`, a line each as in `gateway::answer`; `None` where the policy opens
    /// answers to nobody.
    pub fn fields(&self, origin: Option<&str>) -> Option<String> {
        match (self, origin) {
            (Self::Nobody, _) => None,
            (Self::Anyone, None) => Some(String::new()),
            (Self::Anyone, Some(_)) => Some("Access-Control-Allow-Origin: *\n".to_owned()),
            (Self::Listed(known), Some(origin)) if known.iter().any(|listed| listed == origin) => {
                let allow = format!("Access-Control-Allow-Origin: {origin}\n");
                // A script that sends its user's cookies may read nothing without it.
                Some(allow + "Access-Control-Allow-Credentials: true\nVary: Origin\n")
            }
            (Self::Listed(_), _) => Some("Vary: Origin\n".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_origins_are_named() {
        let listed = Cors::Listed(vec!["https://a.test".to_owned()]);
        let fields = listed.fields(Some("https://a.test")).unwrap();
        assert!(fields.contains("Allow-Origin: https://a.test\n") && fields.contains("Vary: Origin\n"));
        for other in [None, Some("https://b.test"), Some("https://a.test.evil"), Some("null"), Some("")] {
            assert_eq!(listed.fields(other).as_deref(), Some("Vary: Origin\n"), "{other:?}");
        }
        assert_eq!(Cors::Anyone.fields(Some("x")).as_deref(), Some("Access-Control-Allow-Origin: *\n"));
        assert_eq!(Cors::Anyone.fields(None).as_deref(), Some(""));
        assert_eq!(Cors::Nobody.fields(Some("https://a.test")), None);
    }
}
