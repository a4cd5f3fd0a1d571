//! Rows of `tests/vectors`: read from their files, and judged one by one so that a failure names all that are wrong.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::suite::Suite;
use super::trace::is_default;

/// A time 0 that is always the same: no row can say where it lies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fixed {
    /// At the suite's own moment.
    #[default]
    #[serde(skip)]
    Here,
}

/// A history about one subject of each limit, and what must come of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(serialize = "Step: Serialize, Base: Default + PartialEq + Serialize"))]
pub struct History<Step, Base = Fixed> {
    /// What it shows.
    #[serde(default)]
    pub name: String,
    /// Where it comes from.
    #[serde(default)]
    pub report: String,
    /// The limits that stand on the route.
    pub limits: Vec<String>,
    /// Where time 0 lies, in suites where it is not always the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub base: Base,
    /// What happens.
    pub steps: Vec<Step>,
}

/// A row of a suite.
pub type Row<S> = History<<S as Suite>::Step, <S as Suite>::Base>;

/// The rows of a suite, in the order of their files' names.
pub fn all<S: Suite>() -> Vec<Row<S>> {
    let directory = format!("{}/{}", env!("CARGO_MANIFEST_DIR"), S::ROWS);
    let entries = fs::read_dir(directory).expect(S::ROWS).map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    files.sort();
    let read = |file: &PathBuf| -> Vec<Row<S>> {
        let text = fs::read_to_string(file).expect("a vector file");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    files.iter().flat_map(read).collect()
}

/// Fails unless every row has a name of its own, a report and steps, of which each says what must come of it.
pub fn complete<S: Suite>() {
    let mut names = BTreeSet::new();
    for row in all::<S>() {
        let Row::<S> { name, report, steps, .. } = row;
        assert!(!name.is_empty() && !report.is_empty(), "{name:?}");
        assert!(!steps.is_empty(), "{name}: no steps");
        assert!(steps.iter().all(S::says), "{name}: a step says nothing");
        assert!(names.insert(name.clone()), "{name}: twice");
    }
}

/// Fails with every row that is judged wrong, by its name and the report it cites.
pub fn judge<S: Suite>(mut judge: impl FnMut(&Row<S>) -> Result<(), String>) {
    let wrong = all::<S>().into_iter().filter_map(|row| {
        let fault = judge(&row).err()?;
        Some(format!("{} ({})\n  {fault}\n", row.name, row.report))
    });
    let wrong: String = wrong.collect();
    assert!(wrong.is_empty(), "{wrong}");
}
