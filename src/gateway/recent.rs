//! Decisions of the last ten minutes by tier, in steps of ten seconds: what the status page draws.

use super::metrics::TIERS;
use super::outcome::Tier;

/// Length of a step, in milliseconds.
pub const STEP_MS: u64 = 10_000;

/// Steps that are shown, the one under way included.
pub const STEPS: usize = 60;

#[derive(Debug, Clone, Copy, Default)]
struct Step {
    /// Steps since 1970; 0 is none.
    number: u64,
    tiers: [u32; TIERS.len()],
    refused: u32,
}

/// The last steps, each in the place that its number says.
#[derive(Debug)]
pub struct Recent([Step; STEPS]);

impl Default for Recent {
    fn default() -> Self {
        Self([Step::default(); STEPS])
    }
}

impl Recent {
    /// A decision was made.
    pub fn note(&mut self, tier: Tier, refused: bool, now_ms: u64) {
        let number = now_ms / STEP_MS;
        let Some(step) = self.0.get_mut(place(number)) else { return };
        if step.number != number {
            *step = Step { number, ..Step::default() };
        }
        if let Some(count) = step.tiers.get_mut(tier as usize) {
            *count = count.saturating_add(1);
        }
        step.refused = step.refused.saturating_add(u32::from(refused));
    }

    /// How many decisions each step had, by tier, the oldest first; the last is under way.
    pub fn tier(&self, tier: Tier, now_ms: u64) -> Vec<u32> {
        self.each(now_ms, |step| step.tiers.get(tier as usize).copied().unwrap_or(0))
    }

    /// How many of them refused.
    pub fn refused(&self, now_ms: u64) -> Vec<u32> {
        self.each(now_ms, |step| step.refused)
    }

    fn each(&self, now_ms: u64, count: impl Fn(&Step) -> u32) -> Vec<u32> {
        let last = now_ms / STEP_MS;
        let numbers = (0..STEPS as u64).rev().map(|ago| last.checked_sub(ago));
        let steps =
            numbers.map(|number| self.0.get(place(number?)).filter(|step| Some(step.number) == number));
        steps.map(|step| step.map_or(0, &count)).collect()
    }
}

fn place(number: u64) -> usize {
    number.checked_rem(STEPS as u64).unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_785_432_000_000;

    #[test]
    fn counts_stand_in_their_steps() {
        let mut recent = Recent::default();
        recent.note(Tier::Store, false, NOW);
        recent.note(Tier::Store, true, NOW + 9_999);
        recent.note(Tier::Cache, true, NOW + 10_000);
        let store = recent.tier(Tier::Store, NOW + 10_000);
        assert_eq!((store.len(), &store[57..]), (60, &[0, 2, 0][..]));
        assert_eq!(recent.tier(Tier::Cache, NOW + 10_000)[58..], [0, 1]);
        assert_eq!(recent.refused(NOW + 10_000)[58..], [1, 1]);
    }

    #[test]
    fn ten_minutes_later_all_is_gone_and_its_place_is_taken() {
        let mut recent = Recent::default();
        recent.note(Tier::Store, false, NOW);
        assert_eq!(recent.tier(Tier::Store, NOW + 599_999)[0], 1);
        assert_eq!(recent.tier(Tier::Store, NOW + 600_000), [0; 60]);
        recent.note(Tier::Store, false, NOW + 600_000);
        assert_eq!(recent.tier(Tier::Store, NOW + 600_000)[59], 1);
    }

    #[test]
    fn a_clock_at_zero_or_set_back_shows_nothing_that_is_not_there() {
        let mut recent = Recent::default();
        assert_eq!(recent.tier(Tier::Store, 0), [0; 60]);
        recent.note(Tier::Store, false, NOW);
        assert_eq!(recent.tier(Tier::Store, NOW - 3_600_000), [0; 60]);
    }
}
