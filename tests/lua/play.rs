//! Plays traces on a real Redis and holds every reply, every stored byte and every TTL against the model.
//!
//! True time is simulated and passes at once, while Redis expires keys by its own: a key that would have expired in
//! a trace is deleted there, and a trace that took so long that Redis may have expired one proves nothing either way.
//! The one thing that cannot be simulated is the store's clock. It is read before and after; the reply must be the
//! model's for one of the milliseconds between.

use std::ops::RangeInclusive;
use std::time::Instant;

use sluicegate::store::key::letter;
use sluicegate::store::script::CHECK;

use super::model::{CHARGE_TTL_MS, Model, Said};
use super::property;
use super::suite::{Fault, Outcome, STALE, Suite};
use super::support::redis::{Client, Reply};
use super::trace::{Base, Step, Trace};

/// A script loaded into a Redis, and a connection to it.
pub struct Stage {
    /// The connection.
    pub client: Client,
    sha: String,
    lanes: usize,
}

/// A trace under way.
pub struct Lane {
    /// What has been played.
    pub trace: Trace,
    /// What the store must hold.
    pub model: Model,
    /// Keys of the states.
    pub keys: Vec<String>,
    /// Keys of the overrides.
    pub over_keys: Vec<String>,
    /// Time 0.
    pub base_ms: u64,
    began: Instant,
}

impl Stage {
    /// With the script as it is built in.
    pub fn new(client: Client) -> Self {
        Self::with(client, CHECK.redis)
    }

    /// With another text. What an earlier stage has left is gone.
    pub fn with(mut client: Client, text: &str) -> Self {
        client.call(&["FLUSHALL"]);
        let sha = client.call(&["SCRIPT", "LOAD", text]).text().to_owned();
        Self { client, sha, lanes: 0 }
    }

    /// The store's clock.
    pub fn store_ms(&mut self) -> u64 {
        self.client.call(&["TIME"]).time_ms()
    }

    /// Runs the script for a step of a lane, and nothing else.
    pub fn ask(&mut self, lane: &Lane, step: &Step) -> Vec<i64> {
        let reply = self.client.call(&lane.command(&self.sha, step));
        reply.array().iter().map(Reply::int).collect()
    }

    /// Opens a lane for a trace; its steps are left out.
    pub fn lane(&mut self, trace: &Trace) -> Lane {
        self.lanes += 1;
        // Time 0 is put down as a number, so that a printed trace is about the same moments.
        let base_ms = trace.base_ms(self.store_ms());
        let name = |what: &str, limit: usize| format!("sg:1:l{limit}:{what}:{}", self.lanes);
        Lane {
            trace: Trace { steps: Vec::new(), ..trace.clone() },
            model: Model::new(trace, base_ms),
            keys: (0..trace.limits.len()).map(|limit| name("b1s", limit)).collect(),
            over_keys: (0..trace.limits.len()).map(|limit| name("!", limit)).collect(),
            base_ms,
            began: Instant::now(),
        }
    }

    /// Plays one step of each lane, all in one round trip.
    pub fn play(&mut self, lanes: &mut [Lane], steps: Vec<Step>) -> Vec<Result<Said, Fault>> {
        let mut faults = Vec::with_capacity(lanes.len());
        let mut skips = Vec::with_capacity(lanes.len());
        self.client.queue(&["TIME"]);
        for (lane, step) in lanes.iter_mut().zip(&steps) {
            let gone = lane.model.expire(step.at);
            let mut keys: Vec<String> = lane.model.expire_charges(step.at);
            keys.iter_mut().for_each(|id| *id = lane.charge_key(id));
            keys.extend(gone.iter().flatten().map(|limit| lane.keys[*limit].clone()));
            lane.model.prepare(step);
            skips.push(lane.queue(&mut self.client, &self.sha, step, &keys));
            faults.push(gone.err());
        }
        self.client.queue(&["TIME"]);
        let replies = self.client.flush();
        let (first, last) = (replies[0].time_ms(), replies[replies.len() - 1].time_ms());
        let mut rest = &replies[1..];
        let mut said = Vec::with_capacity(lanes.len());
        for (((lane, step), skip), fault) in lanes.iter_mut().zip(steps).zip(skips).zip(faults) {
            let (own, others) = rest[skip..].split_at(2 + lane.read(&step).len());
            rest = others;
            let result = match fault {
                Some(fault) => Err(Fault::Wrong(fault)),
                None => lane.judge(&step, own, first..=last),
            };
            lane.trace.steps.push(step);
            said.push(match result {
                Err(_) if lane.began.elapsed() > STALE => Err(Fault::Stale),
                result => result,
            });
        }
        said
    }
}

impl Suite for Stage {
    type Step = Step;
    type Base = Base;
    type Said = Said;
    type Tally = u64;

    const ROWS: &'static str = "tests/vectors";

    fn says(step: &Step) -> bool {
        step.reply.is_some() || step.poll.is_some()
    }

    fn once(&mut self, trace: &Trace) -> Result<Vec<Said>, Fault> {
        let mut lane = self.lane(trace);
        let play = |step| self.play(std::slice::from_mut(&mut lane), vec![step]).remove(0);
        trace.unrolled().map(play).collect()
    }

    fn histories(&mut self, seed: u64, steps: u64) -> Outcome<Self> {
        property::play(self, seed, steps)
    }
}

impl Lane {
    /// Key of a charge id.
    fn charge_key(&self, id: &str) -> String {
        format!("{}:{id}", self.keys[0])
    }

    /// The keys that are read back after a step.
    fn read(&self, step: &Step) -> Vec<String> {
        let charge = step.charge.as_ref().map(|(id, _)| self.charge_key(id));
        self.keys.iter().cloned().chain(charge).collect()
    }

    /// Queues what a step asks of Redis; how many replies come before the script's.
    fn queue(&self, client: &mut Client, sha: &str, step: &Step, gone: &[String]) -> usize {
        for key in gone {
            client.queue(&["DEL", key]);
        }
        for (limit, _) in &step.overrides {
            let key = &self.over_keys[*limit];
            match &self.model.subjects[*limit].over {
                Some(over) => client.queue(&["SET", key, over]),
                None => client.queue(&["DEL", key]),
            }
        }
        let persisted: &[String] = if step.persist { &self.keys } else { &[] };
        for key in persisted {
            client.queue(&["PERSIST", key]);
        }
        client.queue(&self.command(sha, step));
        let read = self.read(step);
        client.queue(&[vec!["MGET".to_owned()], read.clone()].concat());
        for key in &read {
            client.queue(&["PTTL", key]);
        }
        gone.len() + step.overrides.len() + persisted.len()
    }

    /// The command as the script's contract has it.
    fn command(&self, sha: &str, step: &Step) -> Vec<String> {
        let mut keys: Vec<&String> = self.keys.iter().zip(&self.over_keys).flat_map(<[_; 2]>::from).collect();
        let charge = step.charge.as_ref().map(|(id, _)| self.charge_key(id));
        keys.extend(&charge);
        let mut command = vec!["EVALSHA".to_owned(), sha.to_owned(), keys.len().to_string()];
        command.extend(keys.into_iter().cloned());
        command.push(if step.store_clock { String::new() } else { step.clock_ms(self.base_ms).to_string() });
        for (limit, subject) in self.model.subjects.iter().enumerate() {
            let (quota, letter) = (subject.rule.quota, letter(subject.rule.quota.algorithm));
            let letter = if subject.rule.shadow { letter.to_ascii_uppercase() } else { letter };
            let ahead = subject.rule.ahead_ms.map(|ms| format!("~{ms}"));
            let more = Some(step.more_in(limit, &subject.rule)).filter(|more| *more > 0);
            let modifier = ahead.or_else(|| more.map(|more| format!("+{more}"))).unwrap_or_default();
            command.push(format!("{letter}{modifier}"));
            let ttl_ms = quota.ttl_ms() + subject.rule.ahead_ms.unwrap_or(0);
            let numbers = [quota.limit, quota.window_ms, quota.burst, ttl_ms, step.cost_in(limit)];
            command.extend(numbers.iter().map(u64::to_string));
        }
        if let Some((_, fingerprint)) = &step.charge {
            command.extend([CHARGE_TTL_MS.to_string(), fingerprint.clone()]);
        }
        command
    }

    /// Whether the replies to the script, to MGET and to PTTL are the model's at one of the store's moments.
    fn judge(
        &mut self,
        step: &Step,
        replies: &[Reply],
        mut store: RangeInclusive<u64>,
    ) -> Result<Said, Fault> {
        if let Reply::Error(text) = &replies[0] {
            return Err(Fault::Error(text.clone()));
        }
        let took = store.end() - store.start();
        let reply: Vec<i64> = replies[0].array().iter().map(Reply::int).collect();
        let stored: Vec<Option<Vec<u8>>> =
            replies[1].array().iter().map(|reply| reply.bulk().map(<[u8]>::to_vec)).collect();
        let (mut first, mut charged) = (None, false);
        let found = store.find_map(|store_ms| {
            let mut model = self.model.clone();
            let said = model.step(step, store_ms);
            let mut wanted = model.stored();
            if let Some((id, _)) = &step.charge {
                charged = model.charge(id) != self.model.charge(id);
                wanted.push(model.charge(id).map(|text| text.as_bytes().to_vec()));
            }
            if said.reply == reply && wanted == stored {
                return Some((model, said));
            }
            first.get_or_insert((said, wanted));
            None
        });
        let Some((model, said)) = found else {
            let wanted = first.map(|(said, stored)| format!("{:?}\n  bytes {stored:x?}", said.reply));
            let wanted = wanted.unwrap_or_default();
            return Err(Fault::Wrong(format!(
                "the model says {wanted}\nthe script says {reply:?}\n  bytes {stored:x?}"
            )));
        };
        self.model = model;
        let written = said.writes.iter().map(Option::is_some).chain([charged]);
        let bounds = (0..self.keys.len()).map(|limit| self.model.ttl_ms(limit)).chain([Some(CHARGE_TTL_MS)]);
        for (index, ((pttl, bound), written)) in replies[2..].iter().zip(bounds).zip(written).enumerate() {
            let (pttl, bound) = (pttl.int(), bound.map(|ttl_ms| ttl_ms as i64));
            let right = match (&stored[index], bound) {
                (None, _) => pttl == -2,
                (Some(_), None) => pttl == -1,
                // An expiry is put down in whole milliseconds and read a moment later.
                (Some(_), Some(ttl_ms)) if written => (ttl_ms - took as i64 - 1..=ttl_ms).contains(&pttl),
                (Some(_), Some(ttl_ms)) => (1..=ttl_ms).contains(&pttl),
            };
            if !right {
                return Err(Fault::Wrong(format!("key {index}: PTTL {pttl}, of {bound:?}")));
            }
        }
        Ok(said)
    }
}
