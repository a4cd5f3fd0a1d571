//! What a limit does ahead of the round trip or after the answer.

/// `limits.over_limit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverLimit {
    /// A request that would pass within a time waits for its moment.
    Delay(Delay),
    /// It is put on a queue, and delivered when the limit lets it through.
    Queue(Box<Queue>),
}

/// `limits.over_limit` with `delay`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// The longest wait in milliseconds, 1 ms to a minute.
    pub ms: u64,
    /// Most requests of the limit that wait in one isolate.
    pub waiting: usize,
}

/// `limits.over_limit` with `queue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Name of the binding of the queue.
    pub queue: String,
    /// Name of the binding of the queue that takes what cannot be delivered.
    pub dead_letter: String,
    /// Longest body that is queued, in bytes.
    pub max_body: u64,
    /// Most messages in the queue before the limit refuses.
    pub max_depth: u64,
    /// How often the origin is tried.
    pub attempts: u64,
    /// Longest wait before the second attempt in milliseconds; doubles with each that follows.
    pub backoff_ms: u64,
    /// How long the store keeps an answer, in milliseconds.
    pub keep_ms: u64,
}

impl OverLimit {
    /// How requests wait for their moment, where they do.
    pub fn delay(&self) -> Option<Delay> {
        match self {
            Self::Delay(delay) => Some(*delay),
            Self::Queue(_) => None,
        }
    }
}

/// How permits are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Most units that an isolate takes in one call, and has in hand of one subject.
    pub units: u64,
    /// For how many milliseconds they may be spent.
    pub ttl_ms: u64,
}

/// `limits.settle`: where the origin says what a request has really cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// Header of the origin's answer, lower case.
    pub header: String,
    /// Greatest cost that is believed, in units; more counts as this.
    pub max: u64,
    /// How long after its reservation a cost is taken in, in milliseconds.
    pub within_ms: u64,
}
