//! Rows of `tests/vectors`: read from their files, and judged one by one so that a failure names all that are wrong.

use std::fs;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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

/// The rows of a folder's files, in the order of their names.
pub fn read<Row: DeserializeOwned>(folder: &str) -> Vec<Row> {
    let directory = format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(directory).expect(folder).map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    files.sort();
    let read = |file: &PathBuf| -> Vec<Row> {
        let text = fs::read_to_string(file).expect("a vector file");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    files.iter().flat_map(read).collect()
}

/// Fails with every row that is judged wrong, by its name and the report it cites.
pub fn judge<Row>(
    rows: Vec<Row>,
    cited: impl Fn(&Row) -> (&str, &str),
    mut judge: impl FnMut(&Row) -> Result<(), String>,
) {
    let wrong = rows.into_iter().filter_map(|row| {
        let fault = judge(&row).err()?;
        let (name, report) = cited(&row);
        Some(format!("{name} ({report})\n  {fault}\n"))
    });
    let wrong: String = wrong.collect();
    assert!(wrong.is_empty(), "{wrong}");
}
