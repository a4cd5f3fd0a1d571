//! The request to explain, as the command line describes it.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use sluicegate::gateway::{self, Bindings, Gateway};
use sluicegate::policy::PolicyError;
use sluicegate::subject::{Claims, Platform};

use crate::source::Source;

/// A request and what the platform would say of it.
#[derive(Debug)]
pub struct Request {
    method: String,
    url: String,
    told: Told,
    claims: Claims,
}

/// The options that describe a request, as written.
#[derive(Debug)]
pub struct Described {
    /// `Name: value`.
    pub headers: Vec<String>,
    /// `name=value`.
    pub claims: Vec<String>,
    /// Two letters.
    pub country: Option<String>,
    /// A number.
    pub asn: Option<String>,
}

/// Headers and what the platform adds.
#[derive(Debug)]
struct Told {
    /// Names in lower case.
    headers: Vec<(String, String)>,
    country: Option<String>,
    asn: Option<String>,
}

impl Platform for Told {
    /// Several of one name are joined, as a Worker's `Headers` does.
    fn header(&self, name: &str) -> Option<String> {
        let values = self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let values: Vec<_> = values.collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    fn country(&self) -> Option<String> {
        self.country.clone()
    }

    fn asn(&self) -> Option<String> {
        self.asn.clone()
    }
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn read(method: String, url: &str, described: Described) -> Result<Self, String> {
        let Described { headers, claims, country, asn } = described;
        if !is_token(&method) {
            return Err(format!("{method:?} is not a method; write one such as GET"));
        }
        let headers = headers.iter().map(|text| header(text)).collect::<Result<Vec<_>, _>>()?;
        if country
            .as_ref()
            .is_some_and(|text| text.len() != 2 || !text.bytes().all(|b| b.is_ascii_uppercase()))
        {
            return Err("--country wants two capital letters, such as CH".to_owned());
        }
        if asn.as_ref().is_some_and(|text| text.parse::<u32>().is_err()) {
            return Err("--asn wants a number, such as 13335".to_owned());
        }
        let claims = claims.iter().map(|text| claim(text)).collect::<Result<serde_json::Map<_, _>, _>>()?;
        let claims = Claims::read(&serde_json::Value::from(claims).to_string());
        let told = Told { headers, country, asn };
        let url = if url.starts_with('/') {
            format!("http://{}{url}", told.header("host").unwrap_or_else(|| "localhost".to_owned()))
        } else {
            url.to_owned()
        };
        let after = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if after.is_none_or(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#'])) {
            return Err(format!("{url:?} is not a URL; write https://host/path, or a path such as /v1/chat"));
        }
        if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!("the URL {url:?} holds a space; write it percent-encoded, as %20"));
        }
        Ok(Self { method, url, told, claims })
    }

    /// The explanation under a policy, with the bindings that the environment has.
    ///
    /// # Errors
    /// The policy is wrong.
    pub fn explained(&self, source: &Source, as_json: bool) -> Result<String, Vec<PolicyError>> {
        let texts =
            source.bindings().into_iter().filter_map(|name| Some((name.to_owned(), env::var(name).ok()?)));
        let bindings = Bindings {
            key_secret: env::var("KEY_SECRET").ok(),
            texts: texts.collect(),
            ..Bindings::default()
        };
        let gateway = Gateway::new(&source.json, &bindings)?;
        let request = gateway::Request { method: &self.method, url: &self.url, platform: &self.told };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let explanation =
            gateway.explain(&request, &self.claims, u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        if as_json {
            return Ok(serde_json::to_string_pretty(&explanation).unwrap_or_default());
        }
        Ok(explanation.to_string())
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("-H {text:?} is not a header; write -H 'Name: value'");
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    if !is_token(name) || value.contains(char::is_control) {
        return Err(wrong());
    }
    Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
}

/// The first `=` parts a claim's name from its value.
fn claim(text: &str) -> Result<(String, serde_json::Value), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) =
        pair.ok_or_else(|| format!("--claim {text:?} is no claim; write --claim name=value"))?;
    Ok((name.to_owned(), value.into()))
}

/// RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
