//! Plays traces on a real Redis and holds every reply, every stored member and every TTL against the model.

use std::collections::BTreeMap;

use sluicegate::limit::State;
use sluicegate::limit::waiting::Patience;
use sluicegate::policy::{Algorithm, Clock};
use sluicegate::store::call::{self, Check};
use sluicegate::store::script::{CHECK, SLOTS, Script};
use sluicegate::store::slots::{self, Call, Operation, SlotStems};
use sluicegate::store::{Ask, ChargeId, Form, ScriptCall, Stems, reply};

use super::super::clockwork::{self, clockwork};
use super::super::model::CHARGE_TTL_MS;
use super::super::rows::Fixed;
use super::super::suite::{Fault, Outcome, Suite};
use super::super::support::redis::{Client, Reply};
use super::model::Model;
use super::property;
use super::stored::{items, members, places, scores, waiters};
use super::subject::Life;
use super::trace::{Act, BASE_MS, Item, Step, Trace, fence_in};

/// A key that would expire sooner in a trace is given this long, so that no machine is too slow.
const SHORTEST_MS: u64 = 1_000;

/// Both scripts in a Redis, and a connection to it.
pub struct Stage {
    /// The connection.
    pub client: Client,
    check: Script,
    slots: Script,
    lanes: usize,
}

/// A trace under way.
pub struct Lane {
    /// What has been played.
    pub trace: Trace,
    /// What the store must hold.
    pub model: Model,
    number: usize,
}

impl Stage {
    /// With the scripts as they are built in.
    pub fn new(client: Client) -> Self {
        Self::with(client, CHECK.redis, SLOTS.redis)
    }

    /// With other texts. What an earlier stage has left is gone.
    pub fn with(mut client: Client, check: &str, slots: &str) -> Self {
        client.call(&["FLUSHALL"]);
        let (check, slots) = (clockwork(&mut client, check), clockwork(&mut client, slots));
        Self { client, check, slots, lanes: 0 }
    }

    /// Opens a lane for a trace; its steps are left out.
    pub fn lane(&mut self, trace: &Trace) -> Lane {
        self.lanes += 1;
        let model = Model::new(trace);
        Lane { trace: Trace { steps: Vec::new(), ..trace.clone() }, model, number: self.lanes }
    }

    /// Plays one step; the script's reply.
    pub fn play(&mut self, lane: &mut Lane, step: &Step) -> Result<Vec<Item>, Fault> {
        lane.trace.steps.push(step.clone());
        let before = lane.model.clone();
        lane.model.prepare(step).map_err(Fault::Wrong)?;
        self.client.queue(&["TIME"]);
        let skip = 1 + lane.queue_before(&mut self.client, &before, step);
        self.client.queue(&lane.command(&self.check, &self.slots, step));
        lane.queue_after(&mut self.client, step);
        self.client.queue(&["TIME"]);
        let replies = self.client.flush();
        let took = replies[replies.len() - 1].time_ms() - replies[0].time_ms();
        let (said, rest) = replies[skip..replies.len() - 1].split_first().expect("the script's reply");
        if let Reply::Error(text) = said {
            return Err(Fault::Error(text.clone()));
        }
        let lives: Vec<(Life, Life)> =
            lane.model.subjects.iter().map(|subject| (subject.life, subject.queue_life)).collect();
        let wanted = lane.model.step(step);
        let said = items(said);
        if said != wanted {
            return Err(Fault::Wrong(format!("the model says {wanted:?}\nthe script says {said:?}")));
        }
        lane.read(step, &said);
        lane.judge(step, rest, &lives, took)?;
        Ok(said)
    }
}

impl Suite for Stage {
    type Step = Step;
    type Base = Fixed;
    type Said = Vec<Item>;
    type Tally = BTreeMap<String, u64>;

    const ROWS: &'static str = "tests/vectors/leases";

    fn says(step: &Step) -> bool {
        step.said.is_some()
    }

    fn once(&mut self, trace: &Trace) -> Result<Vec<Vec<Item>>, Fault> {
        let mut lane = self.lane(trace);
        trace.steps.iter().map(|step| self.play(&mut lane, step)).collect()
    }

    fn histories(&mut self, seed: u64, steps: u64) -> Outcome<Self> {
        property::play(self, seed, steps)
    }
}

impl Lane {
    fn key(&self, what: &str, limit: usize) -> String {
        format!("sg:1:l{limit}:{what}:{}", self.number)
    }

    fn charge_key(&self, id: &str) -> String {
        format!("sg:1::charge:{}:{id}", self.number)
    }

    fn is_slots(&self, limit: usize) -> bool {
        self.model.subjects[limit].rule.quota.algorithm == Algorithm::Concurrency
    }

    /// Brings Redis to where the step begins; how many replies that are.
    fn queue_before(&self, client: &mut Client, before: &Model, step: &Step) -> usize {
        let mut count = 0;
        let mut queue = |command: &[&str]| {
            client.queue(command);
            count += 1;
        };
        for id in before.charges.keys().filter(|id| !self.model.charges.contains_key(*id)) {
            queue(&["DEL", &self.charge_key(id)]);
        }
        for (limit, subject) in self.model.subjects.iter().enumerate() {
            for (key, life) in [("c", subject.life), ("queue", subject.queue_life)] {
                let key = self.key(key, limit);
                match life {
                    Life::None => queue(&["DEL", &key]),
                    Life::Forever => queue(&["PERSIST", &key]),
                    Life::Until(due) => {
                        let left = (due - step.at).max(SHORTEST_MS).to_string();
                        queue(&["PEXPIRE", &key, &left]);
                    }
                }
            }
            let over = self.key("!", limit);
            match &subject.over {
                Some(text) => queue(&["SET", &over, text]),
                None => queue(&["DEL", &over]),
            }
        }
        client.queue(&clockwork::set(step.store_ms() * 1000));
        count + 1
    }

    /// Asks what the keys hold after the step.
    fn queue_after(&self, client: &mut Client, step: &Step) {
        for limit in 0..self.model.subjects.len() {
            let key = self.key("c", limit);
            match self.is_slots(limit) {
                true => client.queue(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]),
                false => client.queue(&["GET", &key]),
            }
            client.queue(&["PTTL", &key]);
            let key = self.key("queue", limit);
            client.queue(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]);
            client.queue(&["PTTL", &key]);
        }
        if let Act::Request { charge: Some((id, _)), .. } = &step.act {
            client.queue(&["GET", &self.charge_key(id)]);
        }
    }

    /// The command as the crate makes it.
    fn command(&self, check: &Script, slots: &Script, step: &Step) -> Vec<String> {
        let body = match &step.act {
            Act::Request { clock, store_clock, charge, .. } => {
                let charge = charge.as_ref().map(|(id, fingerprint)| ChargeId {
                    id: id.as_str().into(),
                    fingerprint: fingerprint.as_str().into(),
                    kept_ms: CHARGE_TTL_MS,
                });
                let stem = self.charge_key("");
                let asks = self.asks(step);
                let stems: Vec<(String, String)> =
                    (0..asks.len()).map(|limit| (self.key("c", limit), self.key("!", limit))).collect();
                let check_of = Check {
                    form: Form::Redis,
                    by: ScriptCall::BySha,
                    clock: if *store_clock { Clock::Store } else { Clock::Edge },
                    now_ms: (BASE_MS + step.at).saturating_add_signed(*clock),
                    asks: &asks,
                    charge: charge.as_ref().map(|charge| (stem.as_str(), charge)),
                };
                call::check_body(check, check_of, |ask| {
                    let (state, overrides) = &stems[ask.limit];
                    Stems { state, overrides }
                })
            }
            act => {
                let limit = self.model.slots();
                let (holders, overrides) = (self.key("c", limit), self.key("!", limit));
                let queue = self.key("queue", limit);
                let (id, operation) = operation(act);
                let call = Call {
                    form: Form::Redis,
                    by: ScriptCall::BySha,
                    stems: SlotStems { holders: &holders, overrides: &overrides, queue: &queue },
                    subject: "",
                    quota: self.model.subjects[limit].rule.quota,
                    id,
                    operation,
                };
                slots::body(slots, &call)
            }
        };
        serde_json::from_str(&body).expect("an array of strings")
    }

    fn asks(&self, step: &Step) -> Vec<Ask> {
        let Act::Request { id, costs, .. } = &step.act else { panic!("no request: {step:?}") };
        let asks = self.model.subjects.iter().enumerate().map(|(limit, subject)| {
            let (quota, shadow) = (subject.rule.quota, subject.rule.shadow);
            let arguments = match quota.algorithm {
                Algorithm::Concurrency => call::slot_arguments(&quota, shadow, id),
                _ => call::arguments(&quota, shadow),
            };
            let cost = costs.get(limit).copied().unwrap_or(1);
            Ask {
                limit,
                quota,
                arguments: arguments.into(),
                subject: "".into(),
                cost,
                shadow,
                ahead_ms: None,
                more: 0,
            }
        });
        asks.collect()
    }

    /// What the crate makes of a reply must be something.
    fn read(&self, step: &Step, said: &[Item]) {
        let body = serde_json::json!({ "result": said }).to_string();
        match &step.act {
            // What was kept may be of other costs and limits here; the gateway's fingerprints tell those apart.
            Act::Request { charge: Some(_), .. } => {}
            Act::Request { .. } => {
                reply::read(200, &body, &self.asks(step)).unwrap_or_else(|error| panic!("{body}: {error:?}"));
            }
            act => {
                slots::read(200, &body, operation(act).1).unwrap_or_else(|error| panic!("{body}: {error:?}"));
            }
        }
    }

    /// Whether the keys hold what the model does, and for how long.
    fn judge(&self, step: &Step, replies: &[Reply], lives: &[(Life, Life)], took: u64) -> Result<(), Fault> {
        let wrong = |text: String| Err(Fault::Wrong(text));
        for (limit, subject) in self.model.subjects.iter().enumerate() {
            let [state, ttl, queue, queue_ttl] = &replies[limit * 4..limit * 4 + 4] else { unreachable!() };
            if self.is_slots(limit) {
                let (wanted, found) = (members(subject.state.as_ref()), scores(state));
                if wanted != found {
                    return wrong(format!("limit {limit} holds {found:?}, not {wanted:?}"));
                }
                let (wanted, found) = (places(subject), waiters(queue));
                if wanted != found {
                    return wrong(format!("limit {limit} queues {found:?}, not {wanted:?}"));
                }
            } else if state.bulk() != subject.state.as_ref().map(State::encode).as_deref() {
                return wrong(format!("limit {limit}: {state:x?}, not {:?}", subject.state));
            }
            let before = lives[limit];
            for (ttl, life, before) in
                [(ttl, subject.life, before.0), (queue_ttl, subject.queue_life, before.1)]
            {
                let ttl = ttl.int();
                let right = match life {
                    Life::None => ttl == -2,
                    Life::Forever => ttl == -1,
                    Life::Until(due) => {
                        let left = (due - step.at) as i64;
                        let slack = if life == before { SHORTEST_MS as i64 } else { left };
                        (left - took as i64 - 1..=left.max(slack)).contains(&ttl)
                    }
                };
                if !right {
                    return wrong(format!("limit {limit}: PTTL {ttl}, not {life:?} at {}", step.at));
                }
            }
        }
        if let Act::Request { charge: Some((id, _)), .. } = &step.act {
            let (wanted, found) = (self.model.charges.get(id), &replies[self.model.subjects.len() * 4]);
            if found.bulk() != wanted.map(|(_, text)| text.as_bytes()) {
                return wrong(format!("charge id {id} holds {found:?}, not {wanted:?}"));
            }
        }
        Ok(())
    }
}

/// What slots.lua is asked for.
fn operation(act: &Act) -> (&str, Operation) {
    match act {
        Act::Request { .. } => panic!("a request is no slot's"),
        Act::Take { id, wait } => {
            let patience = wait.map(|(wait_ms, patience_ms, most)| Patience { wait_ms, patience_ms, most });
            (id, Operation::Take(patience))
        }
        Act::Renew(id, fence) => (id, Operation::Renew(fence_in(*fence))),
        Act::Free(id, fence) => (id, Operation::Free(fence_in(*fence))),
        Act::Leave(id) => (id, Operation::Leave),
        Act::List => ("-", Operation::List),
    }
}
