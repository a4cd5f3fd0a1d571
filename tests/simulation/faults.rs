//! How the store fails: one row of SPEC section 5 a fault, and the weather that brings them.

use sluicegate::store::Class;

use super::random::Random;

/// Stands in every text of the store's, and must come out nowhere.
pub const WORDS: &str = "s3cret-words";

/// What a caller gets back, and what it must take it for; `class` is `None` for an answer.
#[derive(Debug, Clone)]
pub struct Back {
    /// The reply; `None` where the caller waits for its deadline.
    pub reply: Option<Said>,
    /// How it must be classified.
    pub class: Option<Class>,
}

/// A reply as the entry brings it.
#[derive(Debug, Clone)]
pub enum Said {
    /// Status, body, seconds of Retry-After.
    Whole(u16, String, u32),
    /// None, and why.
    None(&'static str),
}

/// One way to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Reset before the script ran.
    Reset,
    /// Never run, never answered.
    Silence,
    /// Run, then reset.
    RunReset,
    /// Run, never answered.
    RunSilence,
    /// Run, the reply cut short.
    RunCut,
    /// Run, and a proxy's page instead of the reply.
    RunPage,
    /// Run, and `null` for a result.
    RunNull,
    /// Run, and the integers written as floats.
    RunFloats,
    /// Run, and one integer short.
    RunShort,
    /// Run, and the result twice.
    RunTwice,
    /// A page of the provider's, not run.
    Page,
    /// A redirect.
    Redirect,
    /// More than anybody reads.
    Flood,
    /// Cloudflare cannot find the host.
    NoHost,
    /// An error's text, with what it is.
    Text(&'static str, Class),
    /// 429 with that many seconds of Retry-After.
    Throttled(u32),
}

/// Errors that are told by their text.
const TEXTS: [Fault; 14] = [
    Fault::Text("LOADING Redis is loading", Class::Busy),
    Fault::Text("BUSY Redis is busy running a script", Class::Busy),
    Fault::Text("TRYAGAIN Multiple keys request", Class::Busy),
    Fault::Text("CLUSTERDOWN Hash slot not served", Class::Busy),
    Fault::Text("READONLY You can't write against a read only replica", Class::Busy),
    Fault::Text("WRONGPASS invalid or missing auth token", Class::Misconfigured),
    Fault::Text("NOPERM this user has no permissions", Class::Misconfigured),
    Fault::Text("ERR max requests limit exceeded. Limit: 500000", Class::Quota),
    Fault::Text("OOM command not allowed when used memory > 'maxmemory'", Class::Full),
    Fault::Text("ERR DB capacity quota exceeded", Class::Full),
    Fault::Text("MISCONF Redis is configured to save RDB snapshots", Class::Full),
    Fault::Text("WRONGTYPE Operation against a key", Class::Bug),
    Fault::Text("ERR user_script:12: attempt to index", Class::Bug),
    Fault::Text("NOSCRIPT No matching script", Class::NoScript),
];

const OTHERS: [Fault; 16] = [
    Fault::Reset,
    Fault::Silence,
    Fault::RunReset,
    Fault::RunSilence,
    Fault::RunCut,
    Fault::RunPage,
    Fault::RunNull,
    Fault::RunFloats,
    Fault::RunShort,
    Fault::RunTwice,
    Fault::Page,
    Fault::Redirect,
    Fault::Flood,
    Fault::NoHost,
    Fault::Throttled(0),
    Fault::Throttled(2),
];

impl Fault {
    /// Any of them.
    pub fn any(random: &mut Random) -> Self {
        if random.percent(35) { random.pick(&TEXTS) } else { random.pick(&OTHERS) }
    }

    /// Whether the script runs all the same.
    pub fn runs(self) -> bool {
        matches!(
            self,
            Self::RunReset
                | Self::RunSilence
                | Self::RunCut
                | Self::RunPage
                | Self::RunNull
                | Self::RunFloats
                | Self::RunShort
                | Self::RunTwice
        )
    }

    /// What the caller gets; `numbers` is what the script said, where it ran.
    pub fn back(self, numbers: &[i64], random: &mut Random) -> Back {
        let page = || format!("<html><body>{WORDS}</body></html>");
        let list = |dot: &str| {
            let texts: Vec<String> = numbers.iter().map(|number| format!("{number}{dot}")).collect();
            texts.join(",")
        };
        let (said, class) = match self {
            Self::Reset | Self::RunReset => (Said::None("connection"), Class::Unreachable),
            Self::Silence | Self::RunSilence => return Back { reply: None, class: Some(Class::Unreachable) },
            Self::RunCut => (Said::Whole(200, format!("{{\"result\":[{}", list("")), 0), Class::Malformed),
            Self::RunPage => (Said::Whole(502, page(), 0), Class::Malformed),
            Self::RunNull => (Said::Whole(200, "{\"result\":null}".to_owned(), 0), Class::Malformed),
            Self::RunFloats => {
                (Said::Whole(200, format!("{{\"result\":[{}]}}", list(".0")), 0), Class::Malformed)
            }
            Self::RunShort => {
                let all = list("");
                // Without the clock alone, which an older script did not say, a reply with a charge id is still whole.
                let short = all.rsplitn(3, ',').nth(2).unwrap_or_default();
                (Said::Whole(200, format!("{{\"result\":[{short}]}}"), 0), Class::Malformed)
            }
            Self::RunTwice => {
                let body = format!("{{\"result\":[{0}],\"result\":[{0}]}}", list(""));
                (Said::Whole(200, body, 0), Class::Malformed)
            }
            Self::Page => (Said::Whole(random.pick(&[200, 500, 503]), page(), 0), Class::Malformed),
            Self::Redirect => (Said::Whole(302, String::new(), 0), Class::Malformed),
            Self::Flood => (Said::Whole(200, "x".repeat(70_000), 0), Class::Malformed),
            Self::NoHost => {
                (Said::Whole(random.pick(&[200, 530]), "error code: 1016".to_owned(), 0), Class::Unreachable)
            }
            Self::Text(text, class) => (error(text, random), class),
            Self::Throttled(seconds) => {
                (Said::Whole(429, format!("slow down {WORDS}"), seconds), Class::Throttled)
            }
        };
        Back { reply: Some(said), class: Some(class) }
    }
}

/// An error's text in the envelope, with any of the statuses that are seen in the wild.
pub fn error(text: &str, random: &mut Random) -> Said {
    let body = serde_json::json!({ "error": format!("{text} {WORDS}") }).to_string();
    Said::Whole(random.pick(&[200, 400, 401, 500]), body, 0)
}

/// A stretch of time in which calls fail, or are slow.
#[derive(Debug, Clone)]
pub struct Spell {
    /// When, in true time.
    pub from_ms: u64,
    /// When it is over.
    pub until_ms: u64,
    /// How many in a hundred fail.
    pub share: u64,
    /// How they do.
    pub faults: Vec<Fault>,
    /// Milliseconds that every call takes longer, there and back together, at most.
    pub slow_ms: u64,
    /// Where it comes and goes: the period in milliseconds.
    pub flapping_ms: Option<u64>,
}

impl Spell {
    /// Whether it is on.
    pub fn is_on(&self, true_ms: u64) -> bool {
        let inside = (self.from_ms..self.until_ms).contains(&true_ms);
        inside && self.flapping_ms.is_none_or(|period| (true_ms / period).is_multiple_of(2))
    }
}
