//! Store calls under way: plain data by ticket, so that nothing of a request's own outlives it in Wasm memory.
//!
//! A request that its client has left is never heard of again. Once its deadline has passed it no longer counts as
//! under way, and some time later its ticket is dropped; drawing the next ticket does the sweeping.

use std::collections::{HashMap, VecDeque};

/// How long after its deadline a call counts as under way, in milliseconds: a late timer may still bring it.
const LATE_MS: u64 = 1_000;

/// How long after its deadline, or after a leap of the clock past that, a ticket is still good, in milliseconds.
const GRACE_MS: u64 = 30_000;

/// A table of what waits for a reply. Boxed, so that the tables of all kinds share their code.
#[derive(Debug)]
pub struct Inflight<T> {
    waiting: HashMap<u32, Box<T>>,
    overdue: HashMap<u32, Box<T>>,
    by_deadline: VecDeque<(u64, u32)>,
    by_grace: VecDeque<(u64, u32)>,
    last: u32,
}

impl<T> Default for Inflight<T> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            overdue: HashMap::new(),
            by_deadline: VecDeque::new(),
            by_grace: VecDeque::new(),
            last: 0,
        }
    }
}

impl<T> Inflight<T> {
    /// Keeps `pending` and draws its ticket. `deadline_ms` is when its call is given up.
    pub fn add(&mut self, pending: T, now_ms: u64, deadline_ms: u64) -> u32 {
        self.sweep(now_ms);
        self.last = self.last.wrapping_add(1);
        self.waiting.insert(self.last, Box::new(pending));
        self.by_deadline.push_back((deadline_ms, self.last));
        self.last
    }

    /// Hands back what a ticket stands for; `None` for one that was used, was dropped, or is of an earlier life.
    pub fn take(&mut self, ticket: u32) -> Option<T> {
        self.waiting.remove(&ticket).or_else(|| self.overdue.remove(&ticket)).map(|pending| *pending)
    }

    /// How many calls are under way.
    pub fn under_way(&mut self, now_ms: u64) -> usize {
        self.sweep(now_ms);
        self.waiting.len()
    }

    /// How many tickets are kept in all.
    pub fn kept(&self) -> usize {
        self.waiting.len().saturating_add(self.overdue.len())
    }

    fn sweep(&mut self, now_ms: u64) {
        while let Some(&(deadline, ticket)) = self.by_deadline.front() {
            if self.waiting.contains_key(&ticket) {
                if deadline.saturating_add(LATE_MS) > now_ms {
                    break;
                }
                if let Some(pending) = self.waiting.remove(&ticket) {
                    self.overdue.insert(ticket, pending);
                    // Not from the deadline: a clock that leaps past both would drop a call that is coming back.
                    self.by_grace.push_back((now_ms.saturating_sub(LATE_MS), ticket));
                }
            }
            self.by_deadline.pop_front();
        }
        while let Some(&(late, ticket)) = self.by_grace.front() {
            if late.saturating_add(GRACE_MS) > now_ms {
                break;
            }
            self.overdue.remove(&ticket);
            self.by_grace.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once() {
        let mut table = Inflight::default();
        let ticket = table.add("a", 0, 150);
        assert_eq!(table.take(ticket), Some("a"));
        assert_eq!(table.take(ticket), None);
    }

    #[test]
    fn calls_that_nobody_waits_for_do_not_count_for_long() {
        let mut table = Inflight::default();
        let ticket = table.add("a", 0, 150);
        assert_eq!(table.under_way(1_149), 1);
        assert_eq!(table.under_way(1_150), 0);
        assert_eq!(table.take(ticket), Some("a"), "a late reply is still read");
    }

    #[test]
    fn a_clock_that_leaps_drops_no_call_that_is_under_way() {
        let mut table = Inflight::default();
        let ticket = table.add("a", 0, 150);
        table.add("b", 1_785_432_000_000, 1_785_432_000_150);
        assert_eq!(table.take(ticket), Some("a"));
    }

    #[test]
    fn tickets_that_nobody_comes_back_for_are_dropped() {
        let mut table = Inflight::default();
        for at in 0..100_000_u64 {
            table.add(at, at, at + 150);
        }
        // As many as a millisecond brings, for the deadline, for what counts beyond it and for the grace.
        assert_eq!((table.kept(), table.under_way(99_999)), (30_150, 1_150));
        assert_eq!((table.under_way(100_000), table.kept()), (1_149, 30_149));
    }
}
