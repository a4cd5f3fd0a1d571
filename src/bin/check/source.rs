//! The policy's file, and what can be said of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::json;
use sluicegate::policy::{ExemptValue, Policy, PolicyError, document};

/// A policy that is right.
pub struct Source {
    file: String,
    /// The policy in JSON, as the Worker reads it.
    pub json: String,
    policy: Policy,
}

/// Reads and validates a file.
///
/// # Errors
/// All that is wrong with it, by lines.
pub fn read(file: &str) -> Result<Source, Vec<PolicyError>> {
    let bytes = fs::read(file).map_err(|error| {
        let problem = match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_owned(),
            ErrorKind::IsADirectory => "this is a directory".to_owned(),
            ErrorKind::PermissionDenied => "the file may not be read".to_owned(),
            _ => format!("the file cannot be read ({error})"),
        };
        vec![whole(problem, "name a policy file, such as policy.toml")]
    })?;
    let text = text(&bytes)?;
    let json = if Path::new(file).extension().is_some_and(|extension| extension == "json") {
        document::read_json(text)?;
        text.to_owned()
    } else {
        document::read_toml(text)?;
        document::toml_to_json(text)?
    };
    let policy = document::read_json(&json)?;
    Ok(Source { file: file.to_owned(), json, policy })
}

/// The text of a file. A byte order mark says nothing about UTF-8 and is passed over.
fn text(bytes: &[u8]) -> Result<&str, Vec<PolicyError>> {
    let utf_16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1);
        let problem = if utf_16 { "the file is UTF-16" } else { "the file is not UTF-8" };
        vec![PolicyError { line: u32::try_from(line).ok(), ..whole(problem.to_owned(), "save it as UTF-8") }]
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// An error of the whole file.
fn whole(problem: String, cure: &str) -> PolicyError {
    PolicyError { line: None, place: String::new(), problem, cure: cure.to_owned() }
}

/// The errors as JSON.
pub fn errors_json(file: &str, errors: &[PolicyError]) -> String {
    let errors: Vec<_> = errors
        .iter()
        .map(|PolicyError { line, place, problem, cure }| {
            json!({ "line": line, "place": place, "problem": problem, "cure": cure })
        })
        .collect();
    json!({ "file": file, "ok": false, "errors": errors }).to_string()
}

impl Source {
    /// One line for people, or the policy as the `POLICY` var takes it.
    pub fn summary(&self, as_json: bool) -> String {
        let (limits, routes) = (self.policy.limits.len(), self.policy.router.routes().len());
        if as_json {
            let policy: serde_json::Value = serde_json::from_str(&self.json).unwrap_or_default();
            let digest = &self.policy.digest;
            return json!({ "file": self.file, "ok": true, "digest": digest, "policy": policy }).to_string();
        }
        format!("{}: ok, {}, {}", self.file, counted(limits, "limit"), counted(routes, "route"))
    }

    /// Names of the bindings that exemptions hold values in.
    pub fn bindings(&self) -> BTreeSet<&str> {
        let values = self.policy.limits.iter().flat_map(|limit| &limit.exempt.values);
        let named = values.filter_map(|(_, value)| match value {
            ExemptValue::Binding(name) => Some(name.as_str()),
            ExemptValue::Literal(_) => None,
        });
        named.collect()
    }
}

fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
