//! TOML → tree, with the line of every key. Host only.

use toml_edit::{Document, Item, Table, Value as TomlValue};

use super::{Node, Value};
use crate::policy::error::PolicyError;

/// Parses a text; the one error of a text that is not TOML has the parser's line.
pub(super) fn parse(text: &str) -> Result<Node, PolicyError> {
    let lines = Lines(text);
    let document = Document::parse(text).map_err(|error| PolicyError {
        line: lines.of(error.span()),
        place: String::new(),
        problem: format!("not TOML: {}", error.message().lines().collect::<Vec<_>>().join(", ")),
        cure: "see https://toml.io for how it is written".to_owned(),
    })?;
    Ok(Node { value: table(document.as_table(), &lines), line: Some(1) })
}

/// Byte offsets → line numbers.
struct Lines<'t>(&'t str);

impl Lines<'_> {
    fn of(&self, span: Option<std::ops::Range<usize>>) -> Option<u32> {
        let before = self.0.as_bytes().get(..span?.start)?;
        u32::try_from(before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1)).ok()
    }
}

fn table(table: &Table, lines: &Lines<'_>) -> Value {
    let fields = table.iter().map(|(name, item)| {
        // `[a.b]` makes a table `a` that was never written: its own line is that of what it holds.
        let line = lines.of(table.key(name).and_then(toml_edit::Key::span)).or_else(|| lines.of(item.span()));
        (name.to_owned(), Node { value: of_item(item, lines), line })
    });
    Value::Table(fields.collect())
}

fn of_item(item: &Item, lines: &Lines<'_>) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => of_value(value, lines),
        Item::Table(inner) => table(inner, lines),
        Item::ArrayOfTables(tables) => Value::Array(
            tables.iter().map(|one| Node { value: table(one, lines), line: lines.of(one.span()) }).collect(),
        ),
    }
}

fn of_value(value: &TomlValue, lines: &Lines<'_>) -> Value {
    match value {
        TomlValue::String(text) => Value::String(text.value().clone()),
        TomlValue::Integer(number) => Value::Int(*number.value()),
        TomlValue::Float(number) => Value::Float(*number.value()),
        TomlValue::Boolean(flag) => Value::Bool(*flag.value()),
        TomlValue::Datetime(date) => Value::Date(date.value().to_string()),
        TomlValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|one| Node { value: of_value(one, lines), line: lines.of(one.span()) })
                .collect(),
        ),
        TomlValue::InlineTable(inner) => Value::Table(
            inner
                .iter()
                .map(|(name, one)| {
                    let line = lines.of(inner.key(name).and_then(toml_edit::Key::span));
                    (name.to_owned(), Node { value: of_value(one, lines), line })
                })
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(value: &Value, place: &str, out: &mut Vec<(String, Option<u32>)>) {
        if let Value::Table(fields) = value {
            for (name, node) in fields {
                out.push((format!("{place}{name}"), node.line));
                lines(&node.value, &format!("{place}{name}."), out);
            }
        }
        if let Value::Array(items) = value {
            for (index, node) in items.iter().enumerate() {
                out.push((format!("{place}{index}"), node.line));
                lines(&node.value, &format!("{place}{index}."), out);
            }
        }
    }

    #[test]
    fn every_key_knows_its_line() {
        let text =
            "a = 1\n[b]\nc = [\n 'x',\n 'y',\n]\n\n[[d]]\ne = { f = 1 }\n[[d]]\ng.h = 1\n[i.j]\nk = 1\n";
        let mut found = Vec::new();
        lines(&parse(text).unwrap().value, "", &mut found);
        let expected = [
            ("a", 1),
            ("b", 2),
            ("b.c", 3),
            ("b.c.0", 4),
            ("b.c.1", 5),
            ("d", 8),
            ("d.0", 8),
            ("d.0.e", 9),
            ("d.0.e.f", 9),
            ("d.1", 10),
            ("d.1.g", 11),
            ("d.1.g.h", 11),
            ("i", 12),
            ("i.j", 12),
            ("i.j.k", 13),
        ];
        assert_eq!(found, expected.map(|(name, line)| (name.to_owned(), Some(line))));
    }

    #[test]
    fn the_first_column_is_the_right_line() {
        assert_eq!(parse("\n\n  = 1\n").unwrap_err().line, Some(3));
        assert_eq!(parse("a = 1\na = 2\n").unwrap_err().line, Some(2));
    }
}
