//! The policy text as a tree, whatever language it was written in.
//!
//! One validator serves TOML (on the host: the build and the checker, with line numbers) and JSON (in the
//! Worker: the policy compiled in, and the `POLICY` var). The Wasm holds no TOML parser.

mod canonical;
#[cfg(not(target_arch = "wasm32"))]
mod toml;

use super::error::PolicyError;
use super::order;
use super::{Policy, validate};

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Line of its key, or of the element itself in a list; counted from 1. `None` in JSON.
    pub line: Option<u32>,
}

/// What TOML and JSON have in common, and what one of them has alone so that it can be refused by name.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// JSON's `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without a point.
    Int(i64),
    /// Any other number; also an integer that `i64` does not hold.
    Float(f64),
    /// Text.
    String(String),
    /// TOML's dates and times, as written.
    Date(String),
    /// A list.
    Array(Vec<Node>),
    /// Fields in the order written (JSON: in the order of their names).
    Table(Vec<(String, Node)>),
}

impl Value {
    /// The kind with its article, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a true/false",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::Date(_) => "a date",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Reads and validates a policy in JSON: the one compiled in, or the `POLICY` var.
///
/// # Errors
/// Every error of the text; without lines, unless it is no JSON at all.
pub fn read_json(text: &str) -> Result<Policy, Vec<PolicyError>> {
    validated(&parse_json(text).map_err(|error| vec![error])?)
}

/// Reads and validates a policy in TOML.
///
/// # Errors
/// Every error of the text, in the order of lines.
#[cfg(not(target_arch = "wasm32"))]
pub fn read_toml(text: &str) -> Result<Policy, Vec<PolicyError>> {
    validated(&toml::parse(text).map_err(|error| vec![error])?)
}

/// The same policy in canonical JSON: no spaces, fields in the order of their names. Not validated, so that
/// what is wrong with it can still be asked of [`read_toml`].
///
/// # Errors
/// The text is not TOML.
#[cfg(not(target_arch = "wasm32"))]
pub fn toml_to_json(text: &str) -> Result<String, Vec<PolicyError>> {
    toml::parse(text).map(|root| canonical::json(&root)).map_err(|error| vec![error])
}

fn validated(root: &Node) -> Result<Policy, Vec<PolicyError>> {
    validate::policy(root, canonical::digest(root)).map_err(|mut errors| {
        order::sort(&mut errors, |a, b| a.line <= b.line);
        errors
    })
}

fn parse_json(text: &str) -> Result<Node, PolicyError> {
    let value = serde_json::from_str(text).map_err(|error| PolicyError {
        line: u32::try_from(error.line()).ok(),
        place: String::new(),
        problem: format!("not JSON: {error}"),
        cure: "write one JSON object".to_owned(),
    })?;
    Ok(from_json(value))
}

fn from_json(value: serde_json::Value) -> Node {
    let value = match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Bool(flag),
        serde_json::Value::Number(number) => {
            number.as_i64().map_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::NAN)), Value::Int)
        }
        serde_json::Value::String(text) => Value::String(text),
        serde_json::Value::Array(items) => Value::Array(items.into_iter().map(from_json).collect()),
        serde_json::Value::Object(fields) => {
            Value::Table(fields.into_iter().map(|(name, value)| (name, from_json(value))).collect())
        }
    };
    Node { value, line: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str =
        "version = 1\n[gateway]\norigin = \"http://127.0.0.1:8081\"\n[degraded]\nshare = 0.5\n";

    #[test]
    fn toml_and_its_json_are_the_same_policy() {
        let json = toml_to_json(SMALL).unwrap();
        assert_eq!(
            json,
            r#"{"degraded":{"share":0.5},"gateway":{"origin":"http://127.0.0.1:8081"},"version":1}"#
        );
        let (from_toml, from_json) = (read_toml(SMALL).unwrap(), read_json(&json).unwrap());
        assert_eq!(from_toml.digest, from_json.digest);
        assert_eq!(from_toml.gateway, from_json.gateway);
        assert_eq!(from_toml.degraded, from_json.degraded);
    }

    #[test]
    fn order_and_comments_do_not_change_the_digest() {
        let turned =
            "version = 1 # one\ndegraded.share = 0.5\ngateway = { origin = 'http://127.0.0.1:8081' }\n";
        assert_eq!(read_toml(SMALL).unwrap().digest, read_toml(turned).unwrap().digest);
        let other = SMALL.replace("8081", "8082");
        assert_ne!(read_toml(SMALL).unwrap().digest, read_toml(&other).unwrap().digest);
        assert_eq!(read_toml(SMALL).unwrap().digest.len(), 16);
    }

    #[test]
    fn texts_that_do_not_parse_name_the_line() {
        let errors = read_toml("version = 1\n[gateway\n").unwrap_err();
        assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [Some(2)]);
        let errors = read_json("{\n\"version\": 1,\n}").unwrap_err();
        assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [Some(3)]);
    }

    #[test]
    fn json_errors_name_the_place() {
        let errors = read_json(r#"{"version":1,"gateway":{"origin":"http://a"},"limits":[{"name":3}]}"#);
        let shown = errors.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(shown.contains("limits[0].name: found an integer where a string belongs"), "{shown}");
        let shown =
            read_json("[]").unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(shown.contains("found a list where a table belongs"), "{shown}");
    }
}
