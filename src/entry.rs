//! The Worker's entry: what `edge/worker.js` calls, and nothing that decides. Every call is synchronous and leaves
//! the state whole, so requests that overlap never meet inside.

use std::cell::RefCell;

use wasm_bindgen::prelude::*;

use crate::gateway::task_calls::Write;
use crate::gateway::tasks::{Attempted, Next};
use crate::gateway::{Gateway, Isolate, Reply, Request, Step, problem};
use crate::subject::Platform;

thread_local! {
    /// The isolate's gateway, or why there is none.
    static ISOLATE: RefCell<Option<Isolate>> = const { RefCell::new(None) };
}

#[wasm_bindgen(module = "/src/edge/platform.js")]
extern "C" {
    #[wasm_bindgen(js_name = header)]
    fn platform_header(request: &JsValue, name: &str) -> Option<String>;
    #[wasm_bindgen(js_name = country)]
    fn platform_country(request: &JsValue) -> Option<String>;
    #[wasm_bindgen(js_name = asn)]
    fn platform_asn(request: &JsValue) -> Option<String>;
    #[wasm_bindgen(js_name = isBare)]
    fn platform_is_bare(request: &JsValue) -> bool;
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

    fn is_bare(&self) -> bool {
        platform_is_bare(self.0)
    }
}

/// Makes the gateway for these bindings (JSON, see `gateway::settings`).
#[wasm_bindgen]
pub fn configure(bindings: &str) {
    crate::panic::log_with(platform_log);
    let mut isolate = Isolate::from_text(crate::BUILT_IN_POLICY, bindings);
    write_log(&mut isolate);
    ISOLATE.with_borrow_mut(|known| *known = Some(isolate));
}

/// Brings what `POLICY_KV` holds, or none where it holds no policy.
#[wasm_bindgen]
pub fn reload(found: Option<String>, now_ms: f64) {
    change(|isolate| isolate.reload(found.as_deref(), now_ms as u64));
}

/// `POLICY_KV` could not be read: `deadline` or `error`.
#[wasm_bindgen]
pub fn reload_failed(why: &str) {
    change(|isolate| isolate.reload_failed(why));
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
    let reply = said(status, body, retry_after);
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

/// Brings the body of a call to the admin API with its request; none was too long.
#[wasm_bindgen]
pub fn admin_body(request: &JsValue, method: &str, url: &str, body: Option<String>, now_ms: f64) -> String {
    let request = Request { method, url, platform: &Incoming(request) };
    step(|gateway| gateway.admin_body(&request, body.as_deref(), now_ms as u64), url)
}

/// The data points of the decisions since the last call, a line each.
#[wasm_bindgen]
pub fn take_points() -> String {
    ISOLATE.with_borrow_mut(|isolate| isolate.as_mut().map(Isolate::take_points).unwrap_or_default())
}

/// Renews a slot whose request runs, by its note.
#[wasm_bindgen]
pub fn renew(note: &str, now_ms: f64) -> String {
    step(|gateway| gateway.renew(note, now_ms as u64), "")
}

/// Frees a slot whose request is over, by its note.
#[wasm_bindgen]
pub fn release(note: &str, now_ms: f64) -> String {
    step(|gateway| gateway.release(note, now_ms as u64), "")
}

/// Brings what the origin's answer says of a charge: lines of `name: value`.
#[wasm_bindgen]
pub fn settle(charge: &str, fields: &str, now_ms: f64) -> String {
    step(|gateway| gateway.settle(charge, fields, now_ms as u64), "")
}

/// Brings a call to the slots API with its body; none was too long.
#[wasm_bindgen]
pub fn slots(method: &str, url: &str, body: Option<String>, now_ms: f64, random: f64) -> String {
    step(|gateway| gateway.slots(method, url, body.as_deref(), now_ms as u64, random), url)
}

/// Asks again for a slot that is waited for, by the note.
#[wasm_bindgen]
pub fn slot_again(note: &str, now_ms: f64, random: f64) -> String {
    step(|gateway| gateway.slot_again(note, now_ms as u64, random), "")
}

/// What becomes of a task after an attempt, see `gateway::tasks`: 0 it is done, -1 it is dead, else the milliseconds
/// after which it is tried again.
#[wasm_bindgen]
pub fn task_attempted(
    status: u16,
    tried: u32,
    attempts: u32,
    backoff_ms: f64,
    retry_after_s: u32,
    random: f64,
) -> f64 {
    match (Attempted { status, tried, attempts, backoff_ms, retry_after_s }).next(random) {
        Next::Done => 0.0,
        Next::Again(ms) => ms.max(1) as f64,
        Next::Dead => -1.0,
    }
}

/// Asks what the store knows of a task, or tells it.
#[wasm_bindgen]
pub fn task(id: &str, text: Option<String>, first: bool, ttl_ms: f64, now_ms: f64) -> String {
    let write = text.map(|text| Write { text, ttl_ms: ttl_ms as u64, first });
    step(|gateway| gateway.about_task(id, write, now_ms as u64), "")
}

/// Brings the store's reply to a call about a slot; as [`conclude`].
#[wasm_bindgen]
pub fn conclude_slot(
    ticket: u32,
    status: u16,
    body: &str,
    retry_after: u32,
    now_ms: f64,
    random: f64,
) -> String {
    let reply = said(status, body, retry_after);
    step(|gateway| gateway.conclude_slot(ticket, reply, now_ms as u64, random), "")
}

/// What tokens are verified by, as JSON; none where no limit counts by one.
#[wasm_bindgen]
pub fn token_rules() -> Option<String> {
    ISOLATE.with_borrow(|isolate| isolate.as_ref()?.token_rules())
}

/// Takes a request in again whose token was verified; no payload where it is not to be believed. `task` is one that has
/// waited in a queue, and comes here first.
#[wasm_bindgen]
pub fn receive_verified(
    request: &JsValue,
    method: &str,
    url: &str,
    payload: Option<String>,
    task: bool,
    now_ms: f64,
    random: f64,
) -> String {
    let request = Request { method, url, platform: &Incoming(request) };
    let receive = if task { Gateway::receive_task } else { Gateway::receive_verified };
    step(|gateway| receive(gateway, &request, payload.as_deref(), now_ms as u64, random), url)
}

/// Brings the body of a call to the decision API again, the token that it describes verified.
#[wasm_bindgen]
pub fn check_verified(body: &str, payload: Option<String>, now_ms: f64, random: f64) -> String {
    step(|gateway| gateway.check_verified(body, payload.as_deref(), now_ms as u64, random), "")
}

/// The fields that let a script at this `Origin` read an answer of ours, a line each; none where no script may.
#[wasm_bindgen]
pub fn cors(origin: Option<String>) -> Option<String> {
    ISOLATE.with_borrow(|isolate| isolate.as_ref()?.cors(origin.as_deref()))
}

/// The answer to a request whose origin did not: 502, or 504 where it was too slow.
#[wasm_bindgen]
pub fn origin_failed(status: u16) -> String {
    Step::Answer(problem::origin_failed(status)).to_text()
}

fn said(status: u16, body: &str, retry_after: u32) -> Reply<'_> {
    match status {
        0 => Reply::None(body),
        _ => Reply::Whole { status, body, retry_after_s: retry_after },
    }
}

fn step(next: impl FnOnce(&mut Gateway) -> Step, url: &str) -> String {
    ISOLATE.with_borrow_mut(|isolate| match isolate {
        Some(isolate) => {
            let step = isolate.step(next, url);
            write_log(isolate);
            step.to_text()
        }
        None => Step::Again.to_text(),
    })
}

fn change(next: impl FnOnce(&mut Isolate)) {
    ISOLATE.with_borrow_mut(|isolate| {
        if let Some(isolate) = isolate {
            next(isolate);
            write_log(isolate);
        }
    });
}

fn write_log(isolate: &mut Isolate) {
    for line in isolate.take_log() {
        platform_log(&line);
    }
}
