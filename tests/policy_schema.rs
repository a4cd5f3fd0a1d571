//! `policy.schema.json` says of a policy what the parser says, as far as a schema can.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sluicegate::policy::Policy;
use sluicegate::policy::document::{read_json, toml_to_json};
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

#[test]
fn good_policies_are_valid() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for path in files("good").into_iter().chain([root().join("policy.toml")]) {
        let json = toml_to_json(&fs::read_to_string(&path).unwrap()).unwrap();
        let policy = serde_json::from_str(&json).unwrap();
        let errors: Vec<_> = validator.iter_errors(&policy).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
}

/// Bad policies say `# schema: refuses` where the schema sees it too; the others hold what it cannot see, such as
/// arithmetic and names that are nowhere.
#[test]
fn bad_policies_are_refused_where_they_say_so() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut wrong = Vec::new();
    for path in files("bad") {
        let text = fs::read_to_string(&path).unwrap();
        let Ok(json) = toml_to_json(&text) else { continue };
        let valid = validator.is_valid(&serde_json::from_str(&json).unwrap());
        let says = text.lines().any(|line| line == "# schema: refuses");
        if valid == says {
            wrong.push(format!("{}: valid is {valid}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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

/// Every property tells an editor what it means.
#[test]
fn every_field_is_described() {
    let schema = schema();
    for (table, _) in KNOWN {
        for (name, property) in object(&schema, table)["properties"].as_object().unwrap() {
            let described = property["description"].as_str().is_some_and(|text| text.ends_with(['.', ')']));
            assert!(described, "[{table}] {name}");
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
        "on_store_error": "open", "cost": {"header": "x-cost", "max": 5}, "idempotency": "jwt:jti"});
    let jwt = json!({"algorithms": ["HS256"], "secret": "S"});
    let mut plain =
        json!({"version": 1, "gateway": {"origin": "binding:API"}, "jwt": jwt, "limits": [limit]});
    let shown = |policy: &Value| {
        let Policy { gateway, store, degraded, jwt, limits, .. } = read_json(&policy.to_string()).unwrap();
        format!("{gateway:#?} {store:#?} {degraded:#?} {jwt:#?} {limits:#?}")
    };
    let without = shown(&plain);
    for table in ["gateway", "store", "degraded", "jwt"] {
        let said = defaults(table);
        assert!(!said.is_empty());
        for (name, value) in said {
            plain[table][name] = value;
        }
    }
    limit["cost"]["default"] = defaults("cost")["default"].clone();
    for (name, value) in defaults("limit").into_iter().filter(|(name, _)| name != "cost") {
        limit[name] = value;
    }
    plain["limits"][0] = limit;
    assert_eq!(shown(&plain), without);
    assert_eq!(defaults("limit")["cost"], json!(1));
}
