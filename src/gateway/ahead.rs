//! Optimistic mode: the origin is asked while the store decides, and where the store refuses, its answer is thrown away.
//!
//! What is thrown away has cost the origin all the same. Most refused requests never get as far, since the isolate
//! remembers refusals; the rest is bounded by a credit. A request that is begun takes one unit and brings it back when
//! it passes, and ten requests that pass on optimistic routes earn one. So what an isolate has begun in vain, together
//! with what it has under way, is never more than [`CREDIT`] and a tenth of what has passed. Where there is no credit, a
//! request is decided first, as on any other route.

use super::asking::Purpose;
use super::{Gateway, Request};

/// Units of credit that an isolate begins with, and the most that it has.
pub const CREDIT: u32 = 256;

/// Parts of a unit: what a request that passes earns.
const PARTS: u32 = 10;

/// Whether a request reaches the origin while the store decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Not on this route, or not this request.
    Never,
    /// If the store is asked, and there is credit.
    Fit,
    /// It has been sent there.
    Begun,
    /// There was no credit.
    HeldBack,
}

/// What an isolate may begin, and what became of what it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Requests that reached the origin while the store decided.
    pub begun: u64,
    /// Those whose answer was thrown away, as the decision was a refusal.
    pub discarded: u64,
    /// Requests that were decided first, for want of credit.
    pub held_back: u64,
    parts: u32,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { begun: 0, discarded: 0, held_back: 0, parts: CREDIT.saturating_mul(PARTS) }
    }
}

impl Ahead {
    fn begin(&mut self) -> Start {
        match self.parts.checked_sub(PARTS) {
            Some(left) => {
                self.parts = left;
                self.begun = self.begun.saturating_add(1);
                Start::Begun
            }
            None => {
                self.held_back = self.held_back.saturating_add(1);
                Start::HeldBack
            }
        }
    }

    /// The decision is there. One that nobody hears of, since the client has left, brings nothing back.
    pub(super) fn end(&mut self, start: Start, passes: bool) {
        let earned = match (start, passes) {
            (Start::Never, _) => return,
            (Start::Begun, true) => PARTS.saturating_add(1),
            (Start::Fit | Start::HeldBack, true) => 1,
            (Start::Begun, false) => {
                self.discarded = self.discarded.saturating_add(1);
                return;
            }
            (Start::Fit | Start::HeldBack, false) => return,
        };
        self.parts = self.parts.saturating_add(earned).min(CREDIT.saturating_mul(PARTS));
    }
}

/// Whether a request on optimistic routes is one to begin: it changes nothing (RFC 9110 section 9.2.1), and can be sent
/// before anybody wants its answer.
pub(super) fn is_fit(request: &Request<'_>) -> bool {
    matches!(request.method, "GET" | "HEAD") && request.platform.is_bare()
}

impl Gateway {
    /// Where the request is to be begun with the call to the store that comes now, and how long the origin may take in
    /// milliseconds; `None` where it is not, or has been.
    pub(super) fn begin(&mut self, purpose: &mut Purpose) -> Option<(String, u64)> {
        let Purpose::Proxy { origin, start, .. } = purpose else { return None };
        if *start != Start::Fit {
            return None;
        }
        *start = self.ahead.begin();
        let origin = origin.clone().unwrap_or_else(|| self.rules.origin.clone());
        (*start == Start::Begun).then(|| (origin, self.origin_timeout_ms()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Bindings, Forward, Reply, Step};
    use super::*;
    use crate::subject::Platform;

    const NOW: u64 = 1_785_432_000_000;
    const PASSES: &str = r#"{"result":[1,9,8,1000,0]}"#;
    const REFUSES: &str = r#"{"result":[0,9,0,60000,60000]}"#;

    type Fields = &'static [(&'static str, &'static str)];

    struct Headers(Fields);

    impl Platform for Headers {
        fn header(&self, name: &str) -> Option<String> {
            self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        }
        fn country(&self) -> Option<String> {
            None
        }
        fn asn(&self) -> Option<String> {
            None
        }
    }

    fn gateway() -> Gateway {
        let policy = r#"{"version":1,"gateway":{"origin":"http://o.invalid","origin_timeout":"3s"},
            "store":{"remember":"0s","max_in_flight":1000},"limits":[
            {"name":"a","limit":9,"algorithm":"fixed-window","window":"1m","key":["ip"],"on_store_error":"closed",
            "idempotency":"header:key"}],"routes":[
            {"name":"r","path":"/{*all}","limits":["a"],"optimistic":true},
            {"name":"own","path":"/own","limits":["a"],"optimistic":true,"origin":"binding:OWN"},
            {"name":"first","path":"/first","limits":["a"]}]}"#;
        let store_url = Some("http://store.invalid".to_owned());
        let bindings = Bindings { store_url, has_token: true, ..Bindings::default() };
        Gateway::new(policy, &bindings).unwrap()
    }

    const FROM: (&str, &str) = ("cf-connecting-ip", "192.0.2.1");

    fn asked(gateway: &mut Gateway, method: &str, path: &str, headers: Fields) -> Step {
        let url = format!("http://h.invalid{path}");
        gateway.receive(&Request { method, url: &url, platform: &Headers(headers) }, NOW, 0.5)
    }

    fn get(gateway: &mut Gateway) -> Step {
        asked(gateway, "GET", "/x", &[FROM])
    }

    /// Takes the reply to the call of a step.
    fn replied(gateway: &mut Gateway, step: Step, body: &str) -> Step {
        let ticket = match step {
            Step::Ahead(begin) => begin.call.ticket,
            Step::Ask(call) => call.ticket,
            other => panic!("{other:?}"),
        };
        gateway.conclude(ticket, Reply::Whole { status: 200, body, retry_after_s: 0 }, NOW, 0.5)
    }

    #[test]
    fn what_is_begun_goes_where_it_is_forwarded() {
        let mut gateway = gateway();
        for (path, origin) in [("/x", "http://o.invalid"), ("/own", "binding:OWN")] {
            let step = asked(&mut gateway, "HEAD", path, &[FROM]);
            let Step::Ahead(begin) = step.clone() else { panic!("{step:?}") };
            assert_eq!((begin.origin.as_str(), begin.timeout_ms), (origin, 3_000));
            let head = format!("ahead\n{origin}\n3000\n{}\n", begin.call.ticket);
            let text = step.to_text();
            assert!(text.starts_with(&head), "{text}");
            assert!(text.ends_with(&begin.call.body), "{text}");
            let Step::Forward(Forward { origin: to, timeout_ms, .. }) = replied(&mut gateway, step, PASSES)
            else {
                panic!("not forwarded")
            };
            assert_eq!((to, timeout_ms), (begin.origin, begin.timeout_ms));
        }
    }

    #[test]
    fn only_what_changes_nothing_is_begun() {
        let mut gateway = gateway();
        let rows: [(&str, &str, Fields); 8] = [
            ("GET", "/first", &[FROM]),
            ("POST", "/x", &[FROM]),
            ("get", "/x", &[FROM]),
            ("OPTIONS", "/x", &[FROM]),
            ("GET", "/x", &[FROM, ("content-length", "3")]),
            ("GET", "/x", &[FROM, ("transfer-encoding", "chunked")]),
            ("GET", "/x", &[FROM, ("upgrade", "websocket")]),
            ("GET", "/x", &[FROM, ("key", "k")]),
        ];
        for (method, path, headers) in rows {
            let step = asked(&mut gateway, method, path, headers);
            assert!(matches!(step, Step::Ask(_)), "{method} {path} {headers:?}: {step:?}");
        }
        assert_eq!(gateway.ahead, Ahead::default());
    }

    #[test]
    fn a_call_that_is_made_again_begins_nothing() {
        let mut gateway = gateway();
        let first = get(&mut gateway);
        let again = replied(&mut gateway, first, r#"{"error":"NOSCRIPT no script"}"#);
        assert!(matches!(again, Step::Ask(_)), "{again:?}");
        assert!(matches!(replied(&mut gateway, again, PASSES), Step::Forward(_)));
        assert_eq!((gateway.ahead.begun, gateway.ahead.discarded), (1, 0));
    }

    #[test]
    fn without_credit_the_store_is_asked_first_until_some_has_passed() {
        let mut gateway = gateway();
        for _ in 0..CREDIT {
            let step = get(&mut gateway);
            assert!(matches!(step, Step::Ahead(_)), "{step:?}");
            assert!(matches!(replied(&mut gateway, step, REFUSES), Step::Answer(_)));
        }
        for _ in 0..PARTS {
            let step = get(&mut gateway);
            assert!(matches!(step, Step::Ask(_)), "{step:?}");
            assert!(matches!(replied(&mut gateway, step, PASSES), Step::Forward(_)));
        }
        assert!(matches!(get(&mut gateway), Step::Ahead(_)));
        assert!(matches!(get(&mut gateway), Step::Ask(_)));
        let counted = (gateway.ahead.begun, gateway.ahead.discarded, gateway.ahead.held_back);
        assert_eq!(counted, (u64::from(CREDIT) + 1, u64::from(CREDIT), u64::from(PARTS) + 1));
    }

    #[test]
    fn other_routes_earn_nothing() {
        let mut ahead = Ahead { parts: 0, ..Ahead::default() };
        ahead.end(Start::Never, true);
        assert_eq!(ahead.parts, 0);
    }

    proptest! {
        /// Requests come, pass, are refused, or are never heard of again, in any order.
        #[test]
        fn what_is_in_vain_is_bounded(steps in prop::collection::vec((0_u8..4, any::<prop::sample::Index>()), 0..3_000)) {
            let mut ahead = Ahead::default();
            let mut under_way: Vec<Start> = Vec::new();
            let (mut used, mut passed) = (0_u64, 0_u64);
            for (step, which) in steps {
                if step == 0 || step == 1 || under_way.is_empty() {
                    under_way.push(ahead.begin());
                } else {
                    let start = under_way.swap_remove(which.index(under_way.len()));
                    let passes = step == 2;
                    ahead.end(start, passes);
                    passed += u64::from(passes);
                    used += u64::from(passes && start == Start::Begun);
                }
                let in_vain = ahead.begun - used;
                prop_assert!(in_vain <= u64::from(CREDIT) + passed / u64::from(PARTS), "{in_vain}, {passed}");
            }
        }
    }
}
