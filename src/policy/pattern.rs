//! The path pattern of a route.

use super::error::Wrong;
use super::path::canonical;
use super::text;

/// Most segments of a pattern: matching recurses once a segment.
pub const MAX_SEGMENTS: usize = 64;

/// A parsed `path`: literal segments, `{param}`s, and perhaps a `{*rest}` at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The segments in order.
    pub segments: Vec<Segment>,
}

/// One segment of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// This text, canonical (decoded).
    Literal(String),
    /// Any one segment, under this name.
    Param(String),
    /// Any number of segments, none included; the last of its pattern.
    Rest(String),
}

impl Pattern {
    /// Reads a pattern such as `/v1/users/{id}/{*rest}`. A slash at the end does not count, as in a request.
    ///
    /// # Errors
    /// What could never match a canonical path, or means something else in other routers.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(Wrong::new(format!("the path \"{text}\" does not begin with /"), "write \"/…\""));
        };
        let parts = (!rest.is_empty()).then(|| rest.strip_suffix('/').unwrap_or(rest).split('/'));
        let mut segments: Vec<Segment> = Vec::new();
        for part in parts.into_iter().flatten() {
            if matches!(segments.last(), Some(Segment::Rest(_))) {
                return Err(Wrong::new(
                    format!("\"{text}\" goes on behind {{*…}}"),
                    "let {*…} be the last segment",
                ));
            }
            segments.push(segment(text, part)?);
        }
        if segments.len() > MAX_SEGMENTS {
            return Err(Wrong::new(
                format!("the path has {} segments", segments.len()),
                format!("write at most {MAX_SEGMENTS}"),
            ));
        }
        let pattern = Self { segments };
        let mut seen: Vec<&str> = Vec::new();
        for name in pattern.params() {
            if seen.contains(&name) {
                return Err(Wrong::new(
                    format!("\"{text}\" has two parameters {{{name}}}"),
                    "give each its own name",
                ));
            }
            seen.push(name);
        }
        Ok(pattern)
    }

    /// Names of the parameters in order.
    pub fn params(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Param(name) | Segment::Rest(name) => Some(name.as_str()),
        })
    }
}

fn segment(path: &str, part: &str) -> Result<Segment, Wrong> {
    if let Some(inner) = part.strip_prefix('{').and_then(|open| open.strip_suffix('}'))
        && !inner.contains(['{', '}'])
    {
        return match inner.strip_prefix('*') {
            Some(name) => text::param(name).map(Segment::Rest),
            None => text::param(inner).map(Segment::Param),
        };
    }
    let wrong = |problem: &str, cure: &str| {
        Err(Wrong::new(format!("\"{}\" {problem}", path.escape_default()), cure.to_owned()))
    };
    match part {
        "" => {
            return wrong("has an empty segment", "write each slash once: matching sees them collapsed");
        }
        "." | ".." => {
            return wrong("has a dot segment", "write the path without it: matching sees none");
        }
        _ => {}
    }
    if part.contains(['{', '}']) {
        return wrong(
            "has braces inside a segment",
            "let {name} be a whole segment, or write %7B and %7D for the characters",
        );
    }
    if part.contains('*') {
        return wrong("has a *", "write {*rest} for all that follows, or %2A for the character");
    }
    if part.starts_with(':') {
        return wrong("has a :name", "write {name} for one segment, or %3A for the character");
    }
    if part.contains(['?', '#']) {
        return wrong("has a query or a fragment", "write the path alone; a key may hold query:NAME");
    }
    if part.contains('\\') {
        return wrong("has a backslash", "write /: matching sees \\ as /");
    }
    if part.contains(|c: char| c.is_ascii_control() || c == ' ') {
        return wrong("has a space or a control character", "write it percent-encoded");
    }
    // The same function requests go through, so that `/caf%C3%A9` is `/café` here as there.
    let seen = canonical(part);
    match seen.strip_prefix('/') {
        Some(literal) if !literal.is_empty() && !literal.contains('/') => {
            Ok(Segment::Literal(literal.to_owned()))
        }
        _ => wrong("hides a slash or a dot segment behind %", "write it plainly: matching sees it decoded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let literal = |text: &str| Segment::Literal(text.to_owned());
        let (id, rest) = (Segment::Param("id".to_owned()), Segment::Rest("rest".to_owned()));
        let rows = [
            ("/", vec![]),
            ("/a/", vec![literal("a")]),
            ("/v1/{id}/{*rest}", vec![literal("v1"), id, rest.clone()]),
            ("/{*rest}", vec![rest]),
            ("/caf%C3%A9/café", vec![literal("café"), literal("café")]),
            ("/%7Bid%7D/%2A/a:b/.a", vec![literal("{id}"), literal("*"), literal("a:b"), literal(".a")]),
        ];
        for (text, segments) in rows {
            assert_eq!(Pattern::parse(text), Ok(Pattern { segments }), "{text}");
        }
    }

    #[test]
    fn mistakes() {
        let rows = [
            ("", "begin with /"),
            ("a", "begin with /"),
            ("//", "empty segment"),
            ("/a//b", "empty segment"),
            ("/a//", "empty segment"),
            ("/a/./b", "dot segment"),
            ("/a/..", "dot segment"),
            ("/%2e%2e/a", "hides"),
            ("/a%2Fb", "hides"),
            ("/a%5cb", "hides"),
            ("/{}", "not a parameter name"),
            ("/{*}", "not a parameter name"),
            ("/{a b}", "not a parameter name"),
            ("/{*rest}/a", "goes on"),
            ("/{id}/{id}", "two parameters"),
            ("/{id}/{*id}", "two parameters"),
            ("/a{id}", "braces inside"),
            ("/{a}{b}", "braces inside"),
            ("/{a", "braces inside"),
            ("/a/*", "has a *"),
            ("/:id", "has a :name"),
            ("/a?b", "query"),
            ("/a\\b", "backslash"),
            ("/a b", "space"),
        ];
        for (text, problem) in rows {
            let wrong = Pattern::parse(text).unwrap_err();
            assert!(wrong.problem.contains(problem), "{text}: {}", wrong.problem);
        }
        assert!(Pattern::parse(&"/a".repeat(65)).is_err());
        assert!(Pattern::parse(&"/a".repeat(64)).is_ok());
    }
}
