//! The Worker's entry: what `edge/worker.js` calls, and nothing that decides. Every call is synchronous and leaves
//! the state whole, so requests that overlap never meet inside.

use std::cell::RefCell;

use wasm_bindgen::prelude::*;

use crate::gateway::{Bindings, Gateway, Reply, Request, Step, log, problem};
use crate::subject::Platform;

thread_local! {
    /// The isolate's gateway, or why there is none.
    static GATEWAY: RefCell<Option<Result<Gateway, String>>> = const { RefCell::new(None) };
}

#[wasm_bindgen(module = "/src/edge/platform.js")]
extern "C" {
    #[wasm_bindgen(js_name = header)]
    fn platform_header(request: &JsValue, name: &str) -> Option<String>;
    #[wasm_bindgen(js_name = country)]
    fn platform_country(request: &JsValue) -> Option<String>;
    #[wasm_bindgen(js_name = asn)]
    fn platform_asn(request: &JsValue) -> Option<String>;
    #[wasm_bindgen(js_name = log)]
    fn platform_log(line: &str);
}

/// A request of the platform's, borrowed for one call.
struct Incoming<'a>(&'a JsValue);

impl Platform for Incoming<'_> {
    fn header(&self, name: &str) -> Option<String> {
        platform_header(self.0, name)
    }

    fn country(&self) -> Option<String> {
        platform_country(self.0)
    }

    fn asn(&self) -> Option<String> {
        platform_asn(self.0)
    }
}

/// Makes the gateway for these bindings (JSON, see `gateway::settings`).
#[wasm_bindgen]
pub fn configure(bindings: &str) {
    crate::panic::log_with(platform_log);
    let made = match serde_json::from_str::<Bindings>(bindings) {
        Ok(bindings) => Gateway::new(crate::BUILT_IN_POLICY, &bindings).map_err(|errors| {
            platform_log(&log::bad_policy(&errors));
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            lines.join("\n")
        }),
        Err(error) => Err(format!("the bindings cannot be read: {error}")),
    };
    GATEWAY.with_borrow_mut(|gateway| *gateway = Some(made));
}

/// Takes a request in; answers the next step in the text form of `gateway::answer`.
#[wasm_bindgen]
pub fn receive(request: &JsValue, method: &str, url: &str, now_ms: f64, random: f64) -> String {
    let request = Request { method, url, platform: &Incoming(request) };
    let receive = |gateway: &mut Gateway| {
        #[cfg(feature = "provoke-panic")]
        crate::panic::provoked::on_receive(request.platform);
        gateway.receive(&request, now_ms as u64, random)
    };
    step(receive, url)
}

/// Brings the store's reply; status 0 is none, and `body` then says why. `retry_after` is in seconds, 0 for none.
#[wasm_bindgen]
pub fn conclude(ticket: u32, status: u16, body: &str, retry_after: u32, now_ms: f64, random: f64) -> String {
    let reply = match status {
        0 => Reply::None(body),
        _ => Reply::Whole { status, body, retry_after_s: retry_after },
    };
    let conclude = |gateway: &mut Gateway| {
        #[cfg(feature = "provoke-panic")]
        crate::panic::provoked::on_conclude();
        gateway.conclude(ticket, reply, now_ms as u64, random)
    };
    step(conclude, "")
}

/// Brings the answers of the platform's own limiter: `1` let through, `0` refused, `x` none.
#[wasm_bindgen]
pub fn conclude_location(ticket: u32, answers: &str, now_ms: f64) -> String {
    step(|gateway| gateway.conclude_location(ticket, answers, now_ms as u64), "")
}

/// Brings the body of a call to the decision API; none was too long.
#[wasm_bindgen]
pub fn check(body: Option<String>, now_ms: f64, random: f64) -> String {
    step(|gateway| gateway.check(body.as_deref(), now_ms as u64, random), "")
}

/// The answer to a request whose origin did not: 502, or 504 where it was too slow.
#[wasm_bindgen]
pub fn origin_failed(status: u16) -> String {
    Step::Answer(problem::origin_failed(status)).to_text()
}

fn step(next: impl FnOnce(&mut Gateway) -> Step, url: &str) -> String {
    GATEWAY.with_borrow_mut(|gateway| match gateway {
        Some(Ok(gateway)) => {
            let step = next(gateway);
            if gateway.has_log() {
                for line in gateway.take_log() {
                    platform_log(&line);
                }
            }
            step.to_text()
        }
        Some(Err(errors)) => Step::Answer(problem::bad_policy(errors, url)).to_text(),
        None => Step::Again.to_text(),
    })
}
