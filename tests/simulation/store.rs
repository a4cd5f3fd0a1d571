//! The store by the contract of `lua/check.lua`, deciding with `sluicegate::limit` over a map of its own.

use std::collections::{HashMap, HashSet};

use sluicegate::limit::{Check, Quota, State, Wait, decide};
use sluicegate::store::script::CHECK;

use super::clock::told;
use super::command::{Ask, Command, Script};
use super::law::Passed;

/// What a key of a state holds.
#[derive(Debug, Clone)]
struct Held {
    state: State,
    gone_ms: u64,
}

/// What a charge id's key holds.
#[derive(Debug, Clone)]
struct Charged {
    fingerprint: String,
    reply: Vec<i64>,
    gone_ms: u64,
}

/// What became of a call that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The script's integers.
    pub reply: Vec<i64>,
    /// It let the request through, and charged it then and there.
    pub charged: bool,
}

/// One subject's charges in one limit.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// What it may use.
    pub quota: Quota,
    /// What it used, in the order charged: one list for each life of its key. To true time they are one; a caller
    /// whose clock stands still sees a key expire for no reason.
    pub lives: Vec<Vec<Passed>>,
}

/// The store.
#[derive(Debug, Default)]
pub struct Store {
    refuses_line: bool,
    scripts: HashSet<&'static str>,
    states: HashMap<String, Held>,
    overrides: HashMap<String, String>,
    charges: HashMap<String, Charged>,
    /// Charges by state key.
    pub ledgers: HashMap<String, Ledger>,
    /// Charges by charge id.
    pub charged_ids: HashMap<String, u32>,
}

impl Store {
    /// An empty one. One that is no Upstash refuses a script that opens with a flag it does not know.
    pub fn new(refuses_line: bool) -> Self {
        Self { refuses_line, ..Self::default() }
    }

    /// Runs a call at this moment of true time; `Err` is the error's text, and nothing was run.
    pub fn run(&mut self, command: &Command, true_ms: u64) -> Result<Ran, String> {
        match &command.script {
            Script::Hash(hash) if !self.scripts.contains(hash.as_str()) => {
                return Err("NOSCRIPT No matching script. Please use EVAL.".to_owned());
            }
            Script::Hash(_) => {}
            Script::Text(text) if text == CHECK.redis => {
                self.scripts.insert(CHECK.redis_sha);
            }
            Script::Text(text) => {
                assert_eq!(text, CHECK.upstash);
                if self.refuses_line {
                    return Err("ERR Unexpected flag in script shebang: allow-key-locking".to_owned());
                }
                self.scripts.insert(CHECK.upstash_sha);
            }
        }
        self.charges.retain(|_, charged| charged.gone_ms > true_ms);
        let now_ms = told(command.now_ms.unwrap_or(true_ms));
        if let Some(charge) = &command.charge
            && let Some(first) = self.charges.get(&charge.key)
        {
            let same = first.fingerprint == charge.fingerprint;
            let reply = if same { first.reply.clone() } else { vec![2] };
            return Ok(Ran { reply, charged: false });
        }
        let checks: Vec<(Check, bool)> =
            command.asks.iter().map(|ask| self.check(ask, now_ms, true_ms)).collect();
        let bans: Vec<bool> = checks.iter().map(|(_, ban)| *ban).collect();
        let checks: Vec<Check> = checks.into_iter().map(|(check, _)| check).collect();
        let decision = decide(&checks, now_ms);
        let mut reply = vec![i64::from(decision.allowed)];
        for (verdict, banned) in decision.verdicts.iter().zip(bans) {
            let wait = match verdict.wait {
                Wait::None => 0,
                Wait::Ms(ms) => whole(ms),
                Wait::Never => -1,
            };
            if banned {
                reply.extend([0, 0, 0, -1]);
            } else {
                reply.extend([whole(verdict.limit), whole(verdict.remaining), whole(verdict.reset_ms), wait]);
            }
        }
        let granted = command.asks.iter().zip(&decision.granted);
        reply.extend(granted.clone().filter(|(ask, _)| ask.more > 0).map(|(_, granted)| whole(*granted)));
        for (((ask, granted), check), write) in granted.zip(&checks).zip(decision.writes) {
            let Some(state) = write else { continue };
            let ttl_ms = ask.ttl_ms.max(check.quota.ttl_ms());
            let held = Held { state, gone_ms: true_ms + ttl_ms };
            let lives_on =
                self.states.insert(ask.state.clone(), held).is_some_and(|old| old.gone_ms > true_ms);
            let ledger = self
                .ledgers
                .entry(ask.state.clone())
                .or_insert_with(|| Ledger { quota: ask.quota, lives: Vec::new() });
            let passed = Passed { at_ms: now_ms, units: ask.cost + granted };
            match ledger.lives.last_mut().filter(|_| lives_on) {
                Some(life) => life.push(passed),
                None => ledger.lives.push(vec![passed]),
            }
        }
        if let Some(charge) = command.charge.as_ref().filter(|_| decision.allowed) {
            reply.push(whole(now_ms));
            let (fingerprint, gone_ms) = (charge.fingerprint.clone(), true_ms + charge.kept_ms);
            self.charges.insert(charge.key.clone(), Charged { fingerprint, reply: reply.clone(), gone_ms });
            *self.charged_ids.entry(charge.key.clone()).or_default() += 1;
        }
        Ok(Ran { reply, charged: decision.allowed })
    }

    /// Whether this request would be let through now. Writes nothing.
    pub fn would_pass(&self, asks: &[Ask], now_ms: u64, true_ms: u64) -> bool {
        let now_ms = told(now_ms);
        let checks: Vec<Check> = asks.iter().map(|ask| self.check(ask, now_ms, true_ms).0).collect();
        decide(&checks, now_ms).allowed
    }

    /// Loses the scripts, as a restart does.
    pub fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Forgets one subject of one limit, as the admin API of another isolate does.
    pub fn reset(&mut self, state: &str) {
        self.states.remove(state);
    }

    /// Gives one subject of one limit another limit; 0 is a ban.
    pub fn set_override(&mut self, over: &str, limit: u64) {
        self.overrides.insert(over.to_owned(), format!("{limit} 0"));
    }

    fn check(&self, ask: &Ask, now_ms: u64, true_ms: u64) -> (Check, bool) {
        let over = self.overrides.get(&ask.over).and_then(|text| text.split_once(' '));
        let limit: Option<u64> = over.map(|(limit, _)| limit.parse().expect("a number"));
        let quota = limit.filter(|limit| *limit > 0).map_or(ask.quota, |limit| ask.quota.with_limit(limit));
        let banned = limit == Some(0);
        let held = self.states.get(&ask.state).filter(|held| held.gone_ms > true_ms);
        let mut state = held.map(|held| held.state.clone());
        if let Some(state) = &mut state {
            state.repair(&quota, now_ms, true_ms);
        }
        // The model knows no bans; a cost that can never pass has the same effects.
        let cost = if banned { quota.capacity() + 1 } else { ask.cost };
        (
            Check { quota, cost, shadow: ask.shadow, state, holder: None, ahead_ms: None, more: ask.more },
            banned,
        )
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).expect("below 2^53")
}
