//! What can go wrong with a store call, in one place: SPEC section 5's table as a type.

/// How a failed call is treated. Whether the script may have run decides whether it may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The store does not know the script's hash: not run; once more, with its text.
    NoScript,
    /// The store refuses the script's opening line: not run; once more in the other dialect.
    Dialect,
    /// Busy, loading, moving or read-only: not run.
    Busy,
    /// No connection, a reset, the deadline, a body cut short: may have run.
    Unreachable,
    /// A 5xx, HTML, no JSON, another shape: may have run.
    Malformed,
    /// The provider asks for fewer calls (429): not run.
    Throttled,
    /// The token or the user is refused: not run, and asking again does not help.
    Misconfigured,
    /// The provider's budget is used up: not run, and asking again does not help.
    Quota,
    /// The database is full or cannot persist: not run.
    Full,
    /// A script error or a key of another type: a fault of ours or of who shares the database.
    Bug,
}

impl Class {
    /// One word for logs, counters and the status page.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoScript => "noscript",
            Self::Dialect => "dialect",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Malformed => "malformed",
            Self::Throttled => "throttled",
            Self::Misconfigured => "misconfigured",
            Self::Quota => "quota",
            Self::Full => "full",
            Self::Bug => "bug",
        }
    }
}

/// A failed call: its class, and for the log what was said. The text is never shown to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// How it is treated.
    pub class: Class,
    /// What the store said, cut to a length fit for a log line.
    pub text: String,
}

/// Most characters of an error's text that are kept.
const KEPT: usize = 160;

/// Error texts by what they begin with, or hold. Redis puts a code in front; Upstash and serverless-redis-http wrap
/// some (`ERR …`), so a code is looked for at the start and after `ERR `.
const TEXTS: [(&str, Class); 24] = [
    ("NOSCRIPT", Class::NoScript),
    ("LOADING", Class::Busy),
    ("BUSY", Class::Busy),
    ("TRYAGAIN", Class::Busy),
    ("CLUSTERDOWN", Class::Busy),
    ("MASTERDOWN", Class::Busy),
    ("READONLY", Class::Busy),
    ("UNKILLABLE", Class::Busy),
    ("WRONGPASS", Class::Misconfigured),
    ("NOAUTH", Class::Misconfigured),
    ("NOPERM", Class::Misconfigured),
    ("Unauthorized", Class::Misconfigured),
    ("OOM", Class::Full),
    ("MISCONF", Class::Full),
    ("NOREPLICAS", Class::Full),
    ("DB capacity quota exceeded", Class::Full),
    ("max requests limit exceeded", Class::Quota),
    ("max daily request limit exceeded", Class::Quota),
    ("max monthly", Class::Quota),
    ("database is suspended", Class::Quota),
    ("account is suspended", Class::Quota),
    ("budget", Class::Quota),
    ("WRONGTYPE", Class::Bug),
    ("CROSSSLOT", Class::Bug),
];

impl StoreError {
    /// An error of a known class.
    pub fn new(class: Class, text: &str) -> Self {
        Self { class, text: text.chars().take(KEPT).collect() }
    }

    /// The error that a body's text and the status make: the text where it is known, else the status.
    pub fn of_text(text: &str, status: u16) -> Self {
        Self::new(of_words(text).unwrap_or_else(|| of_status(status, text)), text)
    }
}

fn of_words(text: &str) -> Option<Class> {
    let words = text.trim_start().trim_start_matches('-');
    let words = words.strip_prefix("ERR ").unwrap_or(words);
    // A refused flag line names itself; the same words inside a longer report of a script's run do not count.
    let unknown_flag = words.starts_with("Unexpected flag in script shebang")
        || words.starts_with("Unknown lua shebang option")
        || words.contains("Unexpected engine in script shebang");
    if unknown_flag {
        return Some(Class::Dialect);
    }
    if words.starts_with("Error compiling script") && words.contains("near '#'") {
        return Some(Class::Dialect);
    }
    let known = TEXTS.iter().find(|(start, _)| starts_with(words, start));
    known.map(|(_, class)| *class).or_else(|| script_error(words))
}

/// A script that was run, or could not be compiled, and failed.
fn script_error(words: &str) -> Option<Class> {
    let ours = words.starts_with("Error running script")
        || words.starts_with("Error compiling script")
        || words.contains("user_script:")
        || words.starts_with("unknown command")
        || words.starts_with("wrong number of arguments");
    ours.then_some(Class::Bug)
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

fn of_status(status: u16, text: &str) -> Class {
    match status {
        401 | 403 => Class::Misconfigured,
        429 => Class::Throttled,
        // Cloudflare's own page for a host that cannot be resolved or reached.
        _ if text.starts_with("error code: 1") => Class::Unreachable,
        _ => Class::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table() {
        for (text, class) in [
            ("NOSCRIPT No matching script. Please use EVAL.", Class::NoScript),
            ("ERR NOSCRIPT No matching script", Class::NoScript),
            ("LOADING Redis is loading the dataset in memory", Class::Busy),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL", Class::Busy),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Class::Busy),
            ("CLUSTERDOWN Hash slot not served", Class::Busy),
            ("MASTERDOWN Link with MASTER is down", Class::Busy),
            ("READONLY You can't write against a read only replica.", Class::Busy),
            ("WRONGPASS invalid or missing auth token", Class::Misconfigured),
            ("NOPERM this user has no permissions to run the 'evalsha' command", Class::Misconfigured),
            ("ERR max requests limit exceeded. Limit: 500000, Usage: 500000.", Class::Quota),
            ("ERR DB capacity quota exceeded", Class::Full),
            ("OOM command not allowed when used memory > 'maxmemory'.", Class::Full),
            ("MISCONF Redis is configured to save RDB snapshots", Class::Full),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Class::Bug),
            ("ERR user_script:12: attempt to index a nil value script: 46f2", Class::Bug),
            ("ERR Unexpected flag in script shebang: allow-key-locking", Class::Dialect),
        ] {
            for status in [200, 400, 401, 500] {
                assert_eq!(StoreError::of_text(text, status).class, class, "{status} {text}");
            }
        }
    }

    #[test]
    fn an_unknown_text_goes_by_its_status() {
        for (status, text, class) in [
            (429, "slow down", Class::Throttled),
            (401, "nope", Class::Misconfigured),
            (503, "<html>", Class::Malformed),
            (200, "error code: 1016", Class::Unreachable),
        ] {
            assert_eq!(StoreError::of_text(text, status).class, class);
        }
    }

    #[test]
    fn the_text_kept_is_bounded_in_characters() {
        assert_eq!(StoreError::new(Class::Malformed, &"é".repeat(9999)).text.chars().count(), KEPT);
    }
}
