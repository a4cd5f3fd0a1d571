//! Waiting for a slot: the caller's place is in the store, and the gateway asks for it time and again, the nearer to the
//! head the more often. Between two questions the entry carries what is known of the waiter.

use super::Gateway;
use super::slot::Slot;
use crate::limit::waiting::Patience;
use crate::policy::duration;
use crate::store::slots::{Operation, Refused};

/// Longest wait for a slot, in milliseconds.
const LONGEST_WAIT_MS: u64 = 60_000;

/// Most waiters of one subject.
const MOST_WAITERS: u64 = 1_000;

/// How often the head of the queue asks while the queue moves, and how often everybody does at least, in milliseconds.
const ASKS_MS: (u64, u64) = (100, 2_000);

/// Where the queue stands, this part of the time that it has stood goes by before the next question: a minute's wait
/// at the head is some 50 calls.
const STANDING: u64 = 6;

/// Who waits for a slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiter {
    /// What is waited for; a fence above 0 is that of the slot which was given up before.
    pub slot: Slot,
    /// When it is over, in milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// How many waited before it when it last asked.
    pub ahead: u64,
    /// Since when it has been so, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// Slots that there are.
    pub slots: u64,
    /// Chance, in [0, 1), by which it asks a little sooner: those who began together do not ask together.
    pub jitter: f64,
}

impl Gateway {
    /// A slot's note, then the numbers of the waiter in their order.
    pub(super) fn waiter_note(&self, waiter: &Waiter) -> String {
        let Waiter { slot, until_ms, ahead, since_ms, slots, .. } = waiter;
        format!("{},{until_ms},{ahead},{since_ms},{slots}", self.slot_note(slot))
    }

    pub(super) fn waiter_of(&self, note: &str, jitter: f64) -> Option<Waiter> {
        let slot = self.slot_of(note)?;
        let mut numbers = note.split(',').skip(4).map(str::parse);
        let mut number = || numbers.next()?.ok();
        let (until_ms, ahead, since_ms, slots) = (number()?, number()?, number()?, number()?);
        Some(Waiter { slot, until_ms, ahead, since_ms, slots, jitter })
    }

    /// How a slot is taken by somebody who may wait for it.
    pub(super) fn taking(&self, waiter: Option<&Waiter>, now_ms: u64) -> Operation {
        let timeout_ms = self.rules.policy.store.timeout_ms;
        Operation::Take(waiter.map(|waiter| Patience {
            wait_ms: waiter.until_ms.saturating_sub(now_ms),
            // Twice as long as until it asks next and has its answer.
            patience_ms: waiter.asks_ms(now_ms).saturating_add(timeout_ms).saturating_mul(2),
            most: MOST_WAITERS,
        }))
    }
}

impl Waiter {
    /// The same after the store has said where it stands.
    pub fn told(self, refused: &Refused, now_ms: u64) -> Self {
        let since_ms = if refused.ahead < self.ahead { now_ms } else { self.since_ms };
        Self { ahead: refused.ahead, since_ms, slots: refused.limit, ..self }
    }

    /// How long after it has asked it asks again, in milliseconds: up to a fifth sooner by chance than by its place,
    /// and not beyond the end of the wait.
    pub fn next_ms(&self, now_ms: u64) -> u64 {
        let asks_ms = self.asks_ms(now_ms);
        let sooner = (asks_ms as f64 / 5.0 * self.jitter.clamp(0.0, 1.0)) as u64;
        asks_ms.saturating_sub(sooner).min(self.until_ms.saturating_sub(now_ms)).max(1)
    }

    fn asks_ms(&self, now_ms: u64) -> u64 {
        let (first, last) = ASKS_MS;
        let rounds = self.ahead.checked_div(self.slots).unwrap_or(self.ahead);
        let by_place = first.saturating_mul(rounds.saturating_add(1));
        let standing = now_ms.saturating_sub(self.since_ms);
        by_place.max(standing / STANDING).min(last)
    }
}

/// Who waits, where the query says `wait=5s`. Nobody waits for `wait=0s`.
///
/// # Errors
/// What is wrong with the duration.
pub fn waiter(slot: Slot, query: &str, now_ms: u64, jitter: f64) -> Result<Option<Waiter>, String> {
    let Some(text) = query.split('&').find_map(|pair| pair.strip_prefix("wait=")) else { return Ok(None) };
    let wait_ms =
        duration::parse(text).map_err(|wrong| format!("wait: {}; {}", wrong.problem, wrong.cure))?;
    if wait_ms > LONGEST_WAIT_MS {
        return Err(format!("wait is at most {}", duration::to_text(LONGEST_WAIT_MS)));
    }
    let until_ms = now_ms.saturating_add(wait_ms);
    // Before it has heard of its place it may be the last.
    let waiter = Waiter { slot, until_ms, ahead: MOST_WAITERS, since_ms: now_ms, slots: 1, jitter };
    Ok((wait_ms > 0).then_some(waiter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(ahead: u64, slots: u64) -> Waiter {
        let slot = Slot { limit: 0, subject: "-".into(), id: "w".into(), fence: 0 };
        Waiter { slot, until_ms: 60_000, ahead, since_ms: 0, slots, jitter: 0.0 }
    }

    #[test]
    fn who_is_near_asks_often() {
        for (ahead, slots, ms) in [(0, 1, 100), (1, 1, 200), (19, 20, 100), (20, 20, 200), (999, 1, 2_000)] {
            assert_eq!(waiter(ahead, slots).asks_ms(0), ms, "{ahead} of {slots}");
        }
    }

    #[test]
    fn a_minute_at_a_head_that_stands_is_few_calls() {
        let (mut now, mut calls) = (0, 0);
        while now < 60_000 {
            now += waiter(0, 1).next_ms(now);
            calls += 1;
        }
        assert!((44..=52).contains(&calls), "{calls}");
        assert_eq!(now, 60_000, "the last question is at the end of the wait");
    }

    #[test]
    fn chance_makes_it_a_fifth_sooner_at_most() {
        let by = |jitter| Waiter { jitter, ..waiter(19, 1) }.next_ms(0);
        assert_eq!((by(0.0), by(0.999_999)), (2_000, 1_601));
    }
}
