//! Which refusals the log has a line for: each, up to a rate; beyond it they are counted and the next line says how
//! many. A flood of refusals is what a rate limiter is for, and must not become a flood of log lines.

/// Most lines a second in one isolate.
pub const LINES_A_SECOND: u32 = 10;

/// A clock that is this many seconds behind has been set back; less is an answer that comes late.
const SET_BACK_S: u64 = 60;

/// What was logged in the second under way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sampler {
    second: u64,
    lines: u32,
    left_out: u64,
    total: u64,
}

impl Sampler {
    /// Whether there is a line for an event now: then how many were left out since the last one.
    pub fn line(&mut self, now_ms: u64) -> Option<u64> {
        let second = now_ms / 1000;
        if second > self.second || self.second.saturating_sub(second) > SET_BACK_S {
            self.second = second;
            self.lines = 0;
        }
        if self.lines >= LINES_A_SECOND {
            self.left_out = self.left_out.saturating_add(1);
            self.total = self.total.saturating_add(1);
            return None;
        }
        self.lines = self.lines.saturating_add(1);
        Some(std::mem::take(&mut self.left_out))
    }

    /// How many had no line since the isolate began.
    pub fn not_logged(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_785_432_000_000;

    #[test]
    fn every_event_has_a_line_up_to_the_rate() {
        let mut sampler = Sampler::default();
        for second in 0..5 {
            for _ in 0..10 {
                assert_eq!(sampler.line(NOW + second * 1000), Some(0));
            }
        }
        assert_eq!(sampler.not_logged(), 0);
    }

    #[test]
    fn the_next_line_says_how_many_were_left_out() {
        let mut sampler = Sampler::default();
        let lines = (0..1_000).filter(|_| sampler.line(NOW).is_some()).count();
        assert_eq!(lines, 10);
        assert_eq!(sampler.line(NOW + 1000), Some(990));
        assert_eq!(sampler.line(NOW + 1000), Some(0));
        assert_eq!(sampler.not_logged(), 990);
    }

    #[test]
    fn late_answers_open_no_new_second_and_a_clock_set_back_closes_none() {
        let mut sampler = Sampler::default();
        for _ in 0..100 {
            sampler.line(NOW);
            sampler.line(NOW - 1000);
        }
        assert_eq!(sampler.not_logged(), 190);
        assert_eq!(sampler.line(NOW - 3_600_000), Some(190), "an hour back is another clock");
    }
}
