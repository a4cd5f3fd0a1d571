//! `exempt = { ip = ["10.0.0.0/8"], "header:x-internal-token" = "binding:NAME" }`.

use super::fields::Field;
use crate::policy::address::Network;
use crate::policy::error::Wrong;
use crate::policy::order;
use crate::policy::{Exempt, ExemptValue, KeyPart, text};

/// Reads an exemption table; `None` when any of it is wrong.
pub(super) fn exempt(field: &Field<'_>) -> Option<Exempt> {
    let mut exempt = Exempt::default();
    let mut sound = true;
    for (name, entry) in field.entries()? {
        let read = match entry.checked(KeyPart::parse(name)) {
            None => None,
            Some(KeyPart::Global) => {
                entry.wrong("\"global\" holds for everybody", "write limit = \"unlimited\" for that");
                None
            }
            Some(KeyPart::Ip) => entry.each(|item| item.parsed(Network::parse)).map(|networks| {
                exempt.networks = networks;
            }),
            Some(part) if exempt.values.iter().any(|(other, _)| *other == part) => {
                entry.wrong(format!("\"{part}\" stands here twice"), "write it once");
                None
            }
            Some(part) => entry.parsed(value).map(|value| exempt.values.push((part, value))),
        };
        sound &= read.is_some();
    }
    // One order however it was written: what is compared first makes no difference to who is exempt.
    order::sort(&mut exempt.values, |(a, _), (b, _)| a <= b);
    sound.then_some(exempt)
}

fn value(given: &str) -> Result<ExemptValue, Wrong> {
    match given.strip_prefix("binding:") {
        Some(name) => text::binding(name).map(ExemptValue::Binding),
        // Absent and empty are the same to many a proxy in front: nobody means to exempt that.
        None if given.is_empty() => Err(Wrong::new("the value is empty", "write the value that exempts")),
        None => Ok(ExemptValue::Literal(given.to_owned())),
    }
}
