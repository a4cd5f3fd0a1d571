//! What the store must hold and answer, by `sluicegate::limit`: the model that the script is held against.

use std::collections::BTreeMap;

use sluicegate::limit::state::EPOCH_MS;
use sluicegate::limit::{Check, Quota, State, TTL_MARGIN_MS, Wait, decide};

use super::trace::{Rule, Step, Trace, absolute};

/// For how long a charge id is kept, in ms.
pub const CHARGE_TTL_MS: u64 = 90_000;

/// Subjects of a trace, one for each limit.
#[derive(Debug, Clone)]
pub struct Model {
    base_ms: u64,
    /// Charge ids: when they were written, by true time, and what their keys hold.
    charges: BTreeMap<String, (u64, String)>,
    /// One for each limit.
    pub subjects: Vec<Subject>,
}

/// One subject of one limit, as the store knows it.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The limit.
    pub rule: Rule,
    /// What is stored.
    pub state: Option<State>,
    /// Text of the override's key.
    pub over: Option<String>,
    kept: Option<Kept>,
}

/// How long a key lives.
#[derive(Debug, Clone, Copy)]
struct Kept {
    written_ms: u64,
    /// `None` after PERSIST.
    ttl_ms: Option<u64>,
    quota: Quota,
}

/// What a request comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The script's reply.
    pub reply: Vec<i64>,
    /// Bytes and TTL of the keys written.
    pub writes: Vec<Option<(Vec<u8>, u64)>>,
}

impl Said {
    /// Whether it passed.
    pub fn allowed(&self) -> bool {
        self.reply[0] == 1
    }

    /// Whether there is an answer for each limit.
    pub fn decided(&self) -> bool {
        self.reply.len() > 1
    }

    /// (limit, remaining, reset, wait) of one limit.
    pub fn of(&self, limit: usize) -> (i64, i64, i64, i64) {
        let at = 1 + limit * 4;
        (self.reply[at], self.reply[at + 1], self.reply[at + 2], self.reply[at + 3])
    }

    /// For how many ms the request is held, of one limit that delays.
    pub fn hold(&self, limits: usize, delaying: usize) -> u64 {
        self.reply[1 + limits * 4 + delaying] as u64
    }
}

impl Model {
    /// Nothing known of anybody.
    pub fn new(trace: &Trace, base_ms: u64) -> Self {
        let subjects = trace.limits.iter().map(|text| Subject {
            rule: Rule::parse(text),
            state: None,
            over: None,
            kept: None,
        });
        Self { base_ms, charges: BTreeMap::new(), subjects: subjects.collect() }
    }

    /// Does what a step says happens before its request.
    pub fn prepare(&mut self, step: &Step) {
        if let Some(limits) = &step.limits {
            for (subject, text) in self.subjects.iter_mut().zip(limits) {
                subject.rule = Rule::parse(text);
            }
        }
        for (limit, over) in &step.overrides {
            self.subjects[*limit].over = over.as_ref().map(|over| absolute(over, self.base_ms));
        }
        if step.persist {
            for kept in self.subjects.iter_mut().filter_map(|subject| subject.kept.as_mut()) {
                kept.ttl_ms = None;
            }
        }
    }

    /// Forgets the charge ids whose time has come by true time, and answers which those are.
    pub fn expire_charges(&mut self, at: u64) -> Vec<String> {
        let due = self.base_ms + at;
        let (kept, gone) = std::mem::take(&mut self.charges)
            .into_iter()
            .partition(|(_, (written_ms, _))| written_ms + CHARGE_TTL_MS > due);
        self.charges = kept;
        gone.into_keys().collect()
    }

    /// What the key of a charge id holds.
    pub fn charge(&self, id: &str) -> Option<&str> {
        self.charges.get(id).map(|(_, text)| text.as_str())
    }

    /// Forgets the keys whose time has come by true time, and answers which those are.
    ///
    /// # Errors
    /// One of them still meant something then: its expiry would give quota back early.
    pub fn expire(&mut self, at: u64) -> Result<Vec<usize>, String> {
        let true_ms = self.base_ms + at;
        let mut gone = Vec::new();
        for (index, subject) in self.subjects.iter_mut().enumerate() {
            let Some(Kept { written_ms, ttl_ms: Some(ttl_ms), quota }) = subject.kept else { continue };
            let end_ms = written_ms + ttl_ms;
            if end_ms > true_ms {
                continue;
            }
            let Some(state) = subject.state.take() else { continue };
            // Of what a fast clock wrote, the truth is older than it says.
            let honest = state.stamp_ms(&quota) <= written_ms;
            if honest && State::settle(Some(&state), &quota, end_ms) != State::idle(&quota, end_ms) {
                return Err(format!(
                    "limit {index}: {state:?} expires after {ttl_ms} ms, too early for {quota:?}"
                ));
            }
            subject.kept = None;
            gone.push(index);
        }
        Ok(gone)
    }

    /// Decides a request, the store's clock saying `store_ms`: one that has been charged already is answered as then.
    pub fn step(&mut self, step: &Step, store_ms: u64) -> Said {
        let Some((id, fingerprint)) = &step.charge else { return self.decide(step, store_ms) };
        if let Some((own, first)) = self.charge(id).and_then(|text| text.split_once(' ')) {
            let reply = match own == fingerprint {
                true => first.split(' ').map(|number| number.parse().expect("an integer")).collect(),
                false => vec![2],
            };
            return Said { reply, writes: vec![None; self.subjects.len()] };
        }
        let mut said = self.decide(step, store_ms);
        if said.allowed() {
            let now_ms = if step.store_clock { store_ms } else { step.clock_ms(self.base_ms) };
            said.reply.push(i64::try_from(now_ms.max(EPOCH_MS)).expect("below 2^53"));
            let reply: Vec<String> = said.reply.iter().map(i64::to_string).collect();
            let text = format!("{fingerprint} {}", reply.join(" "));
            self.charges.insert(id.clone(), (self.base_ms + step.at, text));
        }
        said
    }

    fn decide(&mut self, step: &Step, store_ms: u64) -> Said {
        let now_ms = if step.store_clock { store_ms } else { step.clock_ms(self.base_ms) };
        let mut checks = Vec::with_capacity(self.subjects.len());
        let mut bans = Vec::with_capacity(self.subjects.len());
        let mut mended = Vec::with_capacity(self.subjects.len());
        for (index, subject) in self.subjects.iter().enumerate() {
            let (quota, ban) = in_force(subject, now_ms);
            let mut state = subject.state.clone();
            mended.push(state.as_mut().is_some_and(|state| state.repair(&quota, now_ms, store_ms)));
            // The model knows no bans; a cost that can never pass has the same effects.
            let cost = if ban.is_some() { quota.capacity() + 1 } else { step.cost_in(index) };
            let Rule { shadow, ahead_ms, .. } = subject.rule;
            let more = step.more_in(index, &subject.rule);
            checks.push(Check { quota, cost, shadow, state, holder: None, ahead_ms, more });
            bans.push(ban);
        }
        let decision = decide(&checks, now_ms);
        let mut reply = vec![i64::from(decision.allowed)];
        for (verdict, ban) in decision.verdicts.iter().zip(&bans) {
            let whole = |number: u64| i64::try_from(number).expect("below 2^53");
            let wait = |wait| match wait {
                Wait::None => 0,
                Wait::Ms(ms) => whole(ms),
                Wait::Never => -1,
            };
            match ban {
                Some(ban) => reply.extend([0, 0, wait(*ban).max(0), wait(*ban)]),
                None => reply.extend([
                    whole(verdict.limit),
                    whole(verdict.remaining),
                    whole(verdict.reset_ms),
                    wait(verdict.wait),
                ]),
            }
        }
        // In the order of the limits, each that delays and each that permits were asked of.
        let mut holds = decision.holds.iter();
        for (check, granted) in checks.iter().zip(&decision.granted) {
            let number = match check.ahead_ms {
                Some(_) => holds.next(),
                None if check.more > 0 => Some(granted),
                None => None,
            };
            reply.extend(number.map(|number| i64::try_from(*number).expect("below 2^53")));
        }
        let mut writes = Vec::with_capacity(checks.len());
        for (((subject, check), charged), mended) in
            self.subjects.iter_mut().zip(&checks).zip(decision.writes).zip(mended)
        {
            let quota = check.quota;
            let written =
                charged.or_else(|| mended.then(|| State::settle(check.state.as_ref(), &quota, now_ms)));
            writes.push(written.map(|state| {
                let bytes = state.encode();
                let ttl_ms = ttl(mended.then_some(check.state.as_ref()).flatten(), &quota, check.ahead_ms);
                let written_ms = self.base_ms + step.at;
                subject.kept = Some(Kept { written_ms, ttl_ms: Some(ttl_ms), quota });
                subject.state = Some(state);
                (bytes, ttl_ms)
            }));
        }
        Said { reply, writes }
    }

    /// Holds another state of one limit's subject from a moment of true time on.
    pub fn write(&mut self, limit: usize, state: State, quota: Quota, ttl_ms: u64, at: u64) {
        let written_ms = self.base_ms + at;
        self.subjects[limit].kept = Some(Kept { written_ms, ttl_ms: Some(ttl_ms), quota });
        self.subjects[limit].state = Some(state);
    }

    /// The greatest TTL that a key may have now.
    pub fn ttl_ms(&self, limit: usize) -> Option<u64> {
        self.subjects[limit].kept.and_then(|kept| kept.ttl_ms)
    }

    /// Bytes of all keys.
    pub fn stored(&self) -> Vec<Option<Vec<u8>>> {
        self.subjects.iter().map(|subject| subject.state.as_ref().map(State::encode)).collect()
    }
}

/// The quota's own, but for a mended bucket of which more is used than it now holds, since its burst was greater:
/// that takes longer to drain. On credit it takes as much longer as a request may wait.
fn ttl(mended: Option<&State>, quota: &Quota, ahead_ms: Option<u64>) -> u64 {
    let drained = match mended {
        Some(State::Bucket(bucket)) => bucket.used.div_ceil(quota.limit) + TTL_MARGIN_MS,
        _ => 0,
    };
    (quota.ttl_ms() + ahead_ms.unwrap_or(0)).max(drained)
}

/// Limit and end of an override's text; none of a text of another form.
fn parsed(over: Option<&str>) -> Option<(u64, u64)> {
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok());
    let (limit, until) = over?.split_once(' ')?;
    digits(limit).flatten().zip(digits(until).flatten())
}

/// The quota after the override, and whether that is a ban. A text of another form counts as none.
pub fn in_force(subject: &Subject, now_ms: u64) -> (Quota, Option<Wait>) {
    in_force_of(subject.rule.quota, subject.over.as_deref(), now_ms)
}

/// The same for a quota and the text of its override.
pub fn in_force_of(quota: Quota, over: Option<&str>, now_ms: u64) -> (Quota, Option<Wait>) {
    match parsed(over) {
        None => (quota, None),
        Some((_, until)) if until != 0 && until <= now_ms => (quota, None),
        Some((0, 0)) => (quota, Some(Wait::Never)),
        Some((0, until)) => (quota, Some(Wait::Ms(until - now_ms))),
        Some((limit, _)) => (quota.with_limit(limit), None),
    }
}
