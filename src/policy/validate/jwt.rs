//! `[jwt]`, and whether anything uses it.

use super::fields::{Field, Table};
use super::gateway::or;
use crate::policy::document::Value;
use crate::policy::error::Wrong;
use crate::policy::jwt::{Jwt, JwtAlgorithm, JwtKeys, key_set_url};
use crate::policy::{bounds, text};

/// Fields of `[jwt]`.
pub(super) const JWT: &[&str] = &["algorithms", "jwks", "secret", "header", "issuer", "audience", "leeway"];

/// Reads `[jwt]`: `Some(None)` when it was not written.
#[allow(clippy::option_option, reason = "wrong, absent and written are three things")]
pub(super) fn jwt(top: &Table<'_>) -> Option<Option<Jwt>> {
    let used = uses(top);
    let Some(field) = top.get("jwt") else {
        for part in &used {
            part.wrong(
                "nothing says which tokens are believed",
                "write [jwt] with algorithms, and jwks = \"https://…\" or secret = \"NAME\"",
            );
        }
        return used.is_empty().then_some(None);
    };
    if used.is_empty() {
        field.wrong("no limit uses a token", "count by \"jwt:sub\" or another claim, or remove [jwt]");
    }
    table(&field.table(JWT)?).map(Some)
}

fn table(table: &Table<'_>) -> Option<Jwt> {
    let algorithms =
        table.required("algorithms", "write algorithms = [\"RS256\"]").and_then(|field| algorithms(&field));
    let keys = keys(table);
    let header = or(table.get("header"), "authorization".to_owned(), |field| field.parsed(text::header));
    let issuer = or(table.get("issuer"), Vec::new(), texts);
    let audience = or(table.get("audience"), Vec::new(), texts);
    let leeway_ms = or(table.get("leeway"), 30_000, |field| field.duration(bounds::LEEWAY_MS));
    let (algorithms, keys) = (algorithms?, keys?);
    if !fit(table, &algorithms, &keys) {
        return None;
    }
    Some(Jwt {
        algorithms,
        keys,
        header: header?,
        issuer: issuer?,
        audience: audience?,
        leeway_ms: leeway_ms?,
    })
}

fn algorithms(field: &Field<'_>) -> Option<Vec<JwtAlgorithm>> {
    let algorithms = field.each(|item| item.choice(&JwtAlgorithm::ALL))?;
    if algorithms.is_empty() {
        field.wrong("no token would ever be believed", "write algorithms = [\"RS256\"]");
        return None;
    }
    let mut before: Vec<JwtAlgorithm> = Vec::new();
    for (item, algorithm) in field.items()?.iter().zip(&algorithms) {
        if before.contains(algorithm) {
            item.wrong("the same algorithm twice", "write each once");
            return None;
        }
        before.push(*algorithm);
    }
    Some(algorithms)
}

fn keys(table: &Table<'_>) -> Option<JwtKeys> {
    match (table.get("jwks"), table.get("secret")) {
        (Some(jwks), None) => jwks.parsed(key_set_url).map(JwtKeys::Jwks),
        (None, Some(secret)) => secret.parsed(binding).map(JwtKeys::Secret),
        (Some(_), Some(secret)) => {
            secret.wrong(
                "the keys come from jwks already",
                "keep jwks for RS256, ES256 and EdDSA, or secret for HS256",
            );
            None
        }
        (None, None) => {
            table.missing("jwks", "write jwks = \"https://…\", or secret = \"NAME\" for HS256");
            None
        }
    }
}

fn binding(given: &str) -> Result<String, Wrong> {
    text::binding(given).map_err(|wrong| {
        Wrong::new(wrong.problem, "write the name of a secret binding alone, such as \"JWT_SECRET\"")
    })
}

/// Whether each algorithm's keys can come from there. A public key that were taken for a shared secret would let
/// everybody sign.
fn fit(table: &Table<'_>, algorithms: &[JwtAlgorithm], keys: &JwtKeys) -> bool {
    let items = table.get("algorithms").and_then(|field| field.items()).unwrap_or_default();
    let mut fit = true;
    for (item, algorithm) in items.iter().zip(algorithms) {
        let name = algorithm.name();
        match (algorithm, keys) {
            (JwtAlgorithm::Hs256, JwtKeys::Jwks(_)) => item.wrong(
                format!("{name} needs a shared secret, and a key set holds public keys"),
                "write secret = \"NAME\" instead of jwks, or another algorithm",
            ),
            (JwtAlgorithm::Rs256 | JwtAlgorithm::Es256 | JwtAlgorithm::EdDsa, JwtKeys::Secret(_)) => item
                .wrong(
                    format!("{name} needs public keys, and a secret is none"),
                    "write jwks = \"https://…\" instead of secret, or algorithms = [\"HS256\"]",
                ),
            _ => continue,
        }
        fit = false;
    }
    fit
}

/// One text, or a list of them.
fn texts(field: &Field<'_>) -> Option<Vec<String>> {
    let one = |field: &Field<'_>| {
        let text = field.text()?;
        if text.is_empty() {
            field.wrong("the text is empty", "write what the claim must be, or remove the field");
            return None;
        }
        Some(text.to_owned())
    };
    if !matches!(field.value(), Value::Array(_)) {
        return one(field).map(|text| vec![text]);
    }
    let texts = field.each(one)?;
    if texts.is_empty() {
        field.wrong("nothing would ever fit", "write at least one text, or remove the field");
        return None;
    }
    Some(texts)
}

/// Every place that names a claim, right or wrong in itself. What is of the wrong kind is reported where it is read.
fn uses<'a>(top: &Table<'a>) -> Vec<Field<'a>> {
    let mut found = Vec::new();
    for limit in listed(top.get("limits")) {
        let Value::Table(entries) = limit.value() else { continue };
        for (name, _) in entries {
            let field = limit.named(name);
            match name.as_str() {
                "key" => found.extend(listed(Some(field)).into_iter().filter(is_claim)),
                "plan" | "idempotency" => found.extend([field].into_iter().filter(is_claim)),
                "exempt" => found.extend(exempting(&field)),
                _ => {}
            }
        }
    }
    if let Some(defaults) = top.get("defaults") {
        found.extend(exempting(&defaults.named("exempt")));
    }
    found
}

fn listed(field: Option<Field<'_>>) -> Vec<Field<'_>> {
    let list = field.filter(|field| matches!(field.value(), Value::Array(_)));
    list.and_then(|field| field.items()).unwrap_or_default()
}

fn exempting<'a>(field: &Field<'a>) -> Vec<Field<'a>> {
    let Value::Table(entries) = field.value() else { return Vec::new() };
    entries.iter().filter(|(name, _)| names_claim(name)).map(|(name, _)| field.named(name)).collect()
}

fn is_claim(field: &Field<'_>) -> bool {
    matches!(field.value(), Value::String(text) if names_claim(text))
}

fn names_claim(text: &str) -> bool {
    text.starts_with("jwt:")
}
