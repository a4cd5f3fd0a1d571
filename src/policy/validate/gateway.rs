//! `[gateway]`.

use super::fields::{Field, Table};
use crate::policy::document::Value;
use crate::policy::{Cors, Gateway, HeaderDialect, Origin, Unmatched};
use crate::policy::{bounds, cors::web_origin, text};

/// Fields of `[gateway]`.
pub(super) const GATEWAY: &[&str] =
    &["origin", "origin_timeout", "client_ip", "ipv6_prefix", "unmatched", "headers", "tier_header", "cors"];

/// Reads a field, or takes the default where it was not written.
pub(super) fn or<'a, T>(
    field: Option<Field<'a>>,
    default: T,
    read: impl FnOnce(&Field<'a>) -> Option<T>,
) -> Option<T> {
    field.map_or(Some(default), |field| read(&field))
}

pub(super) fn gateway(table: &Table<'_>) -> Option<Gateway> {
    let origin = table
        .required("origin", "write origin = \"https://host\" or origin = \"binding:NAME\" in [gateway]")
        .and_then(|field| field.parsed(Origin::parse));
    let origin_timeout_ms =
        or(table.get("origin_timeout"), None, |field| field.duration(bounds::ORIGIN_TIMEOUT_MS).map(Some));
    let client_ip =
        or(table.get("client_ip"), "cf-connecting-ip".to_owned(), |field| field.parsed(text::header));
    let ipv6_prefix = or(table.get("ipv6_prefix"), 64, |field| {
        field.whole(bounds::IPV6_PREFIX).and_then(|bits| u8::try_from(bits).ok())
    });
    let unmatched = or(table.get("unmatched"), Unmatched::Pass, |field| {
        field.choice(&[("pass", Unmatched::Pass), ("deny", Unmatched::Deny)])
    });
    let headers = or(table.get("headers"), vec![HeaderDialect::Draft10], header_dialects);
    let tier_header = or(table.get("tier_header"), false, Field::flag);
    let cors = or(table.get("cors"), Cors::Nobody, cors);
    Some(Gateway {
        origin: origin?,
        client_ip: client_ip?,
        ipv6_prefix: ipv6_prefix?,
        unmatched: unmatched?,
        headers: headers?,
        tier_header: tier_header?,
        origin_timeout_ms: origin_timeout_ms?,
        cors: cors?,
    })
}

fn header_dialects(field: &Field<'_>) -> Option<Vec<HeaderDialect>> {
    let dialects = field.each(|item| {
        item.choice(&[
            ("draft-10", HeaderDialect::Draft10),
            ("draft-03", HeaderDialect::Draft03),
            ("x-ratelimit", HeaderDialect::XRateLimit),
        ])
    })?;
    once_each(field, &dialects, "dialect")?;
    Some(dialects)
}

fn cors(field: &Field<'_>) -> Option<Cors> {
    let items = field.items()?;
    if let Some(anyone) = items.iter().find(|item| item.value() == &Value::String("*".to_owned())) {
        if items.len() > 1 {
            anyone.wrong("\"*\" beside other origins", "write [\"*\"] alone, or the origins alone");
            return None;
        }
        return Some(Cors::Anyone);
    }
    let origins = field.each(|item| item.parsed(web_origin))?;
    once_each(field, &origins, "origin")?;
    Some(if origins.is_empty() { Cors::Nobody } else { Cors::Listed(origins) })
}

/// Reports the first element of a list that stands there twice.
fn once_each<T: PartialEq>(field: &Field<'_>, values: &[T], what: &str) -> Option<()> {
    let mut before: Vec<&T> = Vec::new();
    for (item, value) in field.items()?.iter().zip(values) {
        if before.contains(&value) {
            item.wrong(format!("the same {what} twice"), "write each once");
            return None;
        }
        before.push(value);
    }
    Some(())
}
