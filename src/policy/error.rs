//! What is wrong with a policy, and what would be right.

use std::fmt;

/// One error of a policy text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// Line of the text, counted from 1. `None` for JSON that parses: it is known by its place only.
    pub line: Option<u32>,
    /// Where in the tree, such as `limits[2].window`; empty for a text that does not parse.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub cure: String,
}

impl PolicyError {
    /// The error as the checker and the build print it: `file:line: place: problem; cure`.
    #[must_use]
    pub fn in_file(&self, name: &str) -> String {
        match self.line {
            Some(_) => format!("{name}:{self}"),
            None => format!("{name}: {self}"),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(out, "{line}: ")?;
        }
        if !self.place.is_empty() {
            write!(out, "{}: ", self.place)?;
        }
        write!(out, "{}; {}", self.problem, self.cure)
    }
}

impl std::error::Error for PolicyError {}

/// A [`PolicyError`] that does not know its place yet: what the parsers of single texts answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub cure: String,
}

impl Wrong {
    /// Both halves of the message.
    pub fn new(problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { problem: problem.into(), cure: cure.into() }
    }

    /// `given` is no `what`; the cure names the nearest of `known`, or all of them when none is near.
    pub fn unknown<'k>(what: &str, given: &str, known: impl Iterator<Item = &'k str> + Clone) -> Self {
        let problem = format!("unknown {what} \"{given}\"");
        let nearest = known.clone().map(|name| (distance(given, name), name)).min();
        if let Some((_, name)) = nearest.filter(|(edits, name)| near(*edits, given, name)) {
            return Self::new(problem, format!("did you mean \"{name}\"?"));
        }
        let listed = known.map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let cure = if listed.is_empty() { "there is none".to_owned() } else { format!("known are {listed}") };
        Self::new(problem, cure)
    }
}

/// Two letters in five may be wrong: `stoer` is near `store`, `id` is not near `ip`.
fn near(edits: usize, given: &str, name: &str) -> bool {
    let letters = given.chars().count().max(name.chars().count());
    edits.saturating_mul(5) <= letters.saturating_mul(2)
}

/// Levenshtein distance in characters, a swap of neighbours counting two.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line.saturating_add(1);
        let mut next = vec![left];
        for (b, above) in to.chars().zip(row.iter().skip(1)) {
            let replaced = diagonal.saturating_add(usize::from(a != b));
            left = replaced.min(above.saturating_add(1)).min(left.saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let rows =
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("timeout", "tmeout", 1), ("kitten", "sitting", 3)];
        for (from, to, edits) in rows {
            assert_eq!(distance(from, to), edits, "{from} → {to}");
        }
    }

    #[test]
    fn unknown_names_suggest_or_list() {
        let known = ["timeout", "clock"];
        assert_eq!(Wrong::unknown("field", "timeuot", known.into_iter()).cure, "did you mean \"timeout\"?");
        assert_eq!(Wrong::unknown("field", "x", known.into_iter()).cure, "known are \"timeout\", \"clock\"");
        assert_eq!(Wrong::unknown("limit", "x", std::iter::empty()).cure, "there is none");
    }

    #[test]
    fn shown_with_and_without_a_line() {
        let mut error = PolicyError {
            line: Some(3),
            place: "store.timeout".to_owned(),
            problem: "is bad".to_owned(),
            cure: "be good".to_owned(),
        };
        assert_eq!(error.in_file("p.toml"), "p.toml:3: store.timeout: is bad; be good");
        error.line = None;
        assert_eq!(error.in_file("POLICY"), "POLICY: store.timeout: is bad; be good");
    }
}
