//! One subject of one limit, as the store knows it.

use std::rc::Rc;

use sluicegate::limit::concurrency::Holders;
use sluicegate::limit::waiting::Waiting;
use sluicegate::limit::{CLOCK_SLACK_MS, Quota, State, TTL_MARGIN_MS, Wait};
use sluicegate::policy::bounds;

use super::super::model::in_force_of;
use super::super::trace::Rule;
use super::trace::Item;

/// What a key gets that has lost its TTL: the longest lease, and the margin.
const LONGEST_MS: u64 = bounds::LEASE_MS.1 + TTL_MARGIN_MS;

/// One subject of one limit.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The limit.
    pub rule: Rule,
    /// Text of the override's key.
    pub over: Option<String>,
    /// What is known.
    pub state: Option<State>,
    /// Who waits.
    pub waiting: Waiting,
    /// When the keys of state and queue expire.
    pub life: Life,
    /// See `life`.
    pub queue_life: Life,
}

/// When a key expires, in ms of true time since time 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// There is no key.
    None,
    /// It has no TTL.
    Forever,
    /// Then.
    Until(u64),
}

impl Life {
    /// Is set to live that long, if it does not live longer already.
    pub fn kept(&mut self, at: u64, ms: u64) {
        *self = match *self {
            Self::None => Self::Until(at + ms),
            Self::Forever => Self::Until(at + LONGEST_MS),
            Self::Until(due) => Self::Until(due.max(at + ms)),
        };
    }

    /// Whether that is over.
    pub fn over(self, at: u64) -> bool {
        matches!(self, Self::Until(due) if due <= at)
    }
}

/// A concurrency limit as one request finds it.
pub struct Seat {
    /// Who holds, after a mend.
    pub holders: Holders,
    /// The clock that decides.
    pub clock_ms: u64,
    /// Whether there was a mend.
    pub mended: bool,
    /// Whether a slot can be had.
    pub wait: Wait,
}

impl Subject {
    /// Who holds.
    pub fn holders(&self) -> Holders {
        match &self.state {
            Some(State::Holders(holders)) => holders.clone(),
            _ => Holders::default(),
        }
    }

    /// Holds that from now on.
    pub fn write(&mut self, holders: Holders, at: u64) {
        self.state = Some(State::Holders(holders));
        self.life.kept(at, self.rule.quota.ttl_ms());
    }

    /// The quota after the override, and whether that is a ban. A text of another form counts as none.
    pub fn in_force(&self, now_ms: u64) -> (Quota, Option<Wait>) {
        in_force_of(self.rule.quota, self.over.as_deref(), now_ms)
    }

    /// Whose clock a request goes by, and what it finds by that.
    pub fn seat(&self, id: &Rc<str>, quota: Quota, cost: u64, now_ms: u64, store_ms: u64) -> Seat {
        let mut holders = self.holders();
        let far = |clock: u64| clock + quota.window_ms + CLOCK_SLACK_MS;
        let ends = |of: fn(std::vec::IntoIter<u64>) -> Option<u64>| {
            of(holders.all().map(|(_, lease)| lease.expires_ms).collect::<Vec<u64>>().into_iter())
        };
        let (first, last) = (ends(Iterator::min), ends(Iterator::max));
        let known = holders.all().any(|(other, _)| other == id);
        let full = cost > 0 && holders.all().count() as u64 >= quota.limit && !known;
        let last = last.filter(|_| full);
        let ended = first.is_some_and(|first| first <= now_ms);
        let asked = ended || (cost > 0 && last.is_none_or(|last| last > far(now_ms)));
        let clock_ms = if asked { store_ms } else { now_ms };
        let mended = last.is_some_and(|last| last > far(clock_ms)) && holders.mend(quota.window_ms, clock_ms);
        let wait = holders.wait(Some(id), quota.limit, clock_ms);
        Seat { holders, clock_ms, mended, wait }
    }

    /// The reply to `list`.
    pub fn listed(&self, limit: u64, clock: u64) -> Vec<Item> {
        let holders = self.holders();
        let mut holding: Vec<(u64, String, u64)> = holders
            .all()
            .filter(|(_, lease)| lease.expires_ms > clock)
            .map(|(id, lease)| (lease.expires_ms, id.to_string(), lease.fence))
            .collect();
        holding.sort();
        let waiters: Vec<String> = self.waiting.living(clock).map(|waiter| waiter.id.to_string()).collect();
        let counts = [holding.len() as u64, waiters.len() as u64];
        let head = [1, clock, limit, holders.free(limit, clock)].into_iter().chain(counts);
        let mut reply: Vec<Item> = head.map(|number| Item::Number(number as i64)).collect();
        for (ends, id, fence) in holding {
            reply.extend([Item::Text(id), Item::Number(fence as i64), Item::Number(ends as i64)]);
        }
        reply.extend(waiters.into_iter().map(Item::Text));
        reply
    }
}
