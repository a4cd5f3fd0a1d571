//! Requests that wait for their moment instead of being refused.
//!
//! What a request is granted ahead of its moment is reserved by the decision itself. All that is left to do is to send
//! it on when that moment has come; the entry does so, and needs to ask nobody.

use super::Gateway;
use super::outcome::{Line, Outcome, Reason, Tier};
use super::places::Place;
use super::settle;
use crate::limit::Wait;
use crate::store::{Ask, call};

/// How much longer than a decision may take, and than its request may wait, a place is kept for it, in milliseconds.
const LATE_MS: u64 = 1_000;

/// When a request that is let through goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Its moment by the isolate's clock, in milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// The same from the decision's arrival on.
    pub for_ms: u64,
}

impl Hold {
    /// For `hold_ms` from `from_ms` on, and for no longer than that from now on; none where that time is over.
    pub fn of(hold_ms: u64, from_ms: u64, now_ms: u64) -> Option<Self> {
        let for_ms = from_ms.saturating_add(hold_ms).saturating_sub(now_ms).min(hold_ms);
        (for_ms > 0).then_some(Self { until_ms: now_ms.saturating_add(for_ms), for_ms })
    }
}

/// Whether a request may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// None of its limits delays it.
    No,
    /// There is no place for it, so it asks to pass at once or not at all.
    Full,
    /// It has a place.
    At(Place),
}

/// For how many milliseconds a decision holds its request: as long as the limit that holds it longest. Limits that it
/// only looks at have no say, unless it does nothing but look.
pub(super) fn hold_ms(asks: &mut dyn Iterator<Item = &Ask>, holds: &[u64]) -> u64 {
    let (mut charged_ms, mut looked_ms, mut looks) = (0, 0, true);
    let mut holds = holds.iter().copied();
    for ask in asks {
        let hold_ms = ask.ahead_ms.and_then(|_| holds.next()).unwrap_or(0);
        if ask.cost > 0 {
            looks = false;
            charged_ms = hold_ms.max(charged_ms);
        } else {
            looked_ms = hold_ms.max(looked_ms);
        }
    }
    if looks { looked_ms } else { charged_ms }
}

impl Gateway {
    /// Takes a place for a request that may have to wait. Where there is none it asks without credit: what it would be
    /// granted could not be used.
    pub(super) fn waiting(&mut self, asks: &mut [Ask], now_ms: u64) -> Waiting {
        if !asks.iter().any(|ask| ask.ahead_ms.is_some() && ask.cost > 0) {
            return Waiting::No;
        }
        let place = self.places.draw(now_ms);
        // The store decides, or then the platform's own limiter.
        let decided_ms = self.rules.policy.store.timeout_ms.saturating_mul(2).saturating_add(LATE_MS);
        let until_ms = now_ms.saturating_add(decided_ms);
        // A route has no slots beside a limit that delays, but a path that is read in two ways may have two routes.
        let mut placed = !asks.iter().any(settle::is_concurrency);
        for ask in asks.iter().filter(|ask| ask.cost > 0) {
            let Some(prepared) = self.rules.limits.get(ask.limit) else { continue };
            if let Some(delay) = prepared.limit.delay() {
                let until_ms = until_ms.saturating_add(delay.ms);
                placed &= self.places.take(place, prepared.counted_at, delay.waiting, until_ms);
            }
        }
        if placed {
            return Waiting::At(place);
        }
        self.places.give_back(place);
        for ask in asks.iter_mut().filter(|ask| ask.ahead_ms.is_some()) {
            ask.ahead_ms = Some(0);
            ask.arguments = call::delaying_arguments(&ask.quota, ask.shadow, 0).into();
        }
        Waiting::Full
    }

    /// Keeps the place of a request that waits, and gives that of any other back.
    pub(super) fn placed(&mut self, outcome: &mut Outcome, waiting: Waiting) {
        match (waiting, outcome.hold) {
            (Waiting::At(place), Some(hold)) => {
                self.places.hold(place, hold.until_ms);
                self.counters.held = self.counters.held.saturating_add(1);
            }
            (Waiting::At(place), None) => self.places.give_back(place),
            // It only looks at the limits that delay.
            (Waiting::No, _) => outcome.hold = None,
            (Waiting::Full, hold) => {
                // A repeat under an idempotency key is told to wait as it was the first time. It has been charged, and is
                // refused until then.
                if let Some(hold) = hold {
                    let delays = |line: &Line| line.cost > 0 && self.delay_ms(line).is_some();
                    let delaying = outcome.lines.iter_mut().filter(|line| delays(line));
                    delaying.for_each(|line| line.verdict.wait = Wait::Ms(hold.for_ms));
                    outcome.hold = None;
                    outcome.refused = Some(Reason::QuotaExceeded);
                    outcome.retry_after_ms = Some(hold.for_ms);
                }
                // What the isolate remembers would be refused with a place, too.
                let decided = outcome.refused == Some(Reason::QuotaExceeded) && outcome.tier != Tier::Cache;
                if decided && outcome.lines.iter().any(|line| line.refuses() && self.would_wait(line)) {
                    self.counters.waiting_full = self.counters.waiting_full.saturating_add(1);
                }
            }
        }
    }

    fn would_wait(&self, line: &Line) -> bool {
        let delay_ms = self.delay_ms(line);
        delay_ms.is_some_and(|delay_ms| matches!(line.verdict.wait, Wait::Ms(ms) if ms <= delay_ms))
    }

    fn delay_ms(&self, line: &Line) -> Option<u64> {
        self.rules.limits.get(line.limit)?.limit.delay().map(|delay| delay.ms)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bindings, Forward, Reply, Request, Step};
    use super::*;
    use crate::subject::Platform;

    const NOW: u64 = 1_785_432_000_000;

    struct Nothing;

    impl Platform for Nothing {
        fn header(&self, name: &str) -> Option<String> {
            (name == "x-cost").then(|| "1".to_owned())
        }

        fn country(&self) -> Option<String> {
            None
        }

        fn asn(&self) -> Option<String> {
            None
        }
    }

    /// Ten a second for everybody, of whom one may wait for up to 250 ms; `/a%2Fb` is read in two ways.
    fn gateway(clock: &str, store: bool) -> Gateway {
        let policy = format!(
            r#"{{"version":1,"gateway":{{"origin":"http://o.invalid","headers":["draft-10","x-ratelimit"]}},
            "store":{{"clock":"{clock}"}},"defaults":{{"on_store_error":"degraded"}},"degraded":{{"share":1}},"limits":[
            {{"name":"rate","limit":10,"algorithm":"token-bucket","window":"1s","burst":1,"key":["global"],
              "over_limit":{{"delay":"250ms","waiting":1}}}},
            {{"name":"slots","limit":5,"algorithm":"concurrency","lease":"30s","key":["global"]}}],"routes":[
            {{"name":"one","path":"/{{x}}","limits":["rate"]}},
            {{"name":"two","path":"/a/b","limits":["slots"]}}]}}"#
        );
        let store_url = store.then(|| "http://store.invalid".to_owned());
        let bindings = Bindings { store_url, has_token: true, ..Bindings::default() };
        Gateway::new(&policy, &bindings).unwrap()
    }

    fn receive(gateway: &mut Gateway, path: &str, now_ms: u64) -> Step {
        let url = format!("http://g.invalid{path}");
        gateway.receive(&Request { method: "GET", url: &url, platform: &Nothing }, now_ms, 0.5)
    }

    /// A request's moment, or `Err` with its status where it does not go on.
    fn moment(step: Step) -> Result<u64, u16> {
        match step {
            Step::Forward(Forward { moment_ms, .. }) => Ok(moment_ms),
            Step::Answer(answer) => Err(answer.status),
            other => panic!("{other:?}"),
        }
    }

    fn answered(gateway: &mut Gateway, step: Step, body: &str, now_ms: u64) -> Step {
        let (Step::Ask(call) | Step::Take(call)) = step else { panic!("{step:?}") };
        gateway.conclude(call.ticket, Reply::Whole { status: 200, body, retry_after_s: 0 }, now_ms, 0.5)
    }

    fn asks(step: &Step, what: &str) -> bool {
        matches!(step, Step::Ask(call) | Step::Take(call) if call.body.contains(what))
    }

    const HELD: &str = r#"{"result":[1,10,0,300,0,200]}"#;

    #[test]
    fn in_the_isolate_alone_each_has_its_moment_and_a_place() {
        let mut gateway = gateway("edge", false);
        let mut ask = |ms| moment(receive(&mut gateway, "/a", NOW + ms));
        assert_eq!(ask(0), Ok(0));
        assert_eq!(ask(10), Ok(NOW + 100));
        // There is no place for it, and with the next one there is.
        assert_eq!(ask(20), Err(429));
        assert_eq!(ask(100), Ok(NOW + 200));
        assert_eq!((gateway.counters.held, gateway.counters.waiting_full), (2, 1));
        assert_eq!((gateway.places.held(NOW + 199), gateway.places.held(NOW + 200)), (1, 0));
    }

    #[test]
    fn the_entry_is_told_the_moment_before_the_step() {
        let mut gateway = gateway("edge", false);
        receive(&mut gateway, "/a", NOW);
        let Step::Forward(forward) = receive(&mut gateway, "/a", NOW) else { panic!("refused") };
        let text = Step::Forward(forward.clone()).to_text();
        assert!(text.starts_with(&format!("hold\n{}\nforward\nhttp://o.invalid\n", NOW + 100)), "{text}");
        // At its moment a tenth of a second's use is left to come in again.
        let field = |name: &str| forward.headers.iter().find(|(known, _)| *known == name).unwrap().1.clone();
        assert_eq!(field("RateLimit"), r#""rate";r=0;t=1"#);
        assert_eq!(field("X-RateLimit-Reset"), (NOW + 200).div_ceil(1000).to_string());
    }

    #[test]
    fn the_moment_counts_from_the_callers_clock_and_by_the_stores_clock_from_its_answer() {
        for (clock, until_ms) in [("edge", NOW + 200), ("store", NOW + 240)] {
            let mut gateway = gateway(clock, true);
            let step = receive(&mut gateway, "/a", NOW);
            assert!(asks(&step, r#""b~250""#), "{step:?}");
            let step = answered(&mut gateway, step, HELD, NOW + 40);
            assert_eq!(moment(step), Ok(until_ms), "{clock}");
        }
        // An answer that took longer than the wait holds nobody; a clock that was set back holds nobody for longer.
        for (now_ms, until_ms) in [(NOW + 200, 0), (NOW - 3_600_000, NOW - 3_599_800)] {
            let mut gateway = gateway("edge", true);
            let step = receive(&mut gateway, "/a", NOW);
            assert_eq!(moment(answered(&mut gateway, step, HELD, now_ms)), Ok(until_ms));
        }
    }

    #[test]
    fn a_full_isolate_asks_for_no_credit_and_remembers_no_longer_than_with_it() {
        let mut gateway = gateway("edge", true);
        let first = receive(&mut gateway, "/a", NOW);
        // The first has its place while the store is asked.
        let second = receive(&mut gateway, "/a", NOW);
        assert!(asks(&second, r#""b~0""#), "{second:?}");
        let refused = answered(&mut gateway, second, r#"{"result":[0,10,0,300,300,0]}"#, NOW);
        assert_eq!(moment(refused), Err(429));
        assert_eq!(moment(answered(&mut gateway, first, HELD, NOW)), Ok(NOW + 200));
        // With credit it passes 50 ms from then.
        assert_eq!(moment(receive(&mut gateway, "/a", NOW + 49)), Err(429));
        assert!(asks(&receive(&mut gateway, "/a", NOW + 50), r#""b~0""#));
        assert!(asks(&receive(&mut gateway, "/a", NOW + 200), r#""b~250""#));
        assert_eq!(gateway.counters.waiting_full, 0, "it would not have waited with a place");
    }

    #[test]
    fn a_place_that_nobody_needs_comes_back() {
        let mut gateway = gateway("edge", true);
        for reply in [r#"{"result":[1,10,0,100,0,0]}"#, r#"{"result":[0,10,0,9,9,0]}"#, "oops"] {
            let step = receive(&mut gateway, "/a", NOW);
            assert!(asks(&step, r#""b~250""#), "{reply}");
            answered(&mut gateway, step, reply, NOW + 100);
            gateway.refusals = crate::local::Refusals::new(0);
        }
        // Nobody comes back with this one.
        assert!(asks(&receive(&mut gateway, "/a", NOW + 500), r#""b~250""#));
        let step = receive(&mut gateway, "/a", NOW + 1_000);
        assert!(asks(&step, r#""b~0""#), "{step:?}");
        assert!(asks(&receive(&mut gateway, "/a", NOW + 10_000), r#""b~250""#));
    }

    #[test]
    fn who_might_take_a_slot_does_not_wait() {
        let mut gateway = gateway("edge", true);
        let step = receive(&mut gateway, "/a%2Fb", NOW);
        assert!(asks(&step, r#""b~0""#) && asks(&step, r#""c""#), "{step:?}");
    }

    #[test]
    fn a_charge_beside_it_counts_from_the_decision_and_not_from_the_moment() {
        let policy = r#"{"version":1,"gateway":{"origin":"http://o.invalid"},"defaults":{"on_store_error":"degraded"},
            "limits":[{"name":"rate","limit":10,"algorithm":"token-bucket","window":"1s","burst":1,"key":["global"],
            "over_limit":{"delay":"250ms"}},{"name":"tokens","limit":1000,"algorithm":"token-bucket","window":"1m",
            "key":["global"],"settle":{"header":"x-used","max":50}}],
            "routes":[{"name":"one","path":"/{x}","limits":["rate","tokens"]}]}"#;
        let mut gateway = Gateway::new(policy, &Bindings::default()).unwrap();
        receive(&mut gateway, "/a", NOW);
        let Step::Forward(forward) = receive(&mut gateway, "/a", NOW) else { panic!("refused") };
        assert_eq!(forward.moment_ms, NOW + 100);
        assert_eq!(forward.charge.split(',').nth(1), Some(NOW.to_string().as_str()), "{}", forward.charge);
        assert!(forward.charge.ends_with(" x-used"), "{}", forward.charge);
    }
}
