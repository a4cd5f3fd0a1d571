//! Who waits for a slot of a concurrency limit: the oldest waiter first.
//!
//! A waiter keeps its place for as long as it keeps asking. The slots that are free belong to as many of the oldest
//! waiters, so nobody overtakes them; who has stopped asking loses its place, so a dead head does not block.

use std::rc::Rc;

use super::Wait;
use super::concurrency::{Holders, Lease};

/// One who waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// Its id, which is its holder's id later.
    pub id: Rc<str>,
    /// Until when the place is kept, in milliseconds since the Unix epoch.
    pub until_ms: u64,
}

/// How a place is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For how long the caller goes on waiting, in milliseconds from now.
    pub wait_ms: u64,
    /// For how long the place is kept without being asked for again, in milliseconds.
    pub patience_ms: u64,
    /// Most waiters of a subject.
    pub most: u64,
}

/// The waiters of one subject, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waiting {
    waiters: Vec<Waiter>,
}

impl Waiting {
    /// All of them, dead ones that have not been dropped yet included.
    pub fn all(&self) -> &[Waiter] {
        &self.waiters
    }

    /// Those who still ask.
    pub fn living(&self, clock_ms: u64) -> impl Iterator<Item = &Waiter> {
        self.waiters.iter().filter(move |waiter| waiter.until_ms > clock_ms)
    }

    /// How many stand before this id: before its place, or all where it has none.
    pub fn ahead(&self, id: &str, clock_ms: u64) -> u64 {
        self.living(clock_ms).take_while(|waiter| &*waiter.id != id).count() as u64
    }

    /// Milliseconds until the first place is lost; 0 where nobody waits.
    pub fn first_ms(&self, clock_ms: u64) -> u64 {
        let first = self.living(clock_ms).map(|waiter| waiter.until_ms).min();
        first.unwrap_or(0).saturating_sub(clock_ms)
    }

    /// Drops who has stopped asking.
    pub fn settle(&mut self, clock_ms: u64) {
        self.waiters.retain(|waiter| waiter.until_ms > clock_ms);
    }

    /// Keeps the place of this id, or gives it the last one. `false` where the queue is full.
    pub fn join(&mut self, id: &Rc<str>, patience: Patience, clock_ms: u64) -> bool {
        self.settle(clock_ms);
        let until_ms = clock_ms.saturating_add(patience.wait_ms.min(patience.patience_ms));
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.id == *id) {
            waiter.until_ms = until_ms;
            return true;
        }
        if self.waiters.len() as u64 >= patience.most {
            return false;
        }
        self.waiters.push(Waiter { id: id.clone(), until_ms });
        true
    }

    /// Gives up the place of this id; whether it had one.
    pub fn leave(&mut self, id: &str) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| &*waiter.id != id);
        self.waiters.len() < before
    }
}

/// What comes of asking for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It holds one.
    Taken(Lease),
    /// None is free for it. Where it waits, it has its place.
    Refused(Ahead),
    /// None is free for it, and the queue has no room for one more.
    QueueFull(Ahead),
}

/// How long a refusal may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// When asking again may find a slot: when the first lease ends or, where slots are kept free for those ahead, when
    /// the first of them loses its place.
    pub wait: Wait,
    /// How many wait before it.
    pub waiters: u64,
}

/// Takes one of `limit` slots under an id, in its turn, or waits for it where `patience` says so. Who does not wait, or
/// no longer, has no place.
pub fn take(
    (holders, waiting): (&mut Holders, &mut Waiting),
    id: &Rc<str>,
    (limit, lease_ms): (u64, u64),
    patience: Option<Patience>,
    clock_ms: u64,
) -> Turn {
    if holders.lease(id, clock_ms).is_none() {
        waiting.settle(clock_ms);
        let (free, waiters) = (holders.free(limit, clock_ms), waiting.ahead(id, clock_ms));
        if free <= waiters {
            let wait_ms = if free > 0 { waiting.first_ms(clock_ms) } else { holders.reset_ms(clock_ms) };
            let ahead = Ahead { wait: if wait_ms > 0 { Wait::Ms(wait_ms) } else { Wait::Never }, waiters };
            let placed = match patience.filter(|patience| patience.wait_ms > 0) {
                Some(patience) => waiting.join(id, patience, clock_ms),
                None => {
                    waiting.leave(id);
                    true
                }
            };
            return if placed { Turn::Refused(ahead) } else { Turn::QueueFull(ahead) };
        }
        waiting.leave(id);
    }
    Turn::Taken(holders.take(id, lease_ms, clock_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_785_432_000_000;
    const PATIENCE: Patience = Patience { wait_ms: 5_000, patience_ms: 1_000, most: 3 };

    fn queue(ids: &[&str]) -> Waiting {
        let mut waiting = Waiting::default();
        ids.iter().for_each(|id| assert!(waiting.join(&(*id).into(), PATIENCE, NOW)));
        waiting
    }

    #[test]
    fn a_place_is_kept_while_it_is_asked_for() {
        let mut waiting = queue(&["a", "b", "c"]);
        assert_eq!((waiting.ahead("a", NOW), waiting.ahead("c", NOW), waiting.ahead("x", NOW)), (0, 2, 3));
        assert!(!waiting.join(&"d".into(), PATIENCE, NOW), "the queue is bounded");
        assert!(waiting.join(&"b".into(), PATIENCE, NOW + 999));
        assert_eq!(waiting.first_ms(NOW + 999), 1);
        // The head is dead: it does not block, and comes back behind the others.
        assert_eq!((waiting.ahead("b", NOW + 1_000), waiting.ahead("x", NOW + 1_000)), (0, 1));
        assert!(waiting.join(&"a".into(), PATIENCE, NOW + 1_000));
        assert_eq!(waiting.ahead("a", NOW + 1_000), 1);
    }

    #[test]
    fn the_end_of_the_wait_is_the_end_of_the_place() {
        let mut waiting = Waiting::default();
        waiting.join(&"a".into(), Patience { wait_ms: 10, ..PATIENCE }, NOW);
        assert_eq!((waiting.first_ms(NOW), waiting.ahead("b", NOW + 10)), (10, 0));
    }

    #[test]
    fn what_is_free_belongs_to_the_oldest() {
        let (mut holders, mut waiting) = (Holders::default(), Waiting::default());
        let mut ask = |id: &str, patience, clock| {
            take((&mut holders, &mut waiting), &id.into(), (1, 10_000), patience, clock)
        };
        let refused = |ms, waiters| Turn::Refused(Ahead { wait: Wait::Ms(ms), waiters });
        assert!(matches!(ask("h", None, NOW), Turn::Taken(_)));
        assert_eq!(ask("a", Some(PATIENCE), NOW), refused(10_000, 0));
        assert_eq!(ask("b", Some(PATIENCE), NOW + 500), refused(9_500, 1));
        let end = NOW + 10_000;
        assert_eq!(ask("a", Some(PATIENCE), end - 900), refused(900, 0));
        assert_eq!(ask("b", Some(PATIENCE), end - 800), refused(800, 1));
        // The slot is free, and kept for the first in the queue while it goes on asking.
        assert_eq!(ask("x", None, end), refused(100, 2));
        assert_eq!(ask("b", Some(PATIENCE), end), refused(100, 1));
        assert!(matches!(ask("b", None, end + 100), Turn::Taken(_)), "the head is dead");
        assert_eq!(ask("a", None, end + 100), refused(10_000, 0));
        assert_eq!(ask("c", Some(Patience { most: 0, ..PATIENCE }), end + 100), {
            Turn::QueueFull(Ahead { wait: Wait::Ms(10_000), waiters: 0 })
        });
    }

    /// As for a plan that has none.
    #[test]
    fn where_there_are_no_slots_none_ever_comes() {
        let refused =
            take((&mut Holders::default(), &mut Waiting::default()), &"a".into(), (0, 10_000), None, NOW);
        assert_eq!(refused, Turn::Refused(Ahead { wait: Wait::Never, waiters: 0 }));
    }

    #[test]
    fn who_leaves_is_gone() {
        let mut waiting = queue(&["a", "b"]);
        assert!(waiting.leave("a") && !waiting.leave("a"));
        assert_eq!(waiting.ahead("b", NOW), 0);
    }
}
