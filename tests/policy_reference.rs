//! `docs/policy.md` has every field of the policy, no other, and says of each what the schema says: whether it must be
//! written, its default, its bounds and the words it may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use sluicegate::policy::{bounds, duration};

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The heading of an object of the schema: what the page calls the table.
fn heading(pointer: &str) -> String {
    match pointer {
        "" => "The top level".to_owned(),
        "/$defs/limit" => "[[limits]]".to_owned(),
        "/$defs/route" => "[[routes]]".to_owned(),
        "/$defs/plan" => "`plans`".to_owned(),
        other => match other.strip_prefix("/$defs/") {
            // `store.breaker` is a table of a section, `cost` a value of a limit.
            Some(name) if name.contains('.') => format!("[{name}]"),
            Some(name) => format!("`{name}`"),
            None => {
                format!("[{}]", other.trim_start_matches('/').replace("properties/", "").replace('/', "."))
            }
        },
    }
}

/// Every object of the schema that has properties, under its heading. What conditions say is no object of its own.
fn objects<'s>(pointer: &str, value: &'s Value, found: &mut BTreeMap<String, &'s Value>) {
    let Value::Object(fields) = value else { return };
    if fields.contains_key("properties") && fields.get("type") == Some(&Value::from("object")) {
        found.insert(heading(pointer), value);
    }
    for (name, inner) in
        fields.iter().filter(|(name, _)| !matches!(name.as_str(), "allOf" | "anyOf" | "if" | "then" | "else"))
    {
        objects(&format!("{pointer}/{name}"), inner, found);
    }
}

/// The rows of each section's table of fields: field → (type, default, meaning).
type Rows = BTreeMap<String, [String; 3]>;

fn sections(page: &str) -> BTreeMap<String, Rows> {
    let mut sections = BTreeMap::new();
    let mut at = String::new();
    let mut of_fields = false;
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")) {
            at = title.to_owned();
        }
        if line.starts_with("| ") {
            of_fields |= line == "| field | type | default | meaning |";
        } else if !line.starts_with('|') {
            of_fields = false;
        }
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let (true, Some(field)) =
            (of_fields, cells[0].strip_prefix('`').and_then(|cell| cell.strip_suffix('`')))
        {
            let [_, kind, default, meaning] = cells.as_slice() else { panic!("four cells: {line}") };
            let rows: &mut Rows = sections.entry(at.clone()).or_default();
            let row = [kind, default, meaning].map(|cell| (*cell).to_owned());
            assert!(rows.insert(field.to_owned(), row).is_none(), "{at}: two rows for `{field}`");
        }
    }
    sections
}

/// A property with what its reference adds.
fn resolved(schema: &Value, property: &Value) -> Vec<Value> {
    let mut parts = vec![property.clone()];
    if let Some(target) = property["$ref"].as_str() {
        parts.extend(resolved(schema, schema.pointer(target.trim_start_matches('#')).unwrap()));
    }
    for inner in property["anyOf"].as_array().into_iter().flatten() {
        parts.extend(resolved(schema, inner));
    }
    parts
}

/// Bounds that tell a reader nothing: the greatest integer a double holds, and the longest name of a host.
const UNTOLD: [u64; 2] = [(1 << 53) - 1, 254];

/// What is wrong with the row of one field.
fn row(
    schema: &Value,
    property: &Value,
    required: bool,
    [kind, default, meaning]: &[String; 3],
) -> Vec<String> {
    let mut wrong = Vec::new();
    // TOML writes these values as JSON does.
    let said = property.get("default").map(|value| format!("`{}`", value.to_string().replace(',', ", ")));
    let awaited = said.unwrap_or_else(|| "—".to_owned());
    if *default != awaited {
        wrong.push(format!("its default is {awaited}, not {default}"));
    }
    if required && !meaning.to_lowercase().contains("must be written") {
        wrong.push("it must be written, and its meaning does not say so".to_owned());
    }
    if !required && meaning.contains("Must be written.") {
        wrong.push("it need not be written".to_owned());
    }
    let names_key_part =
        |part: &Value| part["pattern"].as_str().is_some_and(|pattern| pattern.contains("query:"));
    let parts = resolved(schema, property);
    if parts.iter().any(names_key_part) {
        return wrong;
    }
    for part in &parts {
        let words = [&part["enum"], &part["items"]["enum"]].into_iter().filter_map(Value::as_array).flatten();
        let absent = words.filter(|word| !kind.contains(&format!("`{word}`")));
        wrong.extend(absent.map(|word| format!("its type does not name {word}")));
        for bound in ["minimum", "maximum", "maxLength", "maxItems"] {
            let Some(number) = part[bound].as_u64().filter(|number| !UNTOLD.contains(number)) else {
                continue;
            };
            if !kind.split(|c: char| !c.is_ascii_digit()).any(|digits| digits == number.to_string()) {
                wrong.push(format!("its type does not name the {bound} {number}"));
            }
        }
    }
    wrong
}

#[test]
fn every_field_stands_in_the_reference_as_it_is() {
    let schema: Value = serde_json::from_str(&read("policy.schema.json")).unwrap();
    let mut objects_by_heading = BTreeMap::new();
    objects("", &schema, &mut objects_by_heading);
    let sections = sections(&read("docs/policy.md"));
    let mut wrong = Vec::new();
    for (heading, object) in &objects_by_heading {
        let Some(rows) = sections.get(heading) else {
            wrong.push(format!(
                "docs/policy.md: no section {heading:?} with a table | field | type | default | meaning |"
            ));
            continue;
        };
        let properties = object["properties"].as_object().unwrap();
        let known: BTreeSet<_> = properties.keys().collect();
        let told: BTreeSet<_> = rows.keys().collect();
        wrong.extend(
            known.difference(&told).map(|name| format!("docs/policy.md, {heading}: no row for `{name}`")),
        );
        wrong.extend(
            told.difference(&known)
                .map(|name| format!("docs/policy.md, {heading}: `{name}` is no field (any more)")),
        );
        for (name, property) in properties {
            let required = object["required"]
                .as_array()
                .is_some_and(|names| names.contains(&Value::from(name.as_str())));
            let problems = rows.get(name).map_or(Vec::new(), |cells| row(&schema, property, required, cells));
            wrong.extend(
                problems.iter().map(|problem| format!("docs/policy.md, {heading}, `{name}`: {problem}")),
            );
        }
    }
    let stale = sections.keys().filter(|heading| !objects_by_heading.contains_key(*heading));
    wrong.extend(
        stale.map(|heading| format!("docs/policy.md: the section {heading:?} is of no table of the schema")),
    );
    assert!(objects_by_heading.len() >= 12, "{:?}", objects_by_heading.keys());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Durations are text to the schema; their bounds are the parser's.
#[test]
fn bounds_of_durations_are_the_parsers() {
    let window = (bounds::MIN_WINDOW_MS, bounds::MAX_WINDOW_MS);
    let breaker = ["window", "slow_call", "open", "max_open", "long_open"];
    let fields = [
        ("[gateway]", "origin_timeout", bounds::ORIGIN_TIMEOUT_MS),
        ("[store]", "timeout", bounds::TIMEOUT_MS),
        ("[store]", "remember", bounds::REMEMBER_MS),
        ("[store.retry]", "backoff", bounds::BACKOFF_MS),
        ("[jwt]", "leeway", bounds::LEEWAY_MS),
        ("[[limits]]", "window", window),
        ("[[limits]]", "lease", bounds::LEASE_MS),
        ("`over_limit`", "delay", bounds::DELAY_MS),
    ];
    let fields = fields.into_iter().chain(breaker.map(|name| ("[store.breaker]", name, bounds::BREAKER_MS)));
    let sections = sections(&read("docs/policy.md"));
    for (section, field, (least, most)) in fields {
        let bounds = format!("duration, {} to {}", duration::to_text(least), duration::to_text(most));
        let kind = &sections[section][field][0];
        assert!(kind.starts_with(&bounds), "{section} `{field}`: {bounds}, not {kind}");
    }
}

/// Each section of fields shows a policy; that they are good, `docs.rs` sees to.
#[test]
fn every_section_has_an_example() {
    let page = read("docs/policy.md");
    let mut left: BTreeSet<_> = sections(&page).into_keys().collect();
    let mut at = "";
    for line in page.lines() {
        at = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")).unwrap_or(at);
        // The example of the limit's own fields stands behind the key parts.
        if line == "```toml" {
            left.remove(if at == "Key parts" { "[[limits]]" } else { at });
        }
    }
    assert!(left.is_empty(), "no example in {left:?}");
}
