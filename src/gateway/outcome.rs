//! What became of a request's limits: one shape for every tier, from which headers, bodies and logs are made.

use crate::policy::order;
use std::cmp::Reverse;
use std::rc::Rc;

use super::delay::Hold;
use crate::limit::{Verdict, Wait};
use crate::store::Ask;

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The store.
    Store,
    /// The isolate, from a refusal of the store's that it remembers, or by permits that it has in hand.
    Cache,
    /// The isolate, because no store is configured.
    Isolate,
    /// The isolate, at its share of the limits, because the store fails.
    Degraded,
    /// Nobody: the store fails and the limits say `open`.
    Open,
    /// Nobody: the store fails and a limit says `closed`.
    Closed,
}

impl Tier {
    /// As headers, logs and the API say it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Cache => "cache",
            Self::Isolate => "isolate",
            Self::Degraded => "degraded",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// What the subject may use is used up.
    QuotaExceeded,
    /// It asks for more than the subject can ever have at once.
    CostExceedsCapacity,
    /// The subject may use nothing.
    Blocked,
    /// The store fails and the limit says `closed`.
    StoreUnavailable,
}

impl Reason {
    /// As logs and the API say it.
    pub fn word(self) -> &'static str {
        match self {
            Self::QuotaExceeded => "quota-exceeded",
            Self::CostExceedsCapacity => "cost-exceeds-capacity",
            Self::Blocked => "blocked",
            Self::StoreUnavailable => "store-unavailable",
        }
    }
}

/// What one limit said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Index of the limit in the policy.
    pub limit: usize,
    /// The limit's window in milliseconds.
    pub window_ms: u64,
    /// It counts and reports only.
    pub shadow: bool,
    /// Units asked for.
    pub cost: u64,
    /// The subject as it stands in keys: a digest, or an address.
    pub subject: Rc<str>,
    /// What it said.
    pub verdict: Verdict,
}

impl Line {
    /// Whether this limit is why a request is refused.
    pub fn refuses(&self) -> bool {
        !self.shadow && !self.verdict.allowed()
    }

    /// Sorts limits, the tightest first.
    fn tightness(&self) -> impl Ord + use<> {
        let wait = match self.verdict.wait {
            _ if !self.refuses() => 0,
            Wait::None => 0,
            Wait::Ms(ms) => ms,
            Wait::Never => u64::MAX,
        };
        (!self.refuses(), Reverse(wait), self.verdict.remaining, Reverse(self.verdict.reset_ms))
    }

    /// Why it refuses, where it does.
    pub fn reason(&self) -> Reason {
        match self.verdict.wait {
            _ if self.verdict.limit == 0 => Reason::Blocked,
            Wait::Never => Reason::CostExceedsCapacity,
            _ => Reason::QuotaExceeded,
        }
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Who decided.
    pub tier: Tier,
    /// Why it was refused; `None` where it was not.
    pub refused: Option<Reason>,
    /// Milliseconds after which the same request is worth trying; `None` where it passes now or never.
    pub retry_after_ms: Option<u64>,
    /// What the limits said, in the order asked. Limits that said nothing are not there.
    pub lines: Vec<Line>,
    /// The limits that apply but said nothing: index, units per window, window in milliseconds.
    pub silent: Vec<(usize, u64, u64)>,
    /// The store's fences, one for each concurrency limit in the order asked; none where the isolate decided.
    pub fences: Vec<u64>,
    /// When a request that is let through goes on; `None` at once.
    pub hold: Option<Hold>,
    /// The clock that the store decided by, where it said so.
    pub clock_ms: Option<u64>,
}

impl Outcome {
    /// The outcome of the given verdicts.
    pub fn of(tier: Tier, lines: Vec<Line>) -> Self {
        let worst = tightest(&lines).filter(|line| line.refuses());
        let refused = worst.map(Line::reason);
        let retry_after_ms = worst.and_then(|line| match line.verdict.wait {
            Wait::Ms(ms) => Some(ms),
            _ => None,
        });
        let (silent, fences) = (Vec::new(), Vec::new());
        Self { tier, refused, retry_after_ms, lines, silent, fences, hold: None, clock_ms: None }
    }

    /// The same, with what else applies to the request, so that its headers name every limit.
    pub fn among(mut self, asks: &[Ask]) -> Self {
        let said = |ask: &&Ask| self.lines.iter().any(|line| line.limit == ask.limit);
        let silent = asks.iter().filter(|ask| !said(ask));
        self.silent = silent.map(|ask| (ask.limit, ask.quota.limit, ask.quota.window_ms)).collect();
        self
    }

    /// What the limits said, the tightest first: those that refuse, the longest wait in front; then those with
    /// least left. Of a limit that counted two subjects, the tighter.
    pub fn tightest_first(&self) -> Vec<&Line> {
        let mut lines = self.each_limit();
        order::sort(&mut lines, |a, b| a.tightness() <= b.tightness());
        lines
    }

    /// What each limit said, in the order asked; the tighter where it counted two subjects.
    pub fn each_limit(&self) -> Vec<&Line> {
        let mut lines: Vec<&Line> = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            match lines.iter_mut().find(|known| known.limit == line.limit) {
                Some(known) if line.tightness() < known.tightness() => *known = line,
                Some(_) => {}
                None => lines.push(line),
            }
        }
        lines
    }

    /// The tightest of the limits.
    pub fn tightest(&self) -> Option<&Line> {
        tightest(&self.lines)
    }

    /// Lets times until something count from the moment at which the request goes on, which is answered; as they are,
    /// they count from `now_ms`.
    pub fn at_its_moment(&mut self, now_ms: u64) -> u64 {
        let Some(hold) = self.hold else { return now_ms };
        let later_ms = hold.until_ms.saturating_sub(now_ms);
        for line in &mut self.lines {
            line.verdict.reset_ms = line.verdict.reset_ms.saturating_sub(later_ms);
        }
        now_ms.saturating_add(later_ms)
    }

    /// Whether the request passes.
    pub fn allowed(&self) -> bool {
        self.refused.is_none()
    }

    /// Names of the limits that refused.
    pub fn violated(&self) -> impl Iterator<Item = &Line> {
        self.each_limit().into_iter().filter(|line| line.refuses())
    }
}

fn tightest(lines: &[Line]) -> Option<&Line> {
    lines.iter().min_by_key(|line| line.tightness())
}
