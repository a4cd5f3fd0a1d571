//! What is configured: the policy as the rest of the crate sees it, already validated.
//!
//! A value of [`Policy`] can only be had from [`document::read_json`] and `read_toml` beside it, so every number in it is inside the
//! bounds that the arithmetic of `limit` and of the scripts relies on.

pub mod address;
mod ahead;
pub mod bounds;
pub mod cors;
pub mod document;
pub mod duration;
pub mod error;
pub mod jwt;
pub mod key;
pub mod octets;
pub mod order;
pub mod origin;
pub mod path;
pub mod pattern;
pub mod routes;
pub mod text;
pub mod validate;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

pub use ahead::{Batch, Delay, OverLimit, Queue, Settle};
pub use cors::Cors;
pub use error::PolicyError;
pub use jwt::Jwt;
pub use key::KeyPart;
pub use routes::{Route, Router};

/// A whole validated policy.
#[derive(Debug, Clone)]
pub struct Policy {
    /// `[gateway]`.
    pub gateway: Gateway,
    /// `[store]`.
    pub store: Store,
    /// `[degraded]`.
    pub degraded: Degraded,
    /// `[jwt]`; there whenever a limit uses a claim.
    pub jwt: Option<Jwt>,
    /// `[[limits]]` in the order written; routes name them by index.
    pub limits: Vec<Limit>,
    /// `[[routes]]`, matched through a tree.
    pub router: Router,
    /// First 16 hex digits of the SHA-256 of the policy's canonical JSON; tells two policies apart in logs.
    pub digest: String,
}

/// `[gateway]`: what stands behind, and what clients are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Where requests go: `http(s)://host[:port][/base]`, or `binding:NAME`.
    pub origin: Origin,
    /// The one header, lower case, trusted for the client's address.
    pub client_ip: String,
    /// IPv6 addresses are counted by this many leading bits (32 to 128).
    pub ipv6_prefix: u8,
    /// What happens to a request that no route matches.
    pub unmatched: Unmatched,
    /// Which header dialects answers carry, in the order written.
    pub headers: Vec<HeaderDialect>,
    /// Whether answers carry `Sluicegate-Tier`.
    pub tier_header: bool,
    /// Deadline for the origin's response head in milliseconds; beyond it 504. `None`: the platform's own.
    pub origin_timeout_ms: Option<u64>,
    /// Whose scripts may read answers of ours.
    pub cors: Cors,
}

/// Where admitted requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Scheme, authority and base path, without a trailing slash.
    Url(String),
    /// The name of a service binding.
    Binding(String),
}

/// `gateway.unmatched`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmatched {
    /// Forwarded without a limit.
    Pass,
    /// Answered 404.
    Deny,
}

/// One dialect of rate limit response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderDialect {
    /// `RateLimit-Policy` and `RateLimit`, draft-ietf-httpapi-ratelimit-headers-10.
    Draft10,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset`, draft 03: delta seconds.
    Draft03,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`: epoch seconds.
    XRateLimit,
}

/// `[store]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    /// One deadline over connect, headers, body and parse, in milliseconds.
    pub timeout_ms: u64,
    /// Whose clock decides.
    pub clock: Clock,
    /// Which form of the script is sent.
    pub dialect: Dialect,
    /// First segment of every key.
    pub prefix: String,
    /// A refusal is remembered by the isolate for at most this many milliseconds; 0 remembers none.
    pub remember_ms: u64,
    /// Redis Cluster: every key under one hash tag.
    pub cluster: bool,
    /// Most store calls under way at once in one isolate; beyond them the failure policies decide at once.
    pub max_in_flight: usize,
    /// Every request carries a charge id, so that a call whose reply was lost can be made again.
    pub exactly_once: bool,
    /// `[store.breaker]`.
    pub breaker: Breaker,
    /// `[store.retry]`.
    pub retry: Retry,
}

/// `[store.breaker]`: when an isolate stops asking a store that fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Breaker {
    /// Length of the sliding window in milliseconds.
    pub window_ms: u64,
    /// Fewest calls in the window that say anything.
    pub min_calls: u32,
    /// Part of the calls, 0 < rate ≤ 1, whose failure opens.
    pub failure_rate: f64,
    /// A call that takes longer, in milliseconds, is slow.
    pub slow_ms: u64,
    /// Part of the calls, 0 < rate ≤ 1, whose slowness opens.
    pub slow_rate: f64,
    /// How long it stays open the first time, in milliseconds.
    pub open_ms: u64,
    /// How long it stays open at most, growing, in milliseconds.
    pub max_open_ms: u64,
    /// How long it stays open on what asking again does not mend, in milliseconds.
    pub long_open_ms: u64,
    /// Probes out at once when half-open, and successes that close.
    pub probes: u32,
}

/// `[store.retry]`: whether a failed call is made once more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// Retries for each call made, 0 ≤ budget ≤ 1; 0 retries nothing.
    pub budget: f64,
    /// Longest wait before the retry in milliseconds, drawn from 0 to this (full jitter).
    pub backoff_ms: u64,
}

/// `store.clock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The isolate's.
    Edge,
    /// The store's (`TIME`, one command more).
    Store,
}

/// `store.dialect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// By the store's host name.
    Auto,
    /// The script opens with `#!lua flags=allow-key-locking`.
    Upstash,
    /// It does not.
    Redis,
}

/// `[degraded]`: limits inside the isolate while the store fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Degraded {
    /// Part of each limit that one isolate grants, 0 < share ≤ 1; at least 1 request.
    pub share: f64,
    /// Most subjects the isolate keeps count of.
    pub max_subjects: usize,
    /// A rate limiting binding of Cloudflare's, asked before the isolate's own table.
    pub binding: Option<String>,
}

/// One `[[limits]]` entry.
#[derive(Debug, Clone)]
pub struct Limit {
    /// Printable ASCII without space and `" \ : , / % { }`; unique.
    pub name: String,
    /// How it counts.
    pub algorithm: Algorithm,
    /// Window in milliseconds, 100 ms to 400 days. Of a concurrency limit: the lease, 1 s to 1 day.
    pub window_ms: u64,
    /// What a subject without a plan (or with an unknown one) gets.
    pub quota: Quota,
    /// Who is counted: one part or more.
    pub key: Vec<KeyPart>,
    /// What a request without one of the parts gets.
    pub on_missing_key: OnMissingKey,
    /// The request attribute that names the plan.
    pub plan: Option<KeyPart>,
    /// Quotas by the plan's name.
    pub plans: BTreeMap<String, Quota>,
    /// What a request costs.
    pub cost: Cost,
    /// What happens when the store is down.
    pub on_store_error: OnStoreError,
    /// Counts and reports, never refuses.
    pub shadow: bool,
    /// Who is not counted.
    pub exempt: Exempt,
    /// The attribute that names a logical request: a repeat of it is charged once and gets the first answer.
    pub idempotency: Option<KeyPart>,
    /// What becomes of a request that it would refuse; `None` refuses.
    pub over_limit: Option<OverLimit>,
    /// `lease_batch` and `lease_ttl`: an isolate takes permits in batches and spends them alone.
    pub batch: Option<Batch>,
    /// The cost is a reservation, corrected by what the origin says after the answer.
    pub settle: Option<Settle>,
}

impl Limit {
    /// How requests over the limit wait for their moment, where they do.
    pub fn delay(&self) -> Option<Delay> {
        self.over_limit.as_ref()?.delay()
    }

    /// The queue that requests over the limit wait in, where they do.
    pub fn queue(&self) -> Option<&Queue> {
        match self.over_limit.as_ref()? {
            OverLimit::Queue(queue) => Some(queue),
            OverLimit::Delay(_) => None,
        }
    }
}

/// How a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Windows aligned to the Unix epoch.
    FixedWindow,
    /// This window's count plus the weighted previous one.
    SlidingWindow,
    /// Exact: no more than `limit` in any window.
    SlidingLog,
    /// `burst` at once from idle, then `limit` per window.
    TokenBucket,
    /// No more than `limit` at a time, each for as long as its lease is renewed.
    Concurrency,
}

impl Algorithm {
    /// Every one, in the order in which errors list them.
    pub const ALL: [Self; 5] =
        [Self::FixedWindow, Self::SlidingWindow, Self::SlidingLog, Self::TokenBucket, Self::Concurrency];

    /// As the policy writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
            Self::TokenBucket => "token-bucket",
            Self::Concurrency => "concurrency",
        }
    }
}

/// What one subject may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    /// Never counted, never asks the store.
    Unlimited,
    /// Never passes.
    Blocked,
    /// Counted.
    Limited(Capacity),
}

/// The numbers of a counted quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Units per window; slots of a concurrency limit.
    pub limit: NonZeroU64,
    /// Token bucket: units at once from idle. Other algorithms: equal to `limit`.
    pub burst: NonZeroU64,
}

/// `limits.cost`: a fixed number, or read from a request header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// Header, lower case, that carries the cost; `None`: always `default`.
    pub header: Option<String>,
    /// Cost without the header.
    pub default: u64,
    /// Greatest cost a client may ask for; more is 400.
    pub max: u64,
}

/// `on_missing_key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMissingKey {
    /// 400.
    Deny,
    /// This limit does not apply.
    Skip,
    /// All requests without the part share one counter of their own.
    Share,
}

/// `on_store_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStoreError {
    /// The isolate decides at `degraded.share` of the limit.
    Degraded,
    /// Passes.
    Open,
    /// 503.
    Closed,
}

/// `exempt`: requests a limit does not count.
#[derive(Debug, Clone, Default)]
pub struct Exempt {
    /// Networks of client addresses.
    pub networks: Vec<address::Network>,
    /// Attributes (`header:`, `cookie:`, `query:` …) with the value that exempts.
    pub values: Vec<(KeyPart, ExemptValue)>,
}

/// What an exempting attribute must be equal to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExemptValue {
    /// This text.
    Literal(String),
    /// The text of a secret binding of this name.
    Binding(String),
}
