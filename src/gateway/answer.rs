//! What the entry is to do next, and its text form: one string a crossing, laid out like an HTTP head.

use std::fmt::Write as _;

/// The entry's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Answer the client.
    Answer(Answer),
    /// Send the request to the origin, and give its answer back with these headers appended.
    Forward(Forward),
    /// Ask the store, and bring the reply with the ticket.
    Ask(Call),
    /// Read the request's body, at most this many bytes, and bring it.
    Body(u64),
    /// Ask a rate limiting binding of the platform's, and bring its answers with the ticket.
    Location(Location),
    /// Hand the request in once more, if this was its first time: what was known of it is gone.
    Again,
}

/// An answer of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// In the order sent; names and values hold no line breaks.
    pub headers: Vec<(&'static str, String)>,
    /// Text.
    pub body: String,
}

/// A request that passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Scheme, authority and base path, or `binding:NAME`.
    pub origin: String,
    /// Deadline for the origin's response head in milliseconds; 0 is the platform's own.
    pub timeout_ms: u64,
    /// To append to the answer.
    pub headers: Vec<(&'static str, String)>,
}

/// A call to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What to bring the reply with.
    pub ticket: u32,
    /// How long it may take, from the sending to the last byte of the reply.
    pub timeout_ms: u64,
    /// How long to wait before the sending.
    pub delay_ms: u64,
    /// The command array.
    pub body: String,
}

/// A question to a rate limiting binding: one call for each key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// What to bring the answers with.
    pub ticket: u32,
    /// Name of the binding.
    pub binding: String,
    /// How long it may take in all.
    pub timeout_ms: u64,
    /// What is counted.
    pub keys: Vec<String>,
}

impl Step {
    /// The text form:
    /// `answer LF status LF (name: value LF)* LF body`, `forward LF origin LF timeout LF (name: value LF)*`,
    /// `store LF ticket LF timeout LF delay LF body`, `body LF bytes`,
    /// `location LF ticket LF binding LF timeout LF key (LF key)*`, `again`.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(512);
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Answer(answer) => {
                let head = write!(text, "answer\n{}\n", answer.status);
                lines(&mut text, &answer.headers);
                text.push('\n');
                text.push_str(&answer.body);
                head
            }
            Self::Forward(forward) => {
                let head = write!(text, "forward\n{}\n{}\n", forward.origin, forward.timeout_ms);
                lines(&mut text, &forward.headers);
                head
            }
            Self::Ask(call) => {
                let head = write!(text, "store\n{}\n{}\n{}\n", call.ticket, call.timeout_ms, call.delay_ms);
                text.push_str(&call.body);
                head
            }
            Self::Location(location) => {
                let Location { ticket, binding, timeout_ms, keys } = location;
                write!(text, "location\n{ticket}\n{binding}\n{timeout_ms}\n{}", keys.join("\n"))
            }
            Self::Body(bytes) => write!(text, "body\n{bytes}"),
            Self::Again => write!(text, "again"),
        };
        text
    }
}

fn lines(text: &mut String, headers: &[(&'static str, String)]) {
    for (name, value) in headers {
        text.push_str(name);
        text.push_str(": ");
        text.push_str(value);
        text.push('\n');
    }
}

impl Answer {
    /// A JSON answer that no cache may keep.
    pub fn json(status: u16, body: String) -> Self {
        let headers =
            vec![("Content-Type", "application/json".to_owned()), ("Cache-Control", "no-store".to_owned())];
        Self { status, headers, body }
    }
}
