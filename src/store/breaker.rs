//! The circuit breaker of one isolate: while the store fails, requests do not wait for it.
//!
//! Closed, it counts calls over a sliding time window and opens when enough of them failed, or were slow. Open, it
//! lets nothing through until its time is over; that time grows with every opening in a row, with jitter, so that
//! isolates do not all come back at once. Then, half-open, it lets a bounded number of probes out: as many successes
//! close it, one failure opens it again. A probe whose request is never heard of again gives its permit back when
//! its own deadline has passed.
//!
//! A pure state machine: time and random numbers are arguments. A clock that stands still or reads 0 does no harm,
//! one that steps back counts as standing still.

use crate::policy::Breaker as Config;

/// How a call ended, as far as the breaker is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// An answer after this many milliseconds.
    Answered(u64),
    /// A failure that says something about the store.
    Failed,
    /// A failure that asking again does not mend: opens at once and for long.
    Hopeless,
    /// The store asks to be left alone for this many milliseconds: opens at once.
    LeaveAlone(u64),
    /// Says nothing about the store.
    Neutral,
}

/// Leave to make one call; goes back with its [`Ending`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// A number in half-open state, none in closed.
    probe: Option<u32>,
    /// The state it was given in, by count of changes; an ending from another state does not count.
    generation: u32,
}

/// State by name, for the log and the status page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Calls go through.
    Closed,
    /// No call goes through.
    Open,
    /// Probes go through.
    HalfOpen,
}

impl Phase {
    /// As the log and the API say it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// Parts that the sliding window moves by.
const BUCKETS: u64 = 10;

/// How long after its deadline a probe that nobody came back for is given up, in milliseconds.
const PROBE_GRACE_MS: u64 = 1_000;

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    number: u64,
    calls: u32,
    failed: u32,
    slow: u32,
}

#[derive(Debug, Clone)]
enum State {
    Closed,
    Open { until_ms: u64 },
    HalfOpen { out: Vec<(u32, u64)>, succeeded: u32 },
}

/// The breaker.
#[derive(Debug, Clone)]
pub struct Breaker {
    config: Config,
    state: State,
    buckets: [Bucket; BUCKETS as usize],
    openings: u32,
    generation: u32,
    next_probe: u32,
    now_ms: u64,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: State::Closed,
            buckets: [Bucket::default(); BUCKETS as usize],
            openings: 0,
            generation: 0,
            next_probe: 0,
            now_ms: 0,
        }
    }

    /// Takes another policy's numbers. Where it stands and how often it opened stays; what was counted does unless the
    /// window is another, since the parts of one window say nothing about those of another.
    pub fn configure(&mut self, config: Config) {
        if config.window_ms != self.config.window_ms {
            self.buckets = [Bucket::default(); BUCKETS as usize];
        }
        self.config = config;
    }

    /// Leave for a call with this deadline; `Err` is for how many milliseconds there is none.
    pub fn permit(&mut self, now_ms: u64, deadline_ms: u64) -> Result<Permit, u64> {
        let now = self.tick(now_ms);
        if let State::Open { until_ms } = self.state {
            if now < until_ms {
                return Err(until_ms.saturating_sub(now));
            }
            self.change(State::HalfOpen { out: Vec::new(), succeeded: 0 });
        }
        let generation = self.generation;
        match &mut self.state {
            State::HalfOpen { out, .. } => {
                out.retain(|(_, deadline)| deadline.saturating_add(PROBE_GRACE_MS) >= now);
                if out.len() >= self.config.probes as usize {
                    let soonest = out.iter().map(|(_, deadline)| *deadline).min().unwrap_or(now);
                    return Err(soonest.saturating_sub(now).max(1));
                }
                self.next_probe = self.next_probe.wrapping_add(1);
                out.push((self.next_probe, deadline_ms));
                Ok(Permit { probe: Some(self.next_probe), generation })
            }
            _ => Ok(Permit { probe: None, generation }),
        }
    }

    /// Leave to make a call once more in another form: the permit it has while the breaker is where it was, else as
    /// for a new call.
    pub fn renew(&mut self, permit: Permit, now_ms: u64, deadline_ms: u64) -> Result<Permit, u64> {
        if permit.generation == self.generation { Ok(permit) } else { self.permit(now_ms, deadline_ms) }
    }

    /// Takes a permit back with how its call ended. `random` is in [0, 1).
    pub fn end(&mut self, permit: Permit, ending: Ending, now_ms: u64, random: f64) {
        let now = self.tick(now_ms);
        if permit.generation != self.generation {
            return;
        }
        if let Some(probe) = permit.probe {
            self.end_probe(probe, ending, now, random);
            return;
        }
        let (failed, slow) = match ending {
            Ending::Answered(took_ms) => (0, u32::from(took_ms > self.config.slow_ms)),
            Ending::Failed => (1, 0),
            Ending::Hopeless | Ending::LeaveAlone(_) => return self.open(now, ending, random),
            Ending::Neutral => return,
        };
        let number = now.checked_div(self.bucket_ms()).unwrap_or(0);
        let index = number.checked_rem(BUCKETS).unwrap_or(0) as usize;
        if let Some(bucket) = self.buckets.get_mut(index) {
            if bucket.number != number {
                *bucket = Bucket { number, ..Bucket::default() };
            }
            bucket.calls = bucket.calls.saturating_add(1);
            bucket.failed = bucket.failed.saturating_add(failed);
            bucket.slow = bucket.slow.saturating_add(slow);
        }
        if self.is_bad(number) {
            self.open(now, ending, random);
        } else if failed == 0 && self.openings > 0 && self.counted(number).0 >= self.config.min_calls {
            // A whole window's worth of good calls: the next opening is a first one again.
            self.openings = 0;
        }
    }

    /// Where it stands.
    pub fn phase(&self, now_ms: u64) -> Phase {
        match self.state {
            State::Closed => Phase::Closed,
            State::Open { until_ms } if now_ms.max(self.now_ms) < until_ms => Phase::Open,
            _ => Phase::HalfOpen,
        }
    }

    /// Milliseconds until it lets a probe out; 0 where it does now.
    pub fn opens_in_ms(&self, now_ms: u64) -> u64 {
        match self.state {
            State::Open { until_ms } => until_ms.saturating_sub(now_ms.max(self.now_ms)),
            _ => 0,
        }
    }

    /// Calls, failures and slow calls in the window.
    pub fn counts(&self) -> (u32, u32, u32) {
        self.counted(self.now_ms.checked_div(self.bucket_ms()).unwrap_or(0))
    }

    fn end_probe(&mut self, probe: u32, ending: Ending, now: u64, random: f64) {
        let State::HalfOpen { out, succeeded } = &mut self.state else {
            return;
        };
        let before = out.len();
        out.retain(|(number, _)| *number != probe);
        if out.len() == before {
            // Given up already: what it says comes too late.
            return;
        }
        match ending {
            Ending::Neutral => {}
            Ending::Answered(took_ms) if took_ms <= self.config.slow_ms => {
                *succeeded = succeeded.saturating_add(1);
                if *succeeded >= self.config.probes {
                    self.buckets = [Bucket::default(); BUCKETS as usize];
                    self.change(State::Closed);
                }
            }
            _ => self.open(now, ending, random),
        }
    }

    fn open(&mut self, now: u64, ending: Ending, random: f64) {
        self.openings = self.openings.saturating_add(1);
        let doubled = 1_u64.checked_shl(self.openings.saturating_sub(1).min(20)).unwrap_or(1);
        let grown = self.config.open_ms.saturating_mul(doubled).min(self.config.max_open_ms);
        let for_ms = match ending {
            Ending::Hopeless => self.config.long_open_ms,
            Ending::LeaveAlone(ms) => ms.max(self.config.open_ms).min(self.config.long_open_ms.max(grown)),
            _ => grown,
        };
        // Half of it for certain, the other half by chance.
        let half = for_ms / 2;
        let jitter = (half as f64 * random.clamp(0.0, 1.0)) as u64;
        let least =
            if matches!(ending, Ending::LeaveAlone(_)) { for_ms } else { for_ms.saturating_sub(half) };
        self.change(State::Open {
            until_ms: now.saturating_add(least).saturating_add(jitter).max(now.saturating_add(1)),
        });
    }

    fn change(&mut self, state: State) {
        self.generation = self.generation.wrapping_add(1);
        self.state = state;
    }

    fn is_bad(&self, number: u64) -> bool {
        let (calls, failed, slow) = self.counted(number);
        let rate = |part: u32| f64::from(part) / f64::from(calls.max(1));
        calls >= self.config.min_calls
            && ((failed > 0 && rate(failed) >= self.config.failure_rate)
                || (slow > 0 && rate(slow) >= self.config.slow_rate))
    }

    fn counted(&self, number: u64) -> (u32, u32, u32) {
        let recent = self.buckets.iter().filter(|bucket| bucket.number.saturating_add(BUCKETS) > number);
        recent.fold((0, 0, 0), |(calls, failed, slow), bucket| {
            (
                bucket.calls.saturating_add(calls),
                bucket.failed.saturating_add(failed),
                bucket.slow.saturating_add(slow),
            )
        })
    }

    fn bucket_ms(&self) -> u64 {
        (self.config.window_ms / BUCKETS).max(1)
    }

    fn tick(&mut self, now_ms: u64) -> u64 {
        self.now_ms = self.now_ms.max(now_ms);
        self.now_ms
    }
}

#[cfg(test)]
mod tests;
