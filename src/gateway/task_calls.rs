//! What the store knows of tasks, which is what their status URLs say: one command each, under the deadline, breaker and
//! bulkhead of decisions. It may be lost, and no request with it, since the queue alone keeps requests.

use serde_json::Value;

use super::answer::{Answer, Step};
use super::asking::Purpose;
use super::tasks::queue;
use super::{Gateway, problem};
use crate::store::error::{Class, StoreError};
use crate::store::slots::is_id;
use crate::store::{Said, key, reply};

/// Where the status of a task is, below our own paths.
pub(super) const PATH: &str = "v1/tasks/";

/// What null is in the store's envelope: no such key, or a `SET NX` that found one.
const NOTHING: &str = r#"{"result":null}"#;

/// A call to the store about one task.
#[derive(Debug, Clone)]
pub(super) struct TaskCall {
    key: String,
    write: Option<Write>,
}

/// What the store is told of a task.
#[derive(Debug, Clone)]
pub struct Write {
    /// What its status URL says from now on.
    pub text: String,
    /// How long, in milliseconds.
    pub ttl_ms: u64,
    /// Only where nothing is known of the task yet: its delivery may have been quicker than the first word of it.
    pub first: bool,
}

impl TaskCall {
    /// The command array, as JSON: prefixes and ids hold only characters that it takes as they are.
    pub fn body(&self) -> String {
        let key = &self.key;
        match &self.write {
            None => format!("[\"GET\",\"{key}\"]"),
            Some(Write { text, ttl_ms, first }) => {
                let text = serde_json::to_string(text).unwrap_or_default();
                let nx = if *first { ",\"NX\"" } else { "" };
                format!("[\"SET\",\"{key}\",{text},\"PX\",\"{ttl_ms}\"{nx}]")
            }
        }
    }

    /// Reads a reply.
    pub fn read(&self, status: u16, body: &str) -> Result<Said, StoreError> {
        if status == 200 && body.trim() == NOTHING {
            return Ok(Said::Value(Value::Null));
        }
        match reply::read_value(status, body)? {
            text @ Value::String(_) => Ok(Said::Value(text)),
            _ => Err(StoreError::new(Class::Malformed, "reply of another shape")),
        }
    }

    /// What the reply to it comes to.
    pub fn told(&self, value: Value) -> Step {
        match (&self.write, value) {
            (Some(_), Value::Null) => Step::Done("unsaved"),
            (Some(_), _) => Step::Done("saved"),
            (None, Value::String(text)) => Step::Answer(Answer::json(200, text)),
            (None, _) => Step::Answer(unknown()),
        }
    }

    /// The store was not asked, or did not answer.
    pub fn unanswered(&self, retry_ms: u64) -> Step {
        match &self.write {
            Some(_) => Step::Done("unsaved"),
            None => Step::Answer(problem::unanswered(
                "the store did not answer, so nothing is known of the task; it is delivered all the same",
                retry_ms,
            )),
        }
    }
}

fn unknown() -> Answer {
    problem::plain(
        404,
        "Unknown task",
        "there is no such task, or what was known of it is no longer kept; one that was accepted is delivered all the same",
    )
}

impl Gateway {
    /// The status of a task, which whoever knows its id may ask for.
    pub(super) fn task_status(&mut self, method: &str, id: &str, now_ms: u64) -> Step {
        if !matches!(method, "GET" | "HEAD") {
            return Step::Answer(problem::method_not_allowed("tasks/{id}", "GET, HEAD"));
        }
        self.about_task(id, None, now_ms)
    }

    /// Asks what the store knows of a task, which is an answer of 200 with its text or one that says why there is none;
    /// or tells the store of it. Of several queues' policies one is enough: none is asked about where there is none.
    pub fn about_task(&mut self, id: &str, write: Option<Write>, now_ms: u64) -> Step {
        let form =
            self.form.filter(|_| is_id(id) && self.rules.limits.iter().any(|limit| queue(limit).is_some()));
        let store = &self.rules.policy.store;
        let key = [key::task_stem(&store.prefix, store.cluster).as_str(), id].concat();
        let call = TaskCall { key, write };
        match form {
            Some(form) => self.send(form, Vec::new(), None, Purpose::Task(call), now_ms),
            None => call.told(Value::Null),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bindings, Call, Reply};
    use super::*;

    const NOW: u64 = 1_785_432_000_000;

    fn gateway() -> Gateway {
        let policy = r#"{"version":1,"gateway":{"origin":"http://o.invalid"},"limits":[{"name":"a","limit":2,"window":"1m",
            "algorithm":"fixed-window","key":["ip"],"on_store_error":"open","over_limit":{"queue":"WORK"}}]}"#;
        let store_url = Some("http://store.invalid".to_owned());
        let bindings = Bindings { store_url, has_token: true, ..Bindings::default() };
        Gateway::new(policy, &bindings).unwrap()
    }

    fn asked(step: Step) -> Call {
        match step {
            Step::Ask(call) => call,
            other => panic!("{other:?} asks nothing"),
        }
    }

    #[test]
    fn what_the_store_knows_of_a_task_is_one_command() {
        let mut gateway = gateway();
        let reply = |body| Reply::Whole { status: 200, body, retry_after_s: 0 };
        let write = |first| Write { text: "t".to_owned(), ttl_ms: 5, first };
        let call = asked(gateway.about_task("id", Some(write(true)), NOW));
        assert_eq!(call.body, r#"["SET","sg:1::task:id","t","PX","5","NX"]"#);
        let call = asked(gateway.about_task("id", Some(write(false)), NOW));
        assert_eq!(call.body, r#"["SET","sg:1::task:id","t","PX","5"]"#);
        assert_eq!(gateway.conclude(call.ticket, reply(r#"{"result":"OK"}"#), NOW, 0.5), Step::Done("saved"));
        let call = asked(gateway.about_task("id", None, NOW));
        assert_eq!(call.body, r#"["GET","sg:1::task:id"]"#);
        let step = gateway.conclude(call.ticket, reply(r#"{"result":"{\"id\":1}"}"#), NOW, 0.5);
        assert_eq!(step, Step::Answer(Answer::json(200, r#"{"id":1}"#.to_owned())));
        for (body, status) in [(NOTHING, 404), (r#"{"result":5}"#, 503), ("<html>", 503)] {
            let call = asked(gateway.about_task("id", None, NOW));
            let mut step = gateway.conclude(call.ticket, reply(body), NOW, 0.5);
            if let Step::Ask(again) = &step {
                step = gateway.conclude(again.ticket, reply(body), NOW, 0.5);
            }
            assert!(matches!(step, Step::Answer(answer) if answer.status == status), "{body}");
        }
        let step = gateway.about_task("no id", None, NOW);
        assert!(matches!(step, Step::Answer(answer) if answer.status == 404), "nobody is asked");
    }
}
