//! What the bindings say, beside the policy.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

/// The bindings that a Worker was given, as far as they are plain values. The store's token is not among them: it
/// stays with the code that sends it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Bindings {
    /// `UPSTASH_REDIS_REST_URL`.
    #[serde(default)]
    pub store_url: Option<String>,
    /// Whether `UPSTASH_REDIS_REST_TOKEN` is set.
    #[serde(default)]
    pub has_token: bool,
    /// `ORIGIN`.
    #[serde(default)]
    pub origin: Option<String>,
    /// `POLICY`: an object, or JSON text.
    #[serde(default)]
    pub policy: Option<Value>,
    /// `ADMIN_TOKEN`.
    #[serde(default)]
    pub admin_token: Option<String>,
    /// `KEY_SECRET`.
    #[serde(default)]
    pub key_secret: Option<String>,
    /// Whether `ANALYTICS` is a data set of Workers Analytics Engine.
    #[serde(default)]
    pub analytics: bool,
    /// Names of the bindings that messages can be sent to, parted by spaces.
    #[serde(default)]
    pub queues: String,
    /// Random text of the platform's, from which the ids of holders are drawn.
    #[serde(default)]
    pub seed: String,
    /// Every other text binding, for policies that name one.
    #[serde(default)]
    pub texts: HashMap<String, String>,
}

impl Bindings {
    /// The policy that replaces the built-in one, as JSON text.
    pub fn policy_text(&self) -> Option<String> {
        match self.policy.as_ref()? {
            Value::Null => None,
            Value::String(text) if text.trim().is_empty() => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// The store's URL, where one is configured.
    pub fn store(&self) -> Option<&str> {
        self.store_url.as_deref().map(str::trim).filter(|url| !url.is_empty())
    }
}
