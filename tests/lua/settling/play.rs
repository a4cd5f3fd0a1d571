//! Plays histories on a real Redis and holds every reply, every stored byte and every TTL against the model.

use std::time::Instant;

use sluicegate::policy::Clock;
use sluicegate::store::call::{self, Check, ScriptCall};
use sluicegate::store::script::{CHECK, SETTLE, Script};
use sluicegate::store::settlement::{self, Call, Part};
use sluicegate::store::{Ask, Form, Stems};

use super::super::clockwork::{self, clockwork};
use super::super::rows::Fixed;
use super::super::suite::{Fault, Outcome, STALE, Suite};
use super::super::support::redis::{Client, Reply};
use super::model::{KEPT_MS, Model, Said};
use super::property;
use super::trace::{Act, Step, Trace};

/// Both scripts in a Redis, and a connection to it.
pub struct Stage {
    client: Client,
    check: Script,
    settle: Script,
    lanes: usize,
}

/// A history under way.
pub struct Lane {
    /// What has been played.
    pub trace: Trace,
    /// What the store must hold.
    pub model: Model,
    number: usize,
    began: Instant,
}

impl Stage {
    /// With the scripts as they are built in.
    pub fn new(client: Client) -> Self {
        Self::with(client, SETTLE.redis)
    }

    /// With another text of settle.lua.
    pub fn with(mut client: Client, settle: &str) -> Self {
        client.call(&["FLUSHALL"]);
        let (check, settle) = (clockwork(&mut client, CHECK.redis), clockwork(&mut client, settle));
        Self { client, check, settle, lanes: 0 }
    }

    /// Opens a lane for a history; its steps are left out.
    pub fn lane(&mut self, trace: &Trace) -> Lane {
        self.lanes += 1;
        let model = Model::new(trace);
        let trace = Trace { steps: Vec::new(), ..trace.clone() };
        Lane { trace, model, number: self.lanes, began: Instant::now() }
    }

    /// Plays one step.
    pub fn play(&mut self, lane: &mut Lane, step: &Step) -> Result<Said, Fault> {
        lane.trace.steps.push(step.clone());
        let (gone, over) = lane.model.prepare(step).map_err(Fault::Wrong)?;
        let before = [vec!["TIME".to_owned()], clockwork::set(step.store_ms() * 1000 + 999)];
        let deleted =
            gone.iter().map(|limit| lane.state(*limit)).chain(over.iter().map(|id| lane.settled(*id)));
        let deleted = deleted.map(|key| vec!["DEL".to_owned(), key]);
        let overrides = step.overrides.iter().map(|(limit, text)| {
            let key = format!("{}{}", lane.over_stem(*limit), lane.number);
            match text {
                Some(text) => {
                    vec!["SET".to_owned(), key, super::super::trace::absolute(text, super::trace::BASE_MS)]
                }
                None => vec!["DEL".to_owned(), key],
            }
        });
        let queued: Vec<Vec<String>> = before.into_iter().chain(deleted).chain(overrides).collect();
        queued.iter().for_each(|command| self.client.queue(command));
        self.client.queue(&lane.command(&self.check, &self.settle, step));
        let mut read: Vec<String> = (0..lane.trace.limits.len()).map(|limit| lane.state(limit)).collect();
        if let Act::Settle(charge, _) = step.act {
            read.push(lane.settled(charge));
        }
        for key in &read {
            self.client.queue(&["GET", key]);
            self.client.queue(&["PTTL", key]);
        }
        self.client.queue(&["TIME"]);
        let replies = self.client.flush();
        let took = replies[replies.len() - 1].time_ms() - replies[0].time_ms();
        let result = lane.judge(step, &replies[queued.len()..replies.len() - 1], took);
        if result.is_err() && lane.began.elapsed() > STALE { Err(Fault::Stale) } else { result }
    }
}

impl Suite for Stage {
    type Step = Step;
    type Base = Fixed;
    type Said = Said;
    type Tally = [u64; 4];

    const ROWS: &'static str = "tests/vectors/settling";

    fn says(step: &Step) -> bool {
        step.said.is_some()
    }

    /// Settlements go by the numbers of charges, so requests stay.
    fn stays(step: &Step) -> bool {
        matches!(step.act, Act::Ask(_))
    }

    fn once(&mut self, trace: &Trace) -> Result<Vec<Said>, Fault> {
        let mut lane = self.lane(trace);
        trace.steps.iter().map(|step| self.play(&mut lane, step)).collect()
    }

    fn histories(&mut self, seed: u64, steps: u64) -> Outcome<Self> {
        property::play(self, seed, steps)
    }
}

impl Lane {
    fn state_stem(&self, limit: usize) -> String {
        format!("sg:1:l{limit}:b1s:")
    }

    fn over_stem(&self, limit: usize) -> String {
        format!("sg:1:l{limit}:!:")
    }

    fn state(&self, limit: usize) -> String {
        format!("{}{}", self.state_stem(limit), self.number)
    }

    fn settled(&self, charge: usize) -> String {
        format!("sg:1::settled:{}-{charge}", self.number)
    }

    fn command(&self, check: &Script, settle: &Script, step: &Step) -> Vec<String> {
        let stems: Vec<(String, String)> = (0..self.trace.limits.len())
            .map(|limit| (self.state_stem(limit), self.over_stem(limit)))
            .collect();
        let stems = |limit: usize| Stems { state: &stems[limit].0, overrides: &stems[limit].1 };
        let (form, by) = (Form::Redis, ScriptCall::BySha);
        let clock = if step.store_clock { Clock::Store } else { Clock::Edge };
        let subject: std::rc::Rc<str> = self.number.to_string().into();
        let now_ms = step.now_ms();
        let body = match &step.act {
            Act::Ask(costs) => {
                let subjects = self.model.requests.subjects.iter().zip(costs).enumerate();
                let asks: Vec<Ask> = subjects
                    .map(|(limit, (known, cost))| Ask {
                        limit,
                        quota: known.rule.quota,
                        arguments: call::arguments(&known.rule.quota, known.rule.shadow).into(),
                        subject: subject.clone(),
                        cost: *cost,
                        shadow: known.rule.shadow,
                        ahead_ms: None,
                        more: 0,
                    })
                    .collect();
                let asked = Check { form, by, clock, now_ms, asks: &asks, charge: None };
                call::check_body(check, asked, |ask| stems(ask.limit))
            }
            Act::Settle(charge, costs) => {
                let known = &self.model.charges[*charge];
                let parts = known.reserved.iter().enumerate().filter_map(|(limit, reservation)| {
                    let quota = self.model.requests.subjects[limit].rule.quota;
                    let (subject, cost) = (subject.clone(), costs[limit]);
                    Some(Part { limit, quota, subject, reservation: (*reservation)?, cost })
                });
                let parts: Vec<Part> = parts.collect();
                let id = self.settled(*charge);
                let (since_ms, kept_ms) = (known.since_ms, KEPT_MS);
                let call = Call { form, by, clock, now_ms, parts: &parts, id: ("", &id), since_ms, kept_ms };
                settlement::body(settle, &call, &|part| stems(part.limit))
            }
        };
        serde_json::from_str(&body).expect("an array of strings")
    }

    fn judge(&mut self, step: &Step, replies: &[Reply], took: u64) -> Result<Said, Fault> {
        let (first, rest) = replies.split_first().expect("the script's reply");
        if let Reply::Error(text) = first {
            return Err(Fault::Error(text.clone()));
        }
        let reply: Vec<i64> = first.array().iter().map(Reply::int).collect();
        let wanted = self.model.step(step);
        if reply != wanted.reply {
            return Err(Fault::Wrong(format!(
                "the model says {:?}\nthe script says {reply:?}",
                wanted.reply
            )));
        }
        if matches!(step.act, Act::Settle(..)) {
            let body = serde_json::json!({ "result": reply }).to_string();
            settlement::read(200, &body, reply.len() / 2).expect("something that the crate can read");
        }
        let mut holds: Vec<(Option<Vec<u8>>, u64)> =
            self.model.requests.stored().into_iter().zip(wanted.ttl.clone()).collect();
        if let Act::Settle(charge, _) = step.act {
            let text =
                self.model.settled.get(&charge).map(|(_, said)| {
                    said.iter().map(i64::to_string).collect::<Vec<_>>().join(" ").into_bytes()
                });
            holds.push((text, if reply[0] == 1 { KEPT_MS } else { 0 }));
        }
        for ((bytes, ttl), pair) in holds.into_iter().zip(rest.chunks(2)) {
            let (found, left) = (pair[0].bulk().map(<[u8]>::to_vec), pair[1].int());
            if found != bytes {
                return Err(Fault::Wrong(format!("the model holds {bytes:x?}\nthe store holds {found:x?}")));
            }
            let ttl = ttl as i64;
            let right = match (found.is_some(), ttl) {
                (false, _) => left == -2,
                (true, 0) => left > 0,
                (true, _) => (ttl - took as i64 - 1..=ttl).contains(&left),
            };
            if !right {
                return Err(Fault::Wrong(format!("PTTL {left}, of {ttl}")));
            }
        }
        Ok(wanted)
    }
}
