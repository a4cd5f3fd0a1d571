//! What a limit does ahead of the round trip or after the answer.

/// `over_limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimit {
    /// A request that would pass within a time waits for its moment.
    Delay(Delay),
}

/// `over_limit.delay`, and what bounds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// The longest wait in milliseconds, 1 ms to a minute.
    pub ms: u64,
    /// Most requests of the limit that wait in one isolate.
    pub waiting: usize,
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
