//! The command line.

use std::ffi::OsString;

use crate::request::{Described, Request};

/// What `--help` and a wrong command line print.
pub const USAGE: &str = "\
usage: npm run check -- [policy.toml] [--json]
       npm run check -- [policy.toml] --canonical
       npm run check -- [policy.toml] --explain METHOD URL [-H 'Name: value']… [--country XX] [--asn N]
                       [--claim name=value]… [--json]

Validates a policy: TOML, or JSON where the name ends in .json. Without a name it is policy.toml.

  --explain METHOD URL  print the route, the limits, the keys and the plan that a request would get, and its answer.
                        The URL is whole, or a path such as /v1/chat?x=1. Bindings are taken from the environment:
                        KEY_SECRET, and those that exemptions name
  -H 'Name: value'      a header of that request; as often as there are headers
  --country XX          the client's country, as Cloudflare would say it
  --asn N               the client's autonomous system number
  --claim name=value    a claim of its verified token; as often as there are claims
  --json                print JSON: the policy or its errors; the explanation
  --canonical           print the policy and nothing else, in one line of JSON: what the key `policy` of POLICY_KV holds

ends 0 where the policy is right, 1 where it is wrong, 2 where the command line is";

/// What was asked for.
#[derive(Debug)]
pub enum Asked {
    /// The usage.
    Help,
    /// A policy's check.
    Check(Wanted),
}

/// A policy's check.
#[derive(Debug)]
pub struct Wanted {
    /// Name of the policy's file.
    pub file: String,
    /// JSON rather than text.
    pub json: bool,
    /// The policy itself, in JSON, rather than what is to be said of it.
    pub canonical: bool,
    /// The request to explain.
    pub request: Option<Request>,
}

/// Reads the arguments behind the program's name.
///
/// # Errors
/// What is wrong with them.
pub fn read(arguments: impl Iterator<Item = OsString>) -> Result<Asked, String> {
    let mut arguments = arguments.map(|argument| {
        argument.into_string().map_err(|odd| format!("the argument {} is not UTF-8", odd.display()))
    });
    let (mut file, mut json, mut canonical, mut line) = (None, false, false, None);
    let (mut headers, mut claims) = (Vec::new(), Vec::new());
    let (mut country, mut asn) = (None, None);
    let mut of_request = None;
    while let Some(argument) = arguments.next().transpose()? {
        let mut value = |what: &str| {
            let missing = format!("{argument} wants {what}");
            arguments.next().transpose()?.ok_or(missing)
        };
        match argument.as_str() {
            "--help" | "-h" => return Ok(Asked::Help),
            "--json" => json = true,
            "--canonical" => canonical = true,
            "--explain" => once(
                &mut line,
                "--explain",
                (value("a method and a URL")?, value("a URL behind the method")?),
            )?,
            "-H" | "--header" => headers.push(value("a header, such as -H 'x-tenant: acme'")?),
            "--claim" => claims.push(value("a claim, such as --claim sub=ada")?),
            "--country" => once(&mut country, "--country", value("two letters")?)?,
            "--asn" => once(&mut asn, "--asn", value("a number")?)?,
            option if option.starts_with('-') => return Err(format!("unknown option {option}")),
            _ => once(&mut file, "a policy", argument.clone())?,
        }
        if matches!(argument.as_str(), "-H" | "--header" | "--country" | "--asn" | "--claim") {
            of_request = Some(argument);
        }
    }
    let request = match (line, of_request) {
        (Some((method, url)), _) => {
            let described = Described { headers, claims, country, asn };
            Some(Request::read(method, &url, described)?)
        }
        (None, Some(option)) => {
            return Err(format!("{option} describes a request: write --explain METHOD URL as well"));
        }
        (None, None) => None,
    };
    if canonical && (json || request.is_some()) {
        return Err("--canonical prints the policy alone: leave --json and --explain out".to_owned());
    }
    let file = file.unwrap_or_else(|| "policy.toml".to_owned());
    Ok(Asked::Check(Wanted { file, json, canonical, request }))
}

fn once<T>(slot: &mut Option<T>, what: &str, value: T) -> Result<(), String> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{what} is given twice")),
    }
}
