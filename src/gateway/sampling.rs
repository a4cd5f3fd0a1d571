//! Which refusals the log has a line for: each, up to a rate; beyond it they are counted and the next line says how
//! many. A flood of refusals is what a rate limiter is for, and must not become a flood of log lines.

/// Lines at once after a quiet time.
const BURST: u64 = 100;

/// What a line costs in milliseconds: ten a second for long.
const LINE_MS: u64 = 100;

/// A clock that is this much behind has been set back; less is an answer that comes late.
const SET_BACK_MS: u64 = 60_000;

/// A token bucket of log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampler {
    at_ms: u64,
    credit_ms: u64,
    left_out: u64,
    not_logged: u64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { at_ms: 0, credit_ms: BURST.saturating_mul(LINE_MS), left_out: 0, not_logged: 0 }
    }
}

impl Sampler {
    /// Whether there is a line for an event now: then how many were left out since the last one.
    pub fn line(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms > self.at_ms || self.at_ms.saturating_sub(now_ms) > SET_BACK_MS {
            let earned_ms = now_ms.saturating_sub(self.at_ms);
            self.credit_ms = self.credit_ms.saturating_add(earned_ms).min(BURST.saturating_mul(LINE_MS));
            self.at_ms = now_ms;
        }
        match self.credit_ms.checked_sub(LINE_MS) {
            Some(left_ms) => {
                self.credit_ms = left_ms;
                Some(std::mem::take(&mut self.left_out))
            }
            None => {
                self.left_out = self.left_out.saturating_add(1);
                self.not_logged = self.not_logged.saturating_add(1);
                None
            }
        }
    }

    /// How many had no line since the isolate began.
    pub fn not_logged(&self) -> u64 {
        self.not_logged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_785_432_000_000;

    #[test]
    fn every_event_has_a_line_up_to_the_rate() {
        let mut sampler = Sampler::default();
        for tenth in 0..1_000 {
            assert_eq!(sampler.line(NOW + tenth * 100), Some(0));
        }
        assert_eq!(sampler.not_logged(), 0);
    }

    #[test]
    fn a_flood_has_a_burst_of_lines_and_then_ten_a_second() {
        let mut sampler = Sampler::default();
        let lines: u64 = (0..60_000).filter_map(|ms| sampler.line(NOW + ms)).map(|_| 1).sum();
        assert_eq!(lines, 100 + 599, "a burst, then the rate over the rest of the minute");
        assert_eq!(sampler.not_logged(), 60_000 - lines);
    }

    #[test]
    fn the_next_line_says_how_many_were_left_out() {
        let mut sampler = Sampler::default();
        let lines = (0..1_000).filter(|_| sampler.line(NOW).is_some()).count();
        assert_eq!(lines, 100);
        assert_eq!(sampler.line(NOW + 99), None);
        assert_eq!(sampler.line(NOW + 100), Some(901));
        assert_eq!(sampler.line(NOW + 200), Some(0));
    }

    #[test]
    fn late_answers_earn_nothing_and_a_clock_set_back_goes_on() {
        let mut sampler = Sampler::default();
        let lines = (0..1_000).filter(|late| sampler.line(NOW - late % 1_000).is_some()).count();
        assert_eq!(lines, 100);
        let hour_ago = NOW - 3_600_000;
        assert_eq!(sampler.line(hour_ago), None);
        assert_eq!(sampler.line(hour_ago + 100), Some(901));
    }
}
