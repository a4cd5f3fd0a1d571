//! The policies of `examples/`: right, commented, in the README, and explained as their own heads say.
//!
//! An example's head shows commands, `#   $ npm run check -- examples/NAME.toml --explain …`, each followed by lines of
//! what it prints, in order though not all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sluicegate::policy::document::read_toml;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn examples() -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let mut examples: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|kind| kind == "toml"))
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    examples.sort();
    assert!(examples.len() >= 4);
    examples
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

#[test]
fn examples_are_right() {
    for (path, text) in examples() {
        if let Err(errors) = read_toml(&text) {
            panic!("{}", errors.iter().map(|error| error.in_file(&name(&path)) + "\n").collect::<String>());
        }
        assert!(
            text.starts_with("#:schema ../policy.schema.json\n# "),
            "{}: no schema, or no text at its head",
            name(&path)
        );
    }
}

/// Each limit says in the lines above it what it is for, and each example stands in the README's table.
#[test]
fn examples_are_commented_and_found() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for (path, text) in examples() {
        let lines: Vec<_> = text.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| **line == "[[limits]]") {
            assert!(
                lines[index - 1].starts_with("# "),
                "{}:{}: {line} without a comment",
                name(&path),
                index + 1
            );
        }
        let link = format!("]({})", name(&path));
        assert!(readme.contains(&link), "README.md has no link to {}", name(&path));
    }
}

/// The words of a command line; single quotes keep spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, piece) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.last_mut().unwrap().push_str(piece);
            continue;
        }
        for (index, word) in piece.split(' ').enumerate() {
            if index > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(word);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What the checker prints.
fn printed(command: &str) -> String {
    let mut run = Command::new(env!("CARGO_BIN_EXE_sluicegate-check"));
    let output = run.current_dir(root()).env_remove("KEY_SECRET").args(words(command)).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What stands behind a line that must be there.
fn behind(rest: &str, line: &str, place: &str) -> String {
    let found = rest.split_once(&format!("{line}\n"));
    found.unwrap_or_else(|| panic!("{place}: no line (any more)\n{line}\nin\n{rest}")).1.to_owned()
}

const COMMAND: &str = "$ npm run check -- ";

#[test]
fn examples_are_explained_as_they_say() {
    for (path, text) in examples() {
        let place = name(&path);
        let mut rest: Option<String> = None;
        for line in text.lines().filter_map(|line| line.strip_prefix("#   ")) {
            if let Some(command) = line.strip_prefix(COMMAND) {
                assert_eq!(words(command).first(), Some(&place), "a command about another policy");
                rest = Some(printed(command));
                continue;
            }
            let left = rest.take().unwrap_or_else(|| panic!("{place}: {line}: of which command?"));
            rest = Some(behind(&left, line, &place));
        }
        assert!(rest.is_some(), "{place}: its head shows no `#   {COMMAND}{place} --explain …`");
    }
}
