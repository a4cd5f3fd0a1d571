//! One spelling for equal policies, so that a digest tells different ones apart.

use crate::policy::order;
use sha2::{Digest, Sha256};

use super::{Node, Value};

/// JSON without spaces, fields in the order of their names.
///
/// Written here and not by serde_json, whose order of fields depends on a feature that any other crate of the
/// build may turn on.
pub(super) fn json(root: &Node) -> String {
    let mut out = String::new();
    write(&root.value, &mut out);
    out
}

/// First 16 hex digits of the SHA-256 of [`json`].
pub(super) fn digest(root: &Node) -> String {
    let hash = Sha256::digest(json(root).as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&serde_json::Value::from(*number).to_string()),
        Value::String(text) | Value::Date(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(&item.value, out);
            }
            out.push(']');
        }
        Value::Table(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            order::sort(&mut sorted, |(a, _), (b, _)| a <= b);
            out.push('{');
            for (index, (name, node)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(name, out);
                out.push(':');
                write(&node.value, out);
            }
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}
