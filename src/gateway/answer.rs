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
    /// The same, with the request begun at the origin at once: its answer is given back should it pass, and thrown away in
    /// any other case.
    Ahead(Begin),
    /// The same for a request that takes slots: the reply is brought even if the client has gone, so that they are freed.
    Take(Call),
    /// Read the request's body, at most this many bytes, and bring it.
    Body(u64),
    /// Read the body of a call of the admin API, at most this many bytes, and bring it with the request.
    AdminBody(u64),
    /// Answer with the status page.
    Page,
    /// Verify this token, and bring its claims, or that it has none to believe.
    Verify(String),
    /// Ask a rate limiting binding of the platform's, and bring its answers with the ticket.
    Location(Location),
    /// Read the body of a call to the slots API, at most this many bytes, and bring it with method and URL.
    Slots(u64),
    /// Ask the store about one slot, and bring the reply with the ticket.
    Slot(Call),
    /// Wait this many milliseconds, then bring the note.
    Wait(u64, String),
    /// Put the request on a queue, whose options as JSON these are; where that cannot be done, answer this.
    Queue(String, Answer),
    /// A request from a queue is not let through now: after how many milliseconds it may be, how many each like it takes
    /// from then on, and behind whom it waits.
    Later(u64, u64, String),
    /// Behind a line with the admin API's call, a line for each queue with its binding and that of its dead-letter queue:
    /// bring what there is to say of them as the body of the call.
    Depths(String),
    /// Nothing more is to be done about a slot, a charge or a task, and what became of it: `kept`, `lost`, `freed`;
    /// `settled`; `saved`, `unsaved`.
    Done(&'static str),
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
    /// When it goes on by the isolate's clock, in milliseconds since the Unix epoch; 0 is at once.
    pub moment_ms: u64,
    /// Scheme, authority and base path, or `binding:NAME`.
    pub origin: String,
    /// Deadline for the origin's response head in milliseconds; 0 is the platform's own.
    pub timeout_ms: u64,
    /// The slots that it holds while it runs: how often to renew them in milliseconds, then a note for each, which the
    /// core wants to hear when they are renewed and freed; parted by spaces. Empty where it holds none.
    pub held: String,
    /// The charge that is settled after the answer, which the origin is told and the core wants to hear again, then the
    /// names of the headers that say what it really cost; parted by spaces. Empty where there is none.
    pub charge: String,
    /// To append to the answer.
    pub headers: Vec<(&'static str, String)>,
}

/// A request that is begun before it is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// As [`Forward::origin`].
    pub origin: String,
    /// As [`Forward::timeout_ms`], from the beginning.
    pub timeout_ms: u64,
    /// What decides it.
    pub call: Call,
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
    /// `answer LF status LF (name: value LF)* LF body`, `forward LF origin LF timeout LF held LF charge LF (name: value LF)*`
    /// with `hold LF moment LF` before it where it waits,
    /// `store LF ticket LF timeout LF delay LF body`, the same with `take` or `slot`, `ahead LF origin LF timeout LF` and the
    /// same behind it, `page`, `body LF bytes`, the same with
    /// `admin-body` or `slots`, `verify LF token`, `location LF ticket LF binding LF timeout LF key (LF key)*`,
    /// `wait LF ms LF note`, `queue LF options LF` and an answer, `later LF ms LF ms LF behind`, `depths LF lines`, `again`,
    /// and what is done as one word.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(512);
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Answer(answer) => answer.write(&mut text),
            Self::Queue(options, answer) => {
                let head = writeln!(text, "queue\n{options}");
                head.and_then(|()| answer.write(&mut text))
            }
            Self::Later(ms, each_ms, behind) => write!(text, "later\n{ms}\n{each_ms}\n{behind}"),
            Self::Depths(lines) => write!(text, "depths\n{lines}"),
            Self::Forward(forward) => {
                let Forward { origin, timeout_ms, held, charge, .. } = forward;
                if forward.moment_ms > 0 {
                    let _ = write!(text, "hold\n{}\n", forward.moment_ms);
                }
                let head = write!(text, "forward\n{origin}\n{timeout_ms}\n{held}\n{charge}\n");
                lines(&mut text, &forward.headers);
                head
            }
            Self::Ask(call) | Self::Take(call) | Self::Slot(call) => {
                let kind = match self {
                    Self::Take(_) => "take",
                    Self::Slot(_) => "slot",
                    _ => "store",
                };
                text.push_str(kind);
                call.write(&mut text)
            }
            Self::Ahead(Begin { origin, timeout_ms, call }) => {
                let head = write!(text, "ahead\n{origin}\n{timeout_ms}");
                head.and_then(|()| call.write(&mut text))
            }
            Self::Location(location) => {
                let Location { ticket, binding, timeout_ms, keys } = location;
                write!(text, "location\n{ticket}\n{binding}\n{timeout_ms}\n{}", keys.join("\n"))
            }
            Self::Page => text.write_str("page"),
            Self::Body(bytes) => write!(text, "body\n{bytes}"),
            Self::AdminBody(bytes) => write!(text, "admin-body\n{bytes}"),
            Self::Slots(bytes) => write!(text, "slots\n{bytes}"),
            Self::Wait(ms, note) => write!(text, "wait\n{ms}\n{note}"),
            Self::Done(what) => write!(text, "{what}"),
            Self::Verify(token) => write!(text, "verify\n{token}"),
            Self::Again => write!(text, "again"),
        };
        text
    }
}

impl Call {
    /// Its lines, behind what says its kind.
    fn write(&self, text: &mut String) -> std::fmt::Result {
        write!(text, "\n{}\n{}\n{}\n", self.ticket, self.timeout_ms, self.delay_ms)?;
        text.push_str(&self.body);
        Ok(())
    }
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
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
    fn write(&self, text: &mut String) -> std::fmt::Result {
        let head = write!(text, "answer\n{}\n", self.status);
        lines(text, &self.headers);
        text.push('\n');
        text.push_str(&self.body);
        head
    }

    /// A JSON answer that no cache may keep.
    pub fn json(status: u16, body: String) -> Self {
        let headers =
            vec![("Content-Type", "application/json".to_owned()), ("Cache-Control", "no-store".to_owned())];
        Self { status, headers, body }
    }
}
