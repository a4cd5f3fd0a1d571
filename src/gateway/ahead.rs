//! Optimistic mode: the origin is asked while the store decides, and where the store refuses, its answer is thrown away.
//!
//! What is thrown away has cost the origin all the same. Most refused requests never get as far, since the isolate
//! remembers refusals; the rest is bounded by a credit. A request that is begun takes one unit and brings it back when
//! it passes, and ten requests that pass on optimistic routes earn one. So what an isolate has begun in vain, together
//! with what it has under way, is never more than [`CREDIT`] and a tenth of what has passed. Where there is no credit, a
//! request is decided first, as on any other route.

use super::asking::Purpose;
use super::{Gateway, Request};

/// Units of credit that an isolate begins with, and the most that it has.
pub const CREDIT: u32 = 256;

/// Parts of a unit: what a request that passes earns.
const PARTS: u32 = 10;

/// Whether a request reaches the origin while the store decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Not on this route, or not this request.
    Never,
    /// If the store is asked, and there is credit.
    Fit,
    /// It has been sent there.
    Begun,
    /// There was no credit.
    HeldBack,
}

/// What an isolate may begin, and what became of what it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Requests that reached the origin while the store decided.
    pub begun: u64,
    /// Those whose answer was thrown away, as the decision was a refusal.
    pub discarded: u64,
    /// Requests that were decided first, for want of credit.
    pub held_back: u64,
    parts: u32,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { begun: 0, discarded: 0, held_back: 0, parts: CREDIT.saturating_mul(PARTS) }
    }
}

impl Ahead {
    fn begin(&mut self) -> Start {
        match self.parts.checked_sub(PARTS) {
            Some(left) => {
                self.parts = left;
                self.begun = self.begun.saturating_add(1);
                Start::Begun
            }
            None => {
                self.held_back = self.held_back.saturating_add(1);
                Start::HeldBack
            }
        }
    }

    /// The decision is there. One that nobody hears of, since the client has left, brings nothing back.
    pub(super) fn end(&mut self, start: Start, passes: bool) {
        let earned = match (start, passes) {
            (Start::Never, _) => return,
            (Start::Begun, true) => PARTS.saturating_add(1),
            (Start::Fit | Start::HeldBack, true) => 1,
            (Start::Begun, false) => {
                self.discarded = self.discarded.saturating_add(1);
                return;
            }
            (Start::Fit | Start::HeldBack, false) => return,
        };
        self.parts = self.parts.saturating_add(earned).min(CREDIT.saturating_mul(PARTS));
    }
}

/// Whether a request on optimistic routes is one to begin: it changes nothing (RFC 9110 section 9.2.1), and can be sent
/// before anybody wants its answer.
pub(super) fn is_fit(request: &Request<'_>) -> bool {
    matches!(request.method, "GET" | "HEAD") && request.platform.is_bare()
}

impl Gateway {
    /// Where the request is to be begun with the call to the store that comes now, and how long the origin may take in
    /// milliseconds; `None` where it is not, or has been.
    pub(super) fn begin(&mut self, purpose: &mut Purpose) -> Option<(String, u64)> {
        let Purpose::Proxy { origin, start, .. } = purpose else { return None };
        if *start != Start::Fit {
            return None;
        }
        *start = self.ahead.begin();
        let origin = origin.clone().unwrap_or_else(|| self.rules.origin.clone());
        (*start == Start::Begun).then(|| (origin, self.origin_timeout_ms()))
    }
}
