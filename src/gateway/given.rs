//! A subject that the API is told part by part, instead of a request that it would be read from.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

use crate::policy::{KeyPart, octets, path};
use crate::subject::request::canonical_host;
use crate::subject::{Attributes, address};

/// The parts with their values, canonical as a request's own would be.
#[derive(Debug, Default)]
pub struct Given {
    values: Vec<(KeyPart, String)>,
    address: Option<IpAddr>,
}

impl Given {
    /// Reads values by the parts' names.
    ///
    /// # Errors
    /// A name that is no key part's, or an address that is none; the text says which.
    pub fn read(subject: &HashMap<String, String>, ipv6_prefix: u8) -> Result<Self, String> {
        let mut given = Self::default();
        for (part, value) in subject {
            let part = KeyPart::parse(part)
                .map_err(|wrong| format!("subject: {}; {}", wrong.problem, wrong.cure))?;
            if given.values.iter().any(|(known, _)| *known == part) {
                return Err(format!("subject: {part} is named twice, in other letters"));
            }
            let value = text(&part, value.as_bytes());
            given.set(part, &value, ipv6_prefix).map_err(|detail| format!("subject: {detail}"))?;
        }
        Ok(given)
    }

    /// Takes in one part as a client would send it.
    ///
    /// # Errors
    /// An address that is none.
    pub fn set(&mut self, part: KeyPart, value: &str, ipv6_prefix: u8) -> Result<(), String> {
        let value = match part {
            KeyPart::Ip => {
                let (found, counted) =
                    address::named(value, ipv6_prefix).ok_or("ip must be one IPv4 or IPv6 address")?;
                self.address = Some(found);
                counted
            }
            KeyPart::Host => canonical_host(value).into_owned(),
            KeyPart::Path => path::canonical(value).into_owned(),
            _ => value.to_owned(),
        };
        match self.values.iter_mut().find(|(known, _)| *known == part) {
            Some((_, known)) => *known = value,
            None => self.values.push((part, value)),
        }
        Ok(())
    }
}

/// The text of a part's bytes as a request's own is read: in a URL each byte that is no UTF-8 is kept apart, elsewhere
/// the platform has made U+FFFD of it.
pub fn text<'a>(part: &KeyPart, bytes: &'a [u8]) -> Cow<'a, str> {
    match part {
        KeyPart::Query(_) | KeyPart::Param(_) => octets::to_text(bytes.to_vec()).into(),
        _ => String::from_utf8_lossy(bytes),
    }
}

impl Attributes for Given {
    fn value(&self, part: &KeyPart) -> Option<Cow<'_, str>> {
        let (_, value) = self.values.iter().find(|(known, _)| known == part)?;
        Some(value).filter(|value| !value.trim().is_empty()).map(|value| Cow::Borrowed(value.as_str()))
    }

    fn address(&self) -> Option<IpAddr> {
        self.address
    }

    fn header(&self, name: &str) -> Option<String> {
        let is_it = |part: &KeyPart| matches!(part, KeyPart::Header(known) if known == name);
        self.values.iter().find(|(part, _)| is_it(part)).map(|(_, value)| value.clone())
    }
}
