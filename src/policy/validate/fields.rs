//! Reading fields out of tables: each reader answers the value, or reports what is wrong with it and answers
//! `None`. A new field is one more name in its table's list and one more call of [`Table::get`].

use std::cell::RefCell;

use crate::policy::document::{Node, Value};
use crate::policy::duration;
use crate::policy::error::{PolicyError, Wrong};

/// Where errors gather.
#[derive(Default)]
pub(super) struct Report {
    errors: RefCell<Vec<PolicyError>>,
}

impl Report {
    fn add(&self, line: Option<u32>, place: &str, wrong: Wrong) {
        let Wrong { problem, cure } = wrong;
        self.errors.borrow_mut().push(PolicyError { line, place: place.to_owned(), problem, cure });
    }

    pub(super) fn into_errors(self) -> Vec<PolicyError> {
        self.errors.into_inner()
    }
}

/// A value, where it stands, and where to report what is wrong with it.
#[derive(Clone)]
pub(super) struct Field<'a> {
    node: &'a Node,
    place: String,
    report: &'a Report,
}

impl<'a> Field<'a> {
    pub(super) fn root(node: &'a Node, report: &'a Report) -> Self {
        Self { node, place: String::new(), report }
    }

    pub(super) fn line(&self) -> Option<u32> {
        self.node.line
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn value(&self) -> &'a Value {
        &self.node.value
    }

    pub(super) fn wrong(&self, problem: impl Into<String>, cure: impl Into<String>) {
        self.report.add(self.node.line, &self.place, Wrong::new(problem, cure));
    }

    /// Reports the error of a text's own parser.
    pub(super) fn checked<T>(&self, parsed: Result<T, Wrong>) -> Option<T> {
        parsed.map_err(|wrong| self.report.add(self.node.line, &self.place, wrong)).ok()
    }

    pub(super) fn mismatch(&self, wanted: &str, cure: &str) {
        self.wrong(format!("found {} where {wanted} belongs", self.value().kind()), cure);
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        if let Value::String(text) = self.value() {
            return Some(text);
        }
        self.mismatch("a string", "put it in quotes");
        None
    }

    pub(super) fn parsed<T>(&self, parse: impl FnOnce(&str) -> Result<T, Wrong>) -> Option<T> {
        self.checked(parse(self.text()?))
    }

    pub(super) fn integer(&self) -> Option<i64> {
        if let Value::Int(number) = self.value() {
            return Some(*number);
        }
        self.mismatch("an integer", "write digits alone");
        None
    }

    /// An integer from `least` to `most`.
    pub(super) fn whole(&self, (least, most): (u64, u64)) -> Option<u64> {
        let number = self.integer()?;
        let inside = u64::try_from(number).ok().filter(|n| (least..=most).contains(n));
        if inside.is_none() {
            self.wrong(format!("{number} is out of range"), format!("write {least} to {most}"));
        }
        inside
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self.value() {
            Value::Float(number) => Some(*number),
            // JSON written by JavaScript knows no 1.0.
            Value::Int(number) => i32::try_from(*number).map_or(Some(f64::INFINITY), |n| Some(n.into())),
            _ => {
                self.mismatch("a number", "write one such as 0.1");
                None
            }
        }
    }

    pub(super) fn flag(&self) -> Option<bool> {
        if let Value::Bool(flag) = self.value() {
            return Some(*flag);
        }
        self.mismatch("true or false", "write true or false, without quotes");
        None
    }

    /// Milliseconds from `least` to `most`.
    pub(super) fn duration(&self, (least, most): (u64, u64)) -> Option<u64> {
        if !matches!(self.value(), Value::String(_)) {
            self.mismatch("a duration", "write a number and a unit in quotes, such as \"150ms\" or \"1m\"");
            return None;
        }
        let ms = self.parsed(duration::parse)?;
        if (least..=most).contains(&ms) {
            return Some(ms);
        }
        self.wrong(
            format!("{} is out of range", duration::to_text(ms)),
            format!("write {} to {}", duration::to_text(least), duration::to_text(most)),
        );
        None
    }

    /// One of these texts.
    pub(super) fn choice<T: Copy>(&self, known: &[(&str, T)]) -> Option<T> {
        let given = self.text()?;
        let found = known.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
        self.checked(found.ok_or_else(|| Wrong::unknown("value", given, known.iter().map(|(name, _)| *name))))
    }

    /// The elements of a list.
    pub(super) fn items(&self) -> Option<Vec<Field<'a>>> {
        let Value::Array(items) = self.value() else {
            self.mismatch("a list", "put it in [ ]");
            return None;
        };
        let item =
            |(index, node)| Field { node, place: format!("{}[{index}]", self.place), report: self.report };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// The elements of a list, each read by `read`; `None` when one of them is wrong.
    pub(super) fn each<T>(&self, read: impl Fn(&Field<'a>) -> Option<T>) -> Option<Vec<T>> {
        // Collected twice, so that one wrong element does not hide the next.
        self.items()?.iter().map(read).collect::<Vec<_>>().into_iter().collect()
    }

    /// The entries of a table whose names are the user's own.
    pub(super) fn entries(&self) -> Option<Vec<(&'a str, Field<'a>)>> {
        let Value::Table(entries) = self.value() else {
            self.mismatch("a table", "write { name = value, … }");
            return None;
        };
        Some(entries.iter().map(|(name, node)| (name.as_str(), self.child(name, node))).collect())
    }

    /// A table with these fields; any other is reported.
    pub(super) fn table(&self, known: &'static [&'static str]) -> Option<Table<'a>> {
        let Value::Table(entries) = self.value() else {
            self.mismatch("a table", "write it as a table");
            return None;
        };
        for (name, node) in entries.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let wrong = Wrong::unknown("field", name, known.iter().copied());
            self.report.add(node.line, &self.child(name, node).place, wrong);
        }
        Some(Table { field: self.clone(), entries, known, sound: true })
    }

    /// The field of this name where it was written, else the table itself: where to report what concerns it.
    pub(super) fn named(&self, name: &str) -> Field<'a> {
        let Value::Table(entries) = self.value() else {
            return self.clone();
        };
        let written = entries.iter().find(|(written, _)| written == name);
        written.map_or_else(|| self.clone(), |(name, node)| self.child(name, node))
    }

    fn child(&self, name: &str, node: &'a Node) -> Field<'a> {
        Field { node, place: place(&self.place, name), report: self.report }
    }
}

fn place(parent: &str, name: &str) -> String {
    let bare = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let name = if bare { name.to_owned() } else { format!("{name:?}") };
    if parent.is_empty() { name } else { format!("{parent}.{name}") }
}

/// A table and the fields it knows.
pub(super) struct Table<'a> {
    field: Field<'a>,
    entries: &'a [(String, Node)],
    known: &'static [&'static str],
    /// `false` for what stands in for a table of the wrong kind, whose fields nobody must miss.
    sound: bool,
}

impl<'a> Table<'a> {
    /// A field, if it was written.
    pub(super) fn get(&self, name: &str) -> Option<Field<'a>> {
        debug_assert!(self.known.contains(&name), "{name} is read but not listed");
        let (name, node) = self.entries.iter().find(|(written, _)| written == name)?;
        Some(self.field.child(name, node))
    }

    /// A field that must be written.
    pub(super) fn required(&self, name: &str, cure: &str) -> Option<Field<'a>> {
        let field = self.get(name);
        if field.is_none() {
            self.missing(name, cure);
        }
        field
    }

    pub(super) fn missing(&self, name: &str, cure: &str) {
        if self.sound {
            let wrong = Wrong::new("is missing", cure);
            self.field.report.add(self.field.node.line, &place(&self.field.place, name), wrong);
        }
    }

    /// A table inside this one; an empty one where none was written.
    pub(super) fn section(&self, name: &str, known: &'static [&'static str]) -> Table<'a> {
        let written = self.get(name);
        let sound = written.is_none();
        written.and_then(|field| field.table(known)).unwrap_or_else(|| Table {
            field: Field { place: place(&self.field.place, name), ..self.field.clone() },
            entries: &[],
            known,
            sound,
        })
    }

    /// The elements of a list of tables; none where none was written.
    pub(super) fn list(&self, name: &str) -> Vec<Field<'a>> {
        self.get(name).and_then(|field| field.items()).unwrap_or_default()
    }
}
