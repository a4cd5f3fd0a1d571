//! A slot of a concurrency limit that a request holds, or that a caller of the API speaks of, and its text form. The
//! entry carries the text while a request runs or waits, so that the core keeps nothing of it: a request that is never
//! heard of again costs no memory, and a restarted instance frees what another one took.

use std::rc::Rc;

use super::Gateway;
use crate::subject::Digester;

/// A slot, taken or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Index of the limit in the policy.
    pub limit: usize,
    /// The subject, as keys end with it.
    pub subject: Rc<str>,
    /// The holder's id.
    pub id: Rc<str>,
    /// The fence it was taken with; 0 where the store does not know of it.
    pub fence: u64,
}

impl Gateway {
    /// `LIMIT,SUBJECT,ID,FENCE`: none of the parts holds a comma, a space or a line break.
    pub(super) fn slot_note(&self, slot: &Slot) -> String {
        let name = self.rules.limits.get(slot.limit).map_or("", |prepared| prepared.limit.name.as_str());
        format!("{name},{},{},{}", slot.subject, slot.id, slot.fence)
    }

    /// `None` for a limit that the policy no longer has.
    pub(super) fn slot_of(&self, note: &str) -> Option<Slot> {
        let mut parts = note.split(',');
        let limit = *self.rules.by_name.get(parts.next()?)?;
        let (subject, id) = (parts.next()?.into(), parts.next()?.into());
        Some(Slot { limit, subject, id, fence: parts.next()?.parse().ok()? })
    }
}

/// Draws ids that nobody else draws: 120 bits of a digest over the isolate's seed, a count, the time and chance.
#[derive(Debug)]
pub struct Ids {
    seed: String,
    drawn: u64,
}

impl Ids {
    /// `seed` is random text of the platform's, unknown to anybody.
    pub fn new(seed: &str) -> Self {
        Self { seed: seed.to_owned(), drawn: 0 }
    }

    /// The next one. `random` is in [0, 1).
    pub fn draw(&mut self, now_ms: u64, random: f64) -> Rc<str> {
        self.drawn = self.drawn.wrapping_add(1);
        let mut digest = Digester::new(None).start();
        let chance = (random.clamp(0.0, 1.0) * (1_u64 << 53) as f64) as u64;
        digest.text(&self.seed);
        [self.drawn, now_ms, chance].iter().for_each(|number| digest.text(&number.to_string()));
        digest.finish().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::slots::is_id;

    #[test]
    fn ids_are_drawn_once_and_are_ids() {
        let (mut one, mut other) = (Ids::new("seed"), Ids::new("another"));
        let drawn: std::collections::HashSet<_> =
            (0..1_000).flat_map(|_| [one.draw(1, 0.5), other.draw(1, 0.5)]).collect();
        assert_eq!(drawn.len(), 2_000);
        assert!(drawn.iter().all(|id| is_id(id) && id.len() == 20));
    }
}
