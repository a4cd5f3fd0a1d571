//! What can go wrong with a store call, in one place: SPEC section 5's table as a type.

use super::breaker::Ending;

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

/// All classes, for counters.
pub const CLASSES: [Class; 10] = [
    Class::NoScript,
    Class::Dialect,
    Class::Busy,
    Class::Unreachable,
    Class::Malformed,
    Class::Throttled,
    Class::Misconfigured,
    Class::Quota,
    Class::Full,
    Class::Bug,
];

/// Whether a failed call may be made once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It was not run: yes, in budget.
    Yes,
    /// It may have run: only where a charge id keeps it from being charged twice.
    WithChargeId,
    /// Never.
    No,
}

impl Class {
    /// Its place in [`CLASSES`].
    pub fn index(self) -> usize {
        CLASSES.iter().position(|class| *class == self).unwrap_or(CLASSES.len())
    }

    /// Whether the call may be made once more as it was. (NOSCRIPT and a refused dialect are sent in another form.)
    pub fn retry(self) -> Retry {
        match self {
            Self::Busy => Retry::Yes,
            Self::Unreachable | Self::Malformed => Retry::WithChargeId,
            _ => Retry::No,
        }
    }

    /// What it means to the breaker; `retry_after_ms` is what a throttling provider asked for.
    pub fn ending(self, retry_after_ms: Option<u64>) -> Ending {
        match self {
            Self::NoScript | Self::Dialect | Self::Bug => Ending::Neutral,
            Self::Busy | Self::Unreachable | Self::Malformed | Self::Full => Ending::Failed,
            Self::Throttled => Ending::LeaveAlone(retry_after_ms.unwrap_or(0)),
            Self::Misconfigured | Self::Quota => Ending::Hopeless,
        }
    }

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

/// A failed call: its class, and for the log which of the known texts it was, or else the status. The store's own
/// words are kept nowhere: they may quote a token, a key or the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// How it is treated.
    pub class: Class,
    /// How it was told: the beginning of a known text, a status, or what the connection came to.
    pub sign: String,
}

/// Error texts by what they begin with. Redis puts a code in front; Upstash and serverless-redis-http wrap
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
    // Redis 7 of a token that may run a script but not what the script calls.
    ("The user executing the script", Class::Misconfigured),
    // The same of Valkey.
    ("ACL failure in script", Class::Misconfigured),
    ("Unauthorized", Class::Misconfigured),
    ("OOM", Class::Full),
    ("MISCONF", Class::Full),
    ("NOREPLICAS", Class::Full),
    ("DB capacity quota exceeded", Class::Full),
    ("max requests limit exceeded", Class::Quota),
    ("max daily request limit exceeded", Class::Quota),
    ("max monthly", Class::Quota),
    ("budget", Class::Quota),
    ("WRONGTYPE", Class::Bug),
    ("CROSSSLOT", Class::Bug),
];

impl StoreError {
    /// An error of a known class, told by a sign of ours.
    pub fn new(class: Class, sign: &str) -> Self {
        Self { class, sign: sign.to_owned() }
    }

    /// The error that a body's text and the status make: the text where it is known, else the status.
    pub fn of_text(text: &str, status: u16) -> Self {
        match of_words(text) {
            Some((sign, class)) => Self::new(class, sign),
            None => Self { class: of_status(status, text), sign: format!("status {status}") },
        }
    }
}

/// Texts of a script that failed, or a command that does not exist.
const BUGS: [&str; 5] = [
    "Error running script",
    "Error compiling script",
    "Dynamic keys are not allowed",
    "unknown command",
    "wrong number of arguments",
];

/// Upstash words a suspension in several ways; this is in all of them.
const SUSPENDED: &str = "suspended";

/// Texts by which a store refuses the script's opening line; it was not run.
const DIALECTS: [&str; 2] = ["Unexpected flag in script shebang", "Unexpected engine in script shebang"];

fn of_words(text: &str) -> Option<(&'static str, Class)> {
    let words = text.trim_start().trim_start_matches('-');
    let words = words.strip_prefix("ERR ").unwrap_or(words);
    if let Some(sign) = DIALECTS.into_iter().find(|start| starts_with(words, start)) {
        return Some((sign, Class::Dialect));
    }
    // Before Redis 7 an opening line is no Lua at all.
    if starts_with(words, "Error compiling script")
        && words.contains("user_script:1:")
        && words.contains("near '#'")
    {
        return Some(("Error compiling script", Class::Dialect));
    }
    let told = told_in_script(words);
    if let Some((sign, class)) = TEXTS.into_iter().find(|(start, _)| starts_with(told, start)) {
        return Some((sign, class));
    }
    let bug = BUGS.into_iter().find(|start| starts_with(words, start));
    if let Some(sign) = bug.or_else(|| words.contains("user_script:").then_some("script error")) {
        return Some((sign, Class::Bug));
    }
    words.contains(SUSPENDED).then_some((SUSPENDED, Class::Quota))
}

/// Before Redis 7, what a command was refused with stands at the end of a report of the script that called it:
/// `Error running script (call to f_…): @user_script:9: @user_script: 9: -OOM …`.
fn told_in_script(words: &str) -> &str {
    let report = Some(words).filter(|words| starts_with(words, "Error running script"));
    let told = report.and_then(|report| report.split_once("@user_script: ")?.1.split_once(": "));
    told.map_or(words, |(_, told)| told.trim_start_matches('-'))
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
            (
                "ERR The user executing the script can't run this command or subcommand script: 7661, on @user_script:1.",
                Class::Misconfigured,
            ),
            (
                "ERR ACL failure in script: User x has no permissions to run the 'set' command script: 76, on @user_script:1.",
                Class::Misconfigured,
            ),
            (
                "ERR Error running script (call to f_76): @user_script:9: @user_script: 9: -READONLY You can't write",
                Class::Busy,
            ),
            (
                "ERR Error running script (call to f_76): @user_script:9: @user_script: 9: -OOM command not allowed",
                Class::Full,
            ),
            (
                "ERR Error running script (call to f_76): @user_script:9: user_script:9: attempt to index a nil value",
                Class::Bug,
            ),
            (
                "ERR This database has been suspended for exceeding the defined budget limit. Please increase budget",
                Class::Quota,
            ),
            ("ERR max requests limit exceeded. Limit: 500000, Usage: 500000.", Class::Quota),
            ("ERR DB capacity quota exceeded", Class::Full),
            ("OOM command not allowed when used memory > 'maxmemory'.", Class::Full),
            ("MISCONF Redis is configured to save RDB snapshots", Class::Full),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Class::Bug),
            ("ERR user_script:12: attempt to index a nil value script: 46f2", Class::Bug),
            (
                "ERR Dynamic keys are not allowed in Lua scripts when 'allow-key-locking' flag is set.",
                Class::Bug,
            ),
            ("ERR Unexpected flag in script shebang: allow-key-locking", Class::Dialect),
            (
                "ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'",
                Class::Dialect,
            ),
            (
                "ERR Error compiling script (new function): user_script:7: unexpected symbol near '#'",
                Class::Bug,
            ),
            ("ERR Error compiling script (new function): user_script:1: '=' expected near 'x'", Class::Bug),
        ] {
            for status in [200, 400, 401, 500] {
                assert_eq!(StoreError::of_text(text, status).class, class, "{status} {text}");
            }
        }
    }

    #[test]
    fn what_each_class_is_called_and_comes_to() {
        let rows = [
            (Class::NoScript, "noscript", Retry::No, Ending::Neutral),
            (Class::Dialect, "dialect", Retry::No, Ending::Neutral),
            (Class::Busy, "busy", Retry::Yes, Ending::Failed),
            (Class::Unreachable, "unreachable", Retry::WithChargeId, Ending::Failed),
            (Class::Malformed, "malformed", Retry::WithChargeId, Ending::Failed),
            (Class::Throttled, "throttled", Retry::No, Ending::LeaveAlone(7)),
            (Class::Misconfigured, "misconfigured", Retry::No, Ending::Hopeless),
            (Class::Quota, "quota", Retry::No, Ending::Hopeless),
            (Class::Full, "full", Retry::No, Ending::Failed),
            (Class::Bug, "bug", Retry::No, Ending::Neutral),
        ];
        assert_eq!(rows.map(|(class, ..)| class), CLASSES);
        for (index, (class, word, retry, ending)) in rows.into_iter().enumerate() {
            assert_eq!((class.index(), class.word(), class.retry()), (index, word, retry));
            assert_eq!(class.ending(Some(7)), ending, "{word}");
        }
        assert_eq!(Class::Throttled.ending(None), Ending::LeaveAlone(0));
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
    fn what_the_store_said_is_not_kept() {
        for text in ["WRONGPASS token s3cret", "ERR user_script:3: s3cret", "s3cret", "<html>s3cret"] {
            assert!(!StoreError::of_text(text, 500).sign.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn a_refused_line_is_not_taken_from_a_longer_report() {
        let text = "ERR Error running script: user_script:9: Unexpected flag in script shebang: x";
        assert_eq!(StoreError::of_text(text, 400).class, Class::Bug);
    }
}
