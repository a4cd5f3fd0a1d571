//! What must hold of every call that a step asks for.

use sluicegate::gateway::Call;
use sluicegate::store::Class;

use super::super::command::{Command, Script};
use super::super::scenario::Plan;
use super::{Cause, Event, Sent, World};

impl World {
    pub(super) fn ask(&mut self, request: usize, call: Call, cause: &Cause, now_ms: u64, true_ms: u64) {
        let command = Command::read(&call.body);
        let number = self.sent.len();
        let settings = &self.scenario.settings;
        let timeout_ms = settings.timeout_ms;
        let isolate = &mut self.isolates[self.scenario.plans[request].isolate];
        let live = &mut self.live[request];
        let made_ms = now_ms + call.delay_ms;
        assert!(command.now_ms.is_none_or(|told| told == made_ms), "asked with another moment's clock");
        assert_eq!(command.now_ms.is_none(), settings.store_clock);
        match cause {
            Cause::Received => {
                assert_eq!((call.timeout_ms, call.delay_ms), (timeout_ms, 0));
                live.deadline_ms = now_ms + timeout_ms;
                isolate.asked_first(number, live.deadline_ms, now_ms);
            }
            Cause::Failed(Class::NoScript, Script::Hash(_)) => {
                assert!(matches!(command.script, Script::Text(_)) && call.delay_ms == 0);
                isolate.reasks += 1;
                isolate.asked(number, live.deadline_ms, now_ms);
            }
            Cause::Failed(Class::Dialect, Script::Text(_)) => {
                assert!(matches!(command.script, Script::Hash(_)) && call.delay_ms == 0);
                isolate.reasks += 1;
                isolate.asked(number, live.deadline_ms, now_ms);
            }
            Cause::Failed(class, script) => {
                let unclear = matches!(class, Class::Unreachable | Class::Malformed);
                assert!(unclear || *class == Class::Busy, "a {class:?} failure is not repeated");
                assert!(!unclear || command.charge.is_some(), "repeated without a charge id");
                assert!(!live.retried, "retried twice");
                assert_eq!(*script, command.script, "retried as it was");
                assert!(call.delay_ms <= settings.backoff_ms);
                live.retried = true;
                isolate.failed(*class);
                isolate.asked_again(number, live.deadline_ms, now_ms);
            }
            Cause::Answered(_) | Cause::Located => panic!("asked again after an answer"),
        }
        assert!(now_ms + call.delay_ms + call.timeout_ms <= live.deadline_ms, "past its deadline");
        assert!(call.delay_ms + call.timeout_ms <= timeout_ms, "longer than the whole deadline");
        assert!(call.timeout_ms > 0 && !live.left && live.told.is_none());
        live.calls.push(number);
        let plan = &self.scenario.plans[request];
        for (limit, ask) in command.asks.iter().enumerate() {
            assert_eq!(ask.cost, self.scenario.cost(limit, plan));
            self.known.entry((limit, self.scenario.subject(limit, plan))).or_insert_with(|| ask.clone());
        }
        let Plan { path, check, idempotency, .. } = plan;
        if let (Some(_), Some(charge)) =
            (idempotency, command.charge.as_ref().filter(|id| id.fingerprint != "-"))
        {
            let path = if *check { "" } else { path };
            let subjects = (0..command.asks.len()).map(|limit| self.scenario.subject(limit, plan));
            let identity = format!("{:?} {path} {check}", subjects.collect::<Vec<_>>());
            let known = self.prints.entry(charge.fingerprint.clone()).or_insert_with(|| identity.clone());
            assert_eq!(*known, identity, "two requests with one fingerprint");
            let prints = self.prints.values().filter(|known| **known == identity).count();
            assert_eq!(prints, 1, "one request with two fingerprints");
        }
        let sent_ms = true_ms + call.delay_ms;
        let up_ms = self.random.between(1, 15) + self.slowness(sent_ms);
        // A timer may come late.
        let late_ms = if self.random.percent(5) { self.random.pick(&[1, 20, 2_500]) } else { 0 };
        self.sent.push(Sent { request, ticket: call.ticket, command, over: false });
        self.at(sent_ms + up_ms, Event::Reach(number));
        self.at(sent_ms + call.timeout_ms + late_ms, Event::Deadline(number));
        self.tally.calls += 1;
    }
}
