//! `[jwt]`: which tokens are believed, and what of them is counted by.

use super::error::Wrong;
use super::origin::host_of;
use super::{KeyPart, Limit};

/// `[jwt]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwt {
    /// The only signature algorithms believed, whatever a token's own header says.
    pub algorithms: Vec<JwtAlgorithm>,
    /// Where the keys come from.
    pub keys: JwtKeys,
    /// The request header, lower case, that carries the token.
    pub header: String,
    /// What `iss` must be one of; none: anything.
    pub issuer: Vec<String>,
    /// What `aud` must name one of; none: anything.
    pub audience: Vec<String>,
    /// How far `exp` and `nbf` may be off, in milliseconds.
    pub leeway_ms: u64,
}

/// Signature algorithms (RFC 7518 section 3.1, RFC 8037 section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

/// Where the keys of tokens come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwtKeys {
    /// URL of a JSON Web Key Set (RFC 7517 section 5): https, or http on this machine.
    Jwks(String),
    /// Name of the binding whose text is the key of HS256.
    Secret(String),
}

impl JwtAlgorithm {
    /// All of them by the names that policies and tokens use.
    pub const ALL: [(&str, Self); 4] =
        [("HS256", Self::Hs256), ("RS256", Self::Rs256), ("ES256", Self::Es256), ("EdDSA", Self::EdDsa)];

    /// The name in a token's `alg`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl Limit {
    /// Whether a claim of a token has a say in it: who is counted, which plan, who is exempt, what is a repeat.
    pub fn uses_token(&self) -> bool {
        let claim = |part: &KeyPart| matches!(part, KeyPart::Jwt(_));
        self.key.iter().any(claim)
            || self.plan.iter().any(claim)
            || self.exempt.values.iter().any(|(part, _)| claim(part))
            || self.idempotency.iter().any(claim)
    }
}

/// The URL of a key set: `https://host[:port][/path][?query]`, or `http://` where the host is this machine. Whoever
/// can change the keys on their way signs as anybody.
///
/// # Errors
/// Another scheme or `http` to another machine, no host, a port out of range, user information, a fragment.
pub fn key_set_url(text: &str) -> Result<String, Wrong> {
    let wrong = |problem: &str| {
        Wrong::new(
            format!("the key set's URL \"{}\" {problem}", text.escape_default()),
            "write \"https://host/path\" as the issuer publishes it",
        )
    };
    let plain = text.strip_prefix("http://");
    let after = plain.or_else(|| text.strip_prefix("https://")).ok_or_else(|| wrong("is not https://"))?;
    if after.contains('#') {
        return Err(wrong("has a fragment"));
    }
    let host = host_of(after, &wrong)?;
    if plain.is_some() && !is_loopback(host) {
        return Err(wrong("is http:// to another machine"));
    }
    Ok(text.to_owned())
}

fn is_loopback(host: &str) -> bool {
    let v4 = |address: std::net::Ipv4Addr| address.is_loopback();
    host.eq_ignore_ascii_case("localhost") || host == "[::1]" || host.parse().is_ok_and(v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_set_urls() {
        for text in [
            "https://issuer.example/.well-known/jwks.json",
            "https://issuer.example",
            "https://issuer.example:8443/keys?tenant=a",
            "https://[2001:db8::1]/keys",
            "http://127.0.0.1:8080/jwks",
            "http://127.9.9.9/jwks",
            "http://localhost:80/jwks",
            "http://[::1]:1/jwks",
        ] {
            assert_eq!(key_set_url(text).as_deref(), Ok(text));
        }
        for (text, problem) in [
            ("", "is not https"),
            ("issuer.example", "is not https"),
            ("HTTPS://issuer.example", "is not https"),
            ("ftp://issuer.example", "is not https"),
            ("http://issuer.example/jwks", "another machine"),
            ("http://127.0.0.1.example/jwks", "another machine"),
            ("http://localhost.example/jwks", "another machine"),
            ("http://127.0.0.1@issuer.example/jwks", "user"),
            ("http://[::2]/jwks", "another machine"),
            ("https://", "no host"),
            ("https:///jwks", "no host"),
            ("https://?x", "no host"),
            ("https://a:0/jwks", "no port"),
            ("https://u:p@a/jwks", "user"),
            ("https://a/jwks#x", "fragment"),
            ("https://a/jwks x", "holds"),
            ("https://a\\@b/jwks", "holds"),
            ("https://ä/jwks", "holds"),
        ] {
            let wrong = key_set_url(text).unwrap_err();
            assert!(wrong.problem.contains(problem), "{text}: {}", wrong.problem);
        }
    }
}
