//! Comparing what must not be guessed.

use sha2::{Digest as _, Sha256};

/// A secret by its digest. Comparing digests of both sides, every byte of them, takes the same time whatever the
/// text that is tried has in common with the secret, its length included.
#[derive(Debug, Clone, Copy)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Of a binding's text; an empty one is no secret.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Sha256::digest(text.as_bytes()).into()))
    }

    /// Whether `text` is the secret.
    pub fn is(&self, text: &str) -> bool {
        let tried: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let differing = self.0.iter().zip(tried).fold(0_u8, |seen, (a, b)| seen | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_is_it() {
        let secret = Secret::new("s3cret").unwrap();
        assert!(secret.is("s3cret"));
        for other in ["", "s", "s3cre", "s3cret ", "S3cret", "s3cret\0"] {
            assert!(!secret.is(other), "{other}");
        }
        assert!(Secret::new("").is_none());
    }
}
