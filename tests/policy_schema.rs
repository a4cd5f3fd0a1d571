//! `policy.schema.json` says of a policy what the parser says, as far as a schema can.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sluicegate::policy::Policy;
use sluicegate::policy::document::{read_json, read_toml, toml_to_json};
use sluicegate::policy::validate::KNOWN;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn schema() -> Value {
    serde_json::from_str(&fs::read_to_string(root().join("policy.schema.json")).unwrap()).unwrap()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("tests/policies").join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_schema_is_one() {
    assert!(jsonschema::meta::is_valid(&schema()));
}

/// Whole policies in the pages.
fn in_pages() -> Vec<(PathBuf, String)> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    let mut found = Vec::new();
    for path in pages.chain([root().join("README.md")]) {
        let page = fs::read_to_string(&path).unwrap();
        let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```"));
        let whole = blocks.map(|(block, _)| block.to_owned()).filter(|block| block.contains("version = 1"));
        found.extend(whole.map(|block| (path.clone(), block)));
    }
    found
}

#[test]
fn good_policies_are_valid() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let examples = fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let files = files("good").into_iter().chain([root().join("policy.toml")]).chain(examples);
    let read = files.map(|path| (path.clone(), fs::read_to_string(path).unwrap()));
    for (path, text) in read.chain(in_pages()) {
        let policy = serde_json::from_str(&toml_to_json(&text).unwrap()).unwrap();
        let errors: Vec<_> = validator.iter_errors(&policy).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
}

/// What a bad file says of the schema: `# schema: refuses` where it finds anything wrong, and
/// `# schema: cannot LINE: REASON` for each error that it cannot see, such as arithmetic and names that are nowhere.
fn unseen(text: &str) -> Vec<u32> {
    let marks = text.lines().filter_map(|line| line.strip_prefix("# schema: cannot "));
    marks
        .map(|mark| {
            let (line, reason) = mark.split_once(": ").unwrap();
            assert!(reason.len() > 10, "a reason: {mark}");
            line.parse().unwrap()
        })
        .collect()
}

/// Whether the schema's error at `pointer` can be the one that the parser has at `place`: at the same value, or at the
/// value's table, which lacks it, does not know it or, as a plan, may be of several kinds.
fn is_at(pointer: &str, place: &str, missing: bool) -> bool {
    let within = |outer: &str, inner: &str| inner.rsplit_once('/').is_some_and(|(parent, _)| parent == outer);
    let above = missing && place.strip_prefix(pointer).is_some_and(|rest| rest.starts_with('/'));
    pointer == place || within(pointer, place) || within(place, pointer) || above
}

#[test]
fn each_error_of_bad_policies_is_seen_or_said_to_be_out_of_reach() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut wrong = Vec::new();
    for path in files("bad").into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "toml")) {
        let name = path.file_name().unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        // What is not TOML an editor marks by itself.
        let Ok(json) = toml_to_json(&text) else { continue };
        let json = serde_json::from_str(&json).unwrap();
        let seen: Vec<_> =
            validator.iter_errors(&json).map(|error| error.instance_path().to_string()).collect();
        let says = text.lines().any(|line| line == "# schema: refuses");
        if says == seen.is_empty() {
            wrong.push(format!("{name}: `# schema: refuses` stands there: {says}; the schema sees {seen:?}"));
        }
        let mut unseen = unseen(&text);
        for error in read_toml(&text).err().unwrap_or_default() {
            let place = format!("/{}", error.place.replace(['[', '.'], "/").replace(']', ""));
            let found = seen.iter().any(|pointer| is_at(pointer, &place, error.problem == "is missing"));
            let marked = unseen.iter().position(|line| Some(*line) == error.line);
            match (found, marked) {
                (false, Some(mark)) => drop(unseen.remove(mark)),
                (true, None) => {}
                (true, Some(_)) => wrong.push(format!("{name}:{error}\n    the schema sees it after all")),
                (false, None) => {
                    wrong.push(format!(
                        "{name}:{error}\n    the schema sees only {seen:?}; teach it, or say why it cannot"
                    ));
                }
            }
        }
        wrong.extend(
            unseen.iter().map(|line| format!("{name}: there is no error on line {line} to be unseen")),
        );
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The schema's object for each table of [`KNOWN`].
fn object<'s>(schema: &'s Value, table: &str) -> &'s Value {
    let place = match table {
        "" => String::new(),
        "gateway" | "store" | "degraded" | "jwt" | "defaults" => format!("/properties/{table}"),
        _ => format!("/$defs/{table}"),
    };
    schema.pointer(&place).unwrap_or_else(|| panic!("no {place} in the schema"))
}

#[test]
fn the_schema_knows_the_fields_the_parser_knows() {
    let schema = schema();
    for (table, fields) in KNOWN {
        let object = object(&schema, table);
        let properties: BTreeSet<_> =
            object["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(properties, fields.iter().copied().collect(), "[{table}]");
        assert_eq!(object["additionalProperties"], json!(false), "[{table}]");
    }
}

/// Every property, wherever it stands, tells an editor what it means.
#[test]
fn every_property_is_described() {
    fn walk(place: &str, value: &Value, wrong: &mut Vec<String>) {
        let Value::Object(fields) = value else { return };
        if let Some(Value::Object(properties)) = fields.get("properties")
            && fields.contains_key("type")
        {
            let bare = properties.iter().filter(|(_, property)| {
                !property["description"].as_str().is_some_and(|text| text.ends_with(['.', ')']))
            });
            wrong.extend(bare.map(|(name, _)| format!("{place}/{name}")));
        }
        for (name, inner) in
            fields.iter().filter(|(name, _)| !matches!(name.as_str(), "allOf" | "if" | "then" | "else"))
        {
            walk(&format!("{place}/{name}"), inner, wrong);
        }
    }
    let mut wrong = Vec::new();
    walk("", &schema(), &mut wrong);
    assert!(wrong.is_empty(), "no description, or one that is no sentence: {wrong:#?}");
}

/// Optional fields without one default, and why.
const WITHOUT_DEFAULT: [(&str, &str, &str); 38] = [
    ("limit", "settle", "the cost is final"),
    ("", "store", "its fields have their own"),
    ("", "degraded", "its fields have their own"),
    ("", "jwt", "no token is believed"),
    ("", "defaults", "its fields are for limits that do not say"),
    ("", "limits", "a list: none"),
    ("", "routes", "a list: none"),
    ("gateway", "origin_timeout", "the platform's own"),
    ("store", "breaker", "its fields have their own"),
    ("store", "retry", "its fields have their own"),
    ("store.breaker", "slow_call", "a part of store.timeout"),
    ("degraded", "binding", "none is asked"),
    ("jwt", "jwks", "secret is there instead"),
    ("jwt", "secret", "jwks is there instead"),
    ("jwt", "issuer", "any issuer"),
    ("jwt", "audience", "any audience"),
    ("defaults", "on_store_error", "each limit says"),
    ("defaults", "on_missing_key", "that of limits"),
    ("defaults", "shadow", "that of limits"),
    ("defaults", "exempt", "nobody"),
    ("limit", "window", "a concurrency limit has none, any other must"),
    ("limit", "lease", "a concurrency limit must, any other has none"),
    ("limit", "burst", "the limit"),
    ("limit", "plan", "no plans"),
    ("limit", "plans", "no plans"),
    ("limit", "on_store_error", "[defaults] or an error"),
    ("limit", "exempt", "that of [defaults]"),
    ("limit", "idempotency", "no attribute"),
    ("limit", "over_limit", "it is refused"),
    ("over_limit", "delay", "one of delay and queue is written"),
    ("over_limit", "queue", "one of delay and queue is written"),
    ("over_limit", "dead_letter", "by the name of the queue"),
    ("limit", "lease_batch", "no batches"),
    ("limit", "lease_ttl", "no batches"),
    ("plan", "burst", "the limit's proportion"),
    ("route", "methods", "every method"),
    ("route", "host", "every host"),
    ("route", "origin", "gateway.origin"),
];

#[test]
fn optional_fields_state_their_default() {
    let schema = schema();
    for (table, fields) in KNOWN {
        let object = object(&schema, table);
        let required = object["required"].as_array().cloned().unwrap_or_default();
        for name in fields.iter().filter(|name| !required.contains(&json!(name))) {
            let property = &object["properties"][name];
            let excused = WITHOUT_DEFAULT.iter().any(|(of, field, _)| (of, field) == (&table, name));
            assert_ne!(
                property.get("default").is_some(),
                excused,
                "[{table}] {name}: a default, or a reason for none"
            );
        }
    }
}

/// What the schema calls a default is what the parser takes when nothing is said.
#[test]
fn defaults_are_the_parsers() {
    let schema = schema();
    let defaults = |table: &str| {
        let properties = object(&schema, table)["properties"].as_object().unwrap();
        let said = properties.iter().filter_map(|(name, p)| Some((name.clone(), p.get("default")?.clone())));
        said.collect::<serde_json::Map<_, _>>()
    };
    let mut limit = json!({"name": "a", "algorithm": "fixed-window", "limit": 9, "window": "1s", "key": ["ip"],
        "on_store_error": "open", "cost": {"header": "x-cost", "max": 5}, "idempotency": "jwt:jti",
        "over_limit": {"queue": "WORK"}});
    let jwt = json!({"algorithms": ["HS256"], "secret": "S"});
    let mut plain =
        json!({"version": 1, "gateway": {"origin": "binding:API"}, "jwt": jwt, "limits": [limit]});
    let shown = |policy: &Value| {
        let Policy { gateway, store, degraded, jwt, limits, .. } = read_json(&policy.to_string()).unwrap();
        format!("{gateway:#?} {store:#?} {degraded:#?} {jwt:#?} {limits:#?}")
    };
    let without = shown(&plain);
    for table in ["gateway", "store", "store.breaker", "store.retry", "degraded", "jwt"] {
        let said = defaults(table);
        assert!(!said.is_empty());
        for (name, value) in said {
            let place = table.split('.').fold(&mut plain, |at, part| &mut at[part]);
            place[name] = value;
        }
    }
    limit["cost"]["default"] = defaults("cost")["default"].clone();
    for (name, value) in defaults("over_limit").into_iter().filter(|(name, _)| name != "waiting") {
        limit["over_limit"][name] = value;
    }
    for (name, value) in defaults("limit").into_iter().filter(|(name, _)| name != "cost") {
        limit[name] = value;
    }
    plain["limits"][0] = limit;
    assert_eq!(shown(&plain), without);
    let waiting = |over_limit: Value| {
        let mut plain = plain.clone();
        plain["limits"][0]["algorithm"] = json!("token-bucket");
        plain["limits"][0]["over_limit"] = over_limit;
        shown(&plain)
    };
    let said = json!({"delay": "2s", "waiting": defaults("over_limit")["waiting"]});
    assert_eq!(waiting(said), waiting(json!({"delay": "2s"})));
    // A cost that is said replaces the table above, so it is held against none.
    let mut costless = plain.clone();
    costless["limits"][0].as_object_mut().unwrap().remove("cost");
    let without = shown(&costless);
    costless["limits"][0]["cost"] = defaults("limit")["cost"].clone();
    assert_eq!(shown(&costless), without);
}
