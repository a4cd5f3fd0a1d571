//! Digests of what clients send.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::policy::KeyPart;

/// Bytes of a digest that are kept: 120 bits, 20 characters.
const KEPT: usize = 15;

/// Makes subject digests: HMAC-SHA-256 under a secret, or plain SHA-256 without one.
#[derive(Debug, Clone)]
pub struct Digester {
    keyed: Option<Hmac<Sha256>>,
}

impl Digester {
    /// `secret` is the text of the `KEY_SECRET` binding.
    pub fn new(secret: Option<&str>) -> Self {
        let keyed = secret.filter(|secret| !secret.is_empty());
        Self { keyed: keyed.and_then(|secret| Hmac::new_from_slice(secret.as_bytes()).ok()) }
    }

    /// Whether there is a secret.
    pub fn is_keyed(&self) -> bool {
        self.keyed.is_some()
    }

    /// Begins a digest.
    pub fn start(&self) -> Running {
        match &self.keyed {
            Some(keyed) => Running::Keyed(keyed.clone()),
            None => Running::Plain(Sha256::new()),
        }
    }
}

/// A digest in the making.
pub enum Running {
    /// With a secret.
    Keyed(Hmac<Sha256>),
    /// Without.
    Plain(Sha256),
}

impl Running {
    /// Takes in one part: its kind and name, whether it is there, and its value, each with its length, so that no
    /// two lists of parts read the same.
    pub fn part(&mut self, part: &KeyPart, value: Option<&str>) {
        let (kind, name) = part.kind_and_name();
        self.text(kind);
        self.text(name);
        match value {
            Some(value) => {
                self.bytes(&[1]);
                self.text(value);
            }
            None => self.bytes(&[0]),
        }
    }

    /// The digest as 20 characters of base64url.
    pub fn finish(self) -> String {
        let whole = match self {
            Self::Keyed(mac) => mac.finalize().into_bytes(),
            Self::Plain(hash) => hash.finalize(),
        };
        URL_SAFE_NO_PAD.encode(whole.get(..KEPT).unwrap_or_default())
    }

    /// Takes in a text with its length.
    pub fn text(&mut self, text: &str) {
        self.bytes(&(text.len() as u64).to_be_bytes());
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match self {
            Self::Keyed(mac) => mac.update(bytes),
            Self::Plain(hash) => hash.update(bytes),
        }
    }
}
