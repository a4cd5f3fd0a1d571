//! Requests that wait in a queue: which are put there instead of being refused, and when they are tried again. What the
//! store knows of them is in `task_calls`.

use super::answer::{Answer, Step};
use super::outcome::{Line, Outcome, Reason};
use super::prepared::Prepared;
use super::{Gateway, Request, log};
use crate::policy::{Algorithm, Queue};
use crate::store::Ask;
use crate::subject::Claims;

/// A slot may come free at any moment, so who waits for one asks at least this often, in milliseconds.
const SLOT_ASKS_MS: u64 = 1_000;

/// Longest wait before an attempt that the backoff makes, in milliseconds.
const LONGEST_BACKOFF_MS: f64 = 3_600_000.0;

/// Longest delay of a queue, in seconds.
const LONGEST_DELAY_S: u32 = 43_200;

/// The queue of a limit.
pub(super) fn queue(prepared: &Prepared) -> Option<&Queue> {
    prepared.limit.queue()
}

/// Says of each limit whether requests wait for it: where its queue and that of its dead letters are bound. The log's
/// lines on those that are not.
pub(super) fn place(limits: &mut [Prepared], bound: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for prepared in limits {
        let Some(Queue { queue, dead_letter, .. }) = self::queue(prepared) else { continue };
        let mut waits = true;
        for name in [queue, dead_letter] {
            if !bound.split(' ').any(|bound| bound == name) {
                waits = false;
                let line = log::no_queue(name);
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        prepared.waits = waits;
    }
    lines
}

/// What becomes of a task after an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// It is over: the origin has taken it.
    Done,
    /// It is tried again after so many milliseconds.
    Again(u64),
    /// It is given up.
    Dead,
}

/// An attempt at the origin.
#[derive(Debug, Clone, Copy)]
pub struct Attempted {
    /// Status of the answer; 502 and 504 where there was none, 0 where the gateway itself will never let it pass.
    pub status: u16,
    /// Attempts so far, this one included.
    pub tried: u32,
    /// Most attempts.
    pub attempts: u32,
    /// Longest wait before the second attempt, in milliseconds.
    pub backoff_ms: f64,
    /// What the origin's `Retry-After` asked for, in seconds; 0 where it did not.
    pub retry_after_s: u32,
}

impl Attempted {
    /// A server that is down, late or busy is asked again; anything else it says is its answer. The wait is drawn from
    /// all of an interval that doubles ("full jitter", Brooker, Exponential Backoff and Jitter, 2015), and is never
    /// shorter than the origin asked for. `random` is in [0, 1).
    pub fn next(self, random: f64) -> Next {
        match self.status {
            0 => Next::Dead,
            408 | 425 | 429 | 500.. if self.tried >= self.attempts => Next::Dead,
            408 | 425 | 429 | 500.. => {
                let doublings = self.tried.saturating_sub(1).min(30);
                let most_ms = (self.backoff_ms * f64::from(1_u32 << doublings)).min(LONGEST_BACKOFF_MS);
                let drawn_ms = (most_ms * random.clamp(0.0, 1.0)) as u64;
                let asked_ms = u64::from(self.retry_after_s.min(LONGEST_DELAY_S)).saturating_mul(1_000);
                Next::Again(drawn_ms.max(asked_ms))
            }
            _ => Next::Done,
        }
    }
}

impl Gateway {
    /// Takes in a request from a queue, as if it came now. `payload` is that of its token, verified when it did come.
    pub fn receive_task(
        &mut self,
        request: &Request<'_>,
        payload: Option<&str>,
        now_ms: u64,
        random: f64,
    ) -> Step {
        self.metrics.request(now_ms, random);
        let claims = payload.map(Claims::read).unwrap_or_default();
        self.walk(request, Some(&claims), true, now_ms, random)
    }

    /// What a refused request gets: a place in a queue, where every limit that refuses it has the same one and will let
    /// it through in time.
    pub(super) fn refused_or_queued(&self, outcome: &Outcome, answer: Answer) -> Step {
        match self.place_in_queue(outcome) {
            Some(options) => Step::Queue(options, answer),
            None => Step::Answer(answer),
        }
    }

    /// What the entry is told of the queue, as JSON: names of bindings and limits hold only characters that it takes as
    /// they are.
    fn place_in_queue(&self, outcome: &Outcome) -> Option<String> {
        let waiting = |line: &Line| self.rules.limits.get(line.limit).filter(|prepared| prepared.waits);
        let prepared = waiting(outcome.tightest()?)?;
        let Queue { queue, dead_letter, max_body, max_depth, attempts, backoff_ms, keep_ms } =
            self::queue(prepared)?;
        let same =
            |line: &Line| waiting(line).and_then(self::queue).is_some_and(|other| other.queue == *queue);
        if outcome.refused != Some(Reason::QuotaExceeded) || !outcome.violated().all(same) {
            return None;
        }
        let limit = &prepared.limit.name;
        Some(format!(
            "{{\"queue\":\"{queue}\",\"dead_letter\":\"{dead_letter}\",\"limit\":\"{limit}\",\"max_body\":{max_body},\
             \"max_depth\":{max_depth},\"attempts\":{attempts},\"backoff_ms\":{backoff_ms},\"keep_ms\":{keep_ms}}}"
        ))
    }

    /// Whether a remembered refusal says too little: a request waits only where none of its other limits would refuse
    /// it for good, and those have not been asked.
    pub(super) fn says_too_little(&self, refused: &Line, asks: &[Ask]) -> bool {
        let waits = |limit: usize| self.rules.limits.get(limit).is_some_and(|limit| limit.waits);
        waits(refused.limit) && asks.iter().any(|ask| !ask.shadow && !waits(ask.limit))
    }

    /// When a task that was refused is worth trying again, and behind whom it waits; `None` where it never passes.
    pub(super) fn later(&self, outcome: &Outcome) -> Option<Step> {
        let (line, wait_ms) = (outcome.tightest()?, outcome.retry_after_ms?);
        let prepared = self.rules.limits.get(line.limit)?;
        if prepared.limit.algorithm == Algorithm::Concurrency {
            return Some(Step::Later(wait_ms.min(SLOT_ASKS_MS), 0, String::new()));
        }
        // How long the limit takes to let one more of its kind through.
        let each_ms = line.window_ms.saturating_mul(line.cost).checked_div(line.verdict.limit).unwrap_or(0);
        Some(Step::Later(wait_ms, each_ms, format!("{}:{}", prepared.limit.name, line.subject)))
    }

    /// The step that learns how the queues of the policy stand, as `call` shows it; `None` where it has none.
    pub(super) fn ask_queues(&self, call: &str) -> Option<Step> {
        let mut text = call.to_owned();
        for Queue { queue, dead_letter, .. } in self.rules.limits.iter().filter_map(queue) {
            let line = format!("\n{queue} {dead_letter}");
            if !text.contains(&line) {
                text.push_str(&line);
            }
        }
        (text != call).then_some(Step::Depths(text))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bindings, Reply};
    use super::*;
    use crate::subject::Platform;

    const NOW: u64 = 1_785_432_000_000;

    /// From one address, with an idempotency key.
    struct Hook;

    impl Platform for Hook {
        fn header(&self, name: &str) -> Option<String> {
            match name {
                "cf-connecting-ip" => Some("192.0.2.1".to_owned()),
                "idempotency-key" => Some("k".to_owned()),
                _ => None,
            }
        }
        fn country(&self) -> Option<String> {
            None
        }
        fn asn(&self) -> Option<String> {
            None
        }
    }

    fn request(url: &str) -> Request<'_> {
        Request { method: "POST", url, platform: &Hook }
    }

    /// Two limits that wait, one that refuses, and a route for each pair; WORK is bound, OTHER is not.
    fn gateway(queues: &str) -> Gateway {
        let policy = r#"{"version":1,"gateway":{"origin":"http://o.invalid"},"defaults":{"on_store_error":"open"},
            "limits":[
            {"name":"a","limit":2,"algorithm":"fixed-window","window":"1m","key":["ip"],"over_limit":{"queue":"WORK"}},
            {"name":"b","limit":4,"algorithm":"fixed-window","window":"1m","key":["ip"],"over_limit":{"queue":"WORK"},
             "idempotency":"header:idempotency-key"},
            {"name":"c","limit":2,"algorithm":"fixed-window","window":"1m","key":["ip"]}],
            "routes":[{"name":"ab","path":"/ab","limits":["a","b"]},{"name":"ac","path":"/ac","limits":["a","c"]},
            {"name":"a","path":"/a","limits":["a"]}]}"#;
        let store_url = Some("http://store.invalid".to_owned());
        let bindings =
            Bindings { store_url, has_token: true, queues: queues.to_owned(), ..Bindings::default() };
        Gateway::new(policy, &bindings).unwrap()
    }

    const BOUND: &str = "WORK WORK_DEAD";

    fn asked(step: Step) -> crate::gateway::Call {
        match step {
            Step::Ask(call) => call,
            other => panic!("{other:?} asks nothing"),
        }
    }

    /// What the gateway does with a request to which the store says this.
    fn told(gateway: &mut Gateway, url: &str, numbers: &str) -> Step {
        let call = asked(gateway.receive(&request(url), NOW, 0.5));
        let body = format!(r#"{{"result":[{numbers}]}}"#);
        gateway.conclude(call.ticket, Reply::Whole { status: 200, body: &body, retry_after_s: 0 }, NOW, 0.5)
    }

    #[test]
    fn a_request_waits_where_every_limit_that_refuses_it_lets_it() {
        let step = told(&mut gateway(BOUND), "http://h/a", "0,2,0,700,700");
        let Step::Queue(options, refusal) = &step else { panic!("{step:?}") };
        assert_eq!(
            options,
            r#"{"queue":"WORK","dead_letter":"WORK_DEAD","limit":"a","max_body":65536,"max_depth":10000,"attempts":5,"backoff_ms":10000,"keep_ms":86400000}"#
        );
        assert_eq!(refusal.status, 429);
        let text = step.to_text();
        assert!(text.starts_with(&format!("queue\n{options}\nanswer\n429\n")), "{text}");
        let both = told(&mut gateway(BOUND), "http://h/ab", "0,2,0,700,700,4,0,900,900");
        assert!(matches!(both, Step::Queue(..)));
        let spared = told(&mut gateway(BOUND), "http://h/ac", "0,2,0,700,700,2,1,900,0");
        assert!(matches!(spared, Step::Queue(..)));
    }

    #[test]
    fn else_it_is_refused() {
        // Another limit refuses as well; one that never lets it pass; a ban.
        for (url, numbers) in [
            ("http://h/ac", "0,2,0,700,700,2,0,900,900"),
            ("http://h/ac", "0,2,1,900,0,2,0,900,900"),
            ("http://h/a", "0,2,2,0,-1"),
            ("http://h/a", "0,0,0,700,700"),
        ] {
            let step = told(&mut gateway(BOUND), url, numbers);
            assert!(
                matches!(&step, Step::Answer(answer) if answer.status == 429),
                "{url} {numbers}: {step:?}"
            );
        }
        for bound in ["", "WORK", "WORK_DEAD", "WORKS WORK_DEADS"] {
            let mut gateway = gateway(bound);
            let step = told(&mut gateway, "http://h/a", "0,2,0,700,700");
            assert!(matches!(step, Step::Answer(_)), "{bound}");
            let lines = gateway.take_log();
            let unbound = lines.iter().filter(|line| line.contains("no-queue")).count();
            assert_eq!(
                unbound,
                2 - bound.split(' ').filter(|name| BOUND.split(' ').any(|b| b == *name)).count()
            );
        }
    }

    #[test]
    fn a_remembered_refusal_is_enough_only_where_all_wait() {
        let mut gateway = gateway(BOUND);
        assert!(matches!(told(&mut gateway, "http://h/a", "0,2,0,700,700"), Step::Queue(..)));
        assert!(
            matches!(gateway.receive(&request("http://h/a"), NOW, 0.5), Step::Queue(..)),
            "not asked again"
        );
        assert!(
            matches!(gateway.receive(&request("http://h/ac"), NOW, 0.5), Step::Ask(_)),
            "c has not been asked"
        );
    }

    #[test]
    fn a_task_is_told_when_its_limit_lets_it_through_and_is_charged_each_time() {
        let mut gateway = gateway(BOUND);
        let call = asked(gateway.receive_task(&request("http://h/ab"), None, NOW, 0.5));
        assert!(
            !call.body.contains("charge"),
            "a charge id would make a second delivery free: {}",
            call.body
        );
        let reply = |body| Reply::Whole { status: 200, body, retry_after_s: 0 };
        let refused = r#"{"result":[0,2,0,700,700,4,0,900,900]}"#;
        let later = gateway.conclude(call.ticket, reply(refused), NOW, 0.5);
        assert_eq!(later, Step::Later(900, 15_000, "b:192.0.2.1".to_owned()));
        assert_eq!(later.to_text(), "later\n900\n15000\nb:192.0.2.1");
        let call = asked(gateway.receive_task(&request("http://h/ab"), None, NOW + 900, 0.5));
        let passes = r#"{"result":[1,2,1,700,0,4,3,900,0]}"#;
        let step = gateway.conclude(call.ticket, reply(passes), NOW + 900, 0.5);
        assert!(matches!(step, Step::Forward(_)));
        let never = r#"{"result":[0,2,2,0,-1,4,3,900,0]}"#;
        let call = asked(gateway.receive_task(&request("http://h/ab"), None, NOW + 900, 0.5));
        let step = gateway.conclude(call.ticket, reply(never), NOW + 900, 0.5);
        assert!(matches!(step, Step::Answer(answer) if answer.status == 429));
    }

    fn attempted(status: u16, tried: u32, retry_after_s: u32, random: f64) -> Next {
        Attempted { status, tried, attempts: 4, backoff_ms: 10_000.0, retry_after_s }.next(random)
    }

    #[test]
    fn attempts_fail_by_status_and_wait_with_full_jitter() {
        for status in [200, 204, 301, 400, 404, 409, 422] {
            assert_eq!(attempted(status, 4, 0, 0.5), Next::Done, "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            let most: Vec<Next> = (1..=4).map(|tried| attempted(status, tried, 0, 1.0)).collect();
            assert_eq!(most, [Next::Again(10_000), Next::Again(20_000), Next::Again(40_000), Next::Dead]);
            assert_eq!(attempted(status, 3, 0, 0.0), Next::Again(0), "from nothing on");
            assert_eq!(attempted(status, 1, 30, 0.5), Next::Again(30_000), "never sooner than asked for");
            assert_eq!(attempted(status, 1, u32::MAX, 0.5), Next::Again(43_200_000));
        }
        assert_eq!(attempted(0, 1, 0, 0.5), Next::Dead, "the gateway will never let it pass");
        let long =
            Attempted { status: 500, tried: 99, attempts: 100, backoff_ms: 10_000.0, retry_after_s: 0 };
        assert_eq!(long.next(1.0), Next::Again(3_600_000));
    }
}
