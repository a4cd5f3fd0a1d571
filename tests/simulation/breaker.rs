//! The breaker against a model, over random events and clocks.
//!
//! The model is written from the words at the head of `store::breaker`: it keeps every call of the window in a list,
//! where the breaker keeps sums, and knows of an opening only how long it may be.

use sluicegate::policy::Breaker as Config;
use sluicegate::store::breaker::{Breaker, Ending, Permit, Phase};

use super::random::Random;
use super::seeds;

/// The window moves by this part of it.
const PARTS: u64 = 10;
/// How long after its deadline a probe is given up.
const GIVEN_UP_AFTER_MS: u64 = 1_000;

enum State {
    Closed,
    Open {
        until_ms: u64,
    },
    /// Probes with their deadlines, and how many came back well.
    HalfOpen {
        out: Vec<(u64, u64)>,
        good: u32,
    },
}

/// A call's permit: in which state it was given, and which it was.
#[derive(Clone, Copy)]
struct Pass {
    episode: u64,
    number: u64,
}

struct Model {
    config: Config,
    state: State,
    /// How often the state changed.
    episode: u64,
    given: u64,
    in_a_row: u32,
    /// When calls ended, whether they failed, whether they were slow.
    calls: Vec<(u64, bool, bool)>,
    now_ms: u64,
}

impl Model {
    fn new(config: Config) -> Self {
        Self { config, state: State::Closed, episode: 0, given: 0, in_a_row: 0, calls: Vec::new(), now_ms: 0 }
    }

    /// A clock that steps back counts as standing still.
    fn tell(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    fn phase(&self, now_ms: u64) -> Phase {
        match &self.state {
            State::Closed => Phase::Closed,
            State::Open { until_ms } if self.now_ms.max(now_ms) < *until_ms => Phase::Open,
            _ => Phase::HalfOpen,
        }
    }

    fn permit(&mut self, now_ms: u64, deadline_ms: u64) -> Option<Pass> {
        self.tell(now_ms);
        if let State::Open { until_ms } = self.state {
            if self.now_ms < until_ms {
                return None;
            }
            self.turn(State::HalfOpen { out: Vec::new(), good: 0 });
        }
        self.given += 1;
        if let State::HalfOpen { out, .. } = &mut self.state {
            out.retain(|(_, deadline_ms)| self.now_ms <= deadline_ms + GIVEN_UP_AFTER_MS);
            if out.len() == self.config.probes as usize {
                return None;
            }
            out.push((self.given, deadline_ms));
        }
        Some(Pass { episode: self.episode, number: self.given })
    }

    /// Answers how long it opens for, at least and at most, where it does.
    fn end(&mut self, pass: Pass, ending: Ending, now_ms: u64) -> Option<(u64, u64)> {
        self.tell(now_ms);
        if pass.episode != self.episode {
            return None;
        }
        let slow = matches!(ending, Ending::Answered(took_ms) if took_ms > self.config.slow_ms);
        let answered = matches!(ending, Ending::Answered(_));
        if let State::HalfOpen { out, good } = &mut self.state {
            let at = out.iter().position(|(number, _)| *number == pass.number)?;
            out.swap_remove(at);
            match ending {
                Ending::Neutral => return None,
                Ending::Answered(_) if !slow => *good += 1,
                _ => return Some(self.open(ending)),
            }
            if *good == self.config.probes {
                self.calls.clear();
                self.turn(State::Closed);
            }
            return None;
        }
        match ending {
            Ending::Neutral => return None,
            Ending::Hopeless | Ending::LeaveAlone(_) => return Some(self.open(ending)),
            _ => self.calls.push((self.now_ms, !answered, slow)),
        }
        let part_ms = (self.config.window_ms / PARTS).max(1);
        let first = (self.now_ms / part_ms + 1).saturating_sub(PARTS);
        self.calls.retain(|(at_ms, ..)| at_ms / part_ms >= first);
        let all = self.calls.len();
        let failed = self.calls.iter().filter(|call| call.1).count();
        let slow = self.calls.iter().filter(|call| call.2).count();
        let reaches = |count: usize, rate: f64| count > 0 && count as f64 >= rate * all as f64;
        if all < self.config.min_calls as usize {
            return None;
        }
        if reaches(failed, self.config.failure_rate) || reaches(slow, self.config.slow_rate) {
            return Some(self.open(ending));
        }
        if answered {
            // Enough calls that ended well enough: what opens it next is the first in a row.
            self.in_a_row = 0;
        }
        None
    }

    fn open(&mut self, ending: Ending) -> (u64, u64) {
        self.in_a_row += 1;
        let Config { open_ms, max_open_ms, long_open_ms, .. } = self.config;
        let grown_ms = (1..self.in_a_row).fold(open_ms, |ms, _| (ms * 2).min(max_open_ms)).min(max_open_ms);
        match ending {
            Ending::Hopeless => (long_open_ms - long_open_ms / 2, long_open_ms),
            // No shorter than it was asked for, but for what is beyond all measure.
            Ending::LeaveAlone(ms) => {
                let for_ms = ms.max(open_ms).min(long_open_ms.max(grown_ms));
                (for_ms, for_ms + for_ms / 2)
            }
            _ => (grown_ms - grown_ms / 2, grown_ms),
        }
    }

    fn turn(&mut self, state: State) {
        self.episode += 1;
        self.state = state;
    }
}

fn config(random: &mut Random) -> Config {
    let open_ms = random.between(10, 2_000);
    Config {
        window_ms: random.pick(&[10, 95, 1_000, 10_000]),
        min_calls: random.between(1, 6) as u32,
        failure_rate: random.pick(&[0.25, 0.5, 1.0]),
        slow_ms: 100,
        slow_rate: random.pick(&[0.25, 0.75, 1.0]),
        open_ms,
        max_open_ms: open_ms * random.between(1, 5),
        long_open_ms: random.between(10, 60_000),
        probes: random.between(1, 3) as u32,
    }
}

fn step(now_ms: u64, random: &mut Random) -> u64 {
    match random.between(0, 9) {
        0..=3 => now_ms,
        4..=6 => now_ms + random.between(0, 60),
        7 => now_ms + random.between(0, 1_500),
        8 => now_ms + random.between(0, 30_000),
        _ => now_ms.saturating_sub(random.between(0, 20_000)),
    }
}

fn play(seed: u64) -> [u64; 3] {
    let mut random = Random::new(seed);
    let config = config(&mut random);
    let (mut breaker, mut model) = (Breaker::new(config), Model::new(config));
    let mut held: Vec<(Permit, Pass)> = Vec::new();
    let mut now_ms = random.pick(&[0, 0, 1_785_432_000_000]);
    let mut seen = [0; 3];
    let failing = random.between(10, 90);
    for _ in 0..250 {
        now_ms = step(now_ms, &mut random);
        if random.percent(50) || held.is_empty() {
            let deadline_ms = now_ms + random.between(10, 300);
            match (breaker.permit(now_ms, deadline_ms), model.permit(now_ms, deadline_ms)) {
                (Ok(permit), Some(pass)) => held.push((permit, pass)),
                (Err(wait_ms), None) => assert!(wait_ms > 0),
                (permit, pass) => panic!("{permit:?}, and the model {}", pass.is_some()),
            }
        } else {
            let at = random.between(0, held.len() as u64 - 1) as usize;
            let (permit, pass) = held.swap_remove(at);
            let ending = match random.percent(failing) {
                false => Ending::Answered(random.between(0, 110)),
                true => match random.between(0, 19) {
                    0 => Ending::Hopeless,
                    1 => Ending::LeaveAlone(random.between(0, 20_000)),
                    2..=4 => Ending::Neutral,
                    _ => Ending::Failed,
                },
            };
            // Some are never heard of again.
            if !random.percent(10) {
                breaker.end(permit, ending, now_ms, random.part());
                if let Some((least_ms, most_ms)) = model.end(pass, ending, now_ms) {
                    let for_ms = breaker.opens_in_ms(now_ms);
                    assert!((least_ms..=most_ms).contains(&for_ms), "{for_ms} of {least_ms} to {most_ms}");
                    let until_ms = model.now_ms + for_ms;
                    model.turn(State::Open { until_ms });
                }
            }
        }
        let phase = breaker.phase(now_ms);
        assert_eq!(phase, model.phase(now_ms), "at {now_ms}");
        seen[phase as usize] += 1;
    }
    seen
}

#[test]
fn equals_its_model() {
    let seen = seeds::each(2_000, play);
    for phase in [Phase::Closed, Phase::Open, Phase::HalfOpen] {
        let times: u64 = seen.iter().map(|seen| seen[phase as usize]).sum();
        assert!(times > 1_000 || seen.len() < 1_000, "{phase:?} was seen {times} times");
    }
}
