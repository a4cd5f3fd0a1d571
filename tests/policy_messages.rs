//! The gallery of bad policies is complete: whatever the validator can say, some file of `tests/policies/bad` makes it
//! say. (What each file must give, and that it gives nothing else, is `policy_gallery`'s.)
//!
//! The room `src/policy` writes prose for errors only, so every string of its source that holds a space is a message
//! or a part of one.

use std::fs;
use std::path::{Path, PathBuf};

use sluicegate::policy::document::{read_json, read_toml};

fn files(folder: &Path, kinds: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, kinds));
        } else if path.extension().is_some_and(|kind| kinds.iter().any(|known| *known == kind)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every error that the gallery gives, as it is shown.
fn given() -> Vec<String> {
    let mut given = Vec::new();
    for path in files(&root().join("tests/policies/bad"), &["toml", "json"]) {
        let text = fs::read_to_string(&path).unwrap();
        let json = path.extension().is_some_and(|kind| kind == "json");
        let read = if json { read_json(&text) } else { read_toml(&text) };
        given.extend(read.err().unwrap_or_default().iter().map(ToString::to_string));
    }
    given
}

/// A string of the source and its line.
#[derive(Debug, PartialEq)]
struct Literal {
    line: usize,
    text: String,
}

/// The strings of a source, its comments left out.
fn literals(source: &str) -> Vec<Literal> {
    let mut found = Vec::new();
    let mut chars = source.chars().peekable();
    let mut line = 1;
    let mut before = ' ';
    while let Some(c) = chars.next() {
        match c {
            '\n' => line += 1,
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|c| *c != '\n').is_some() {},
            // A quote as a character, or as a byte; any other '…' needs no care here.
            '\'' if chars.peek() == Some(&'"') => drop(chars.next()),
            '"' => {
                assert_ne!(before, 'r', "line {line}: a raw string, which this test does not read");
                let (at, mut text) = (line, String::new());
                loop {
                    match chars.next().expect("a string that ends") {
                        '"' => break,
                        '\\' => match chars.next().expect("an escape") {
                            '\n' => {
                                line += 1;
                                while chars.next_if(|c| c.is_whitespace()).is_some_and(|c| c != '\n') {}
                            }
                            'n' => text.push('\n'),
                            other => text.push(other),
                        },
                        other => text.push(other),
                    }
                }
                found.push(Literal { line: at, text });
            }
            _ => {}
        }
        before = c;
    }
    found
}

/// What a format string says whatever its arguments are.
fn fragments(template: &str) -> Vec<String> {
    let mut fragments = vec![String::new()];
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.next_if_eq(&'{').is_none() => {
                while chars.next().is_some_and(|c| c != '}') {}
                fragments.push(String::new());
            }
            '}' => {
                chars.next_if_eq(&'}');
                fragments.last_mut().unwrap().push('}');
            }
            other => fragments.last_mut().unwrap().push(other),
        }
    }
    fragments
}

/// Whether a text can have come of a template: its fragments stand in it, in order.
fn fits(text: &str, template: &str) -> bool {
    // A string that is no format string may hold braces of its own.
    let plain = text.contains(template);
    let mut rest = text;
    plain
        || fragments(template).iter().all(|fragment| match rest.find(fragment.as_str()) {
            Some(at) => {
                rest = &rest[at + fragment.len()..];
                true
            }
            None => false,
        })
}

#[test]
fn every_message_of_the_validator_has_a_file_that_gives_it() {
    let given = given();
    let mut missing = Vec::new();
    let mut seen = 0;
    for path in files(&root().join("src/policy"), &["rs"]) {
        let source = fs::read_to_string(&path).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap();
        let short = path.strip_prefix(root()).unwrap().display().to_string();
        for Literal { line, text } in literals(code) {
            let of_lint = code.lines().nth(line - 1).unwrap().contains("reason = ");
            let of_assertion = code.lines().nth(line - 1).unwrap().contains("debug_assert!");
            if !text.contains(' ') || of_lint || of_assertion {
                continue;
            }
            seen += 1;
            if !given.iter().any(|error| fits(error, &text)) {
                missing.push(format!("{short}:{line}: no file of tests/policies/bad gives {text:?}"));
            }
        }
    }
    assert!(seen > 100, "{seen} messages: the source is not read any more");
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

#[test]
fn strings_and_templates_are_read() {
    let source = "a(\"x \\\"y\\\" {z}\", '\"'); // \"no\"\nb(\"one \\\n     two\");\n";
    let read = literals(source);
    assert_eq!(
        read,
        [
            Literal { line: 1, text: "x \"y\" {z}".to_owned() },
            Literal { line: 2, text: "one two".to_owned() },
        ]
    );
    assert_eq!(fragments("{a} of {{b}} {c:?}"), ["", " of {b} ", ""]);
    assert!(fits("path: 3 is out of range; write 1 to 2", "{number} is out of range"));
    assert!(!fits("write 1 to 2", "{number} is out of range"));
    assert!(fits("write {name} for it", "write {name} for it"));
}
