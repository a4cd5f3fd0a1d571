//! The one store command that a call costs, and what its reply comes to.

use serde_json::Value;

use super::Target;
use super::overrides::{self, Override};
use crate::gateway::answer::Answer;
use crate::gateway::prepared::Prepared;
use crate::store::error::{Class, StoreError};
use crate::store::{Said, reply};

/// Reads an override with what is left of its key's life, in one command that does not depend on a script's hash.
const READ: &str = "return {redis.call('GET',KEYS[1]),redis.call('PTTL',KEYS[1])}";

/// What is asked of the store.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// What a subject has used: `check.lua` at no cost. The plan by name, where the caller named one.
    Peek(Option<String>),
    /// Forget a subject's state.
    Forget,
    /// Set an override.
    Set(Override),
    /// Read an override.
    Read,
    /// Remove an override.
    Remove,
}

/// A call that waits for the store.
#[derive(Debug, Clone)]
pub struct Call {
    pub(super) target: Target,
    pub(super) what: What,
}

impl Call {
    /// Whether the command is a check of the usual kind.
    pub fn is_check(&self) -> bool {
        matches!(self.what, What::Peek(_))
    }

    /// Whether it changes what the store would say of the subject.
    pub(super) fn changes(&self) -> bool {
        matches!(self.what, What::Forget | What::Set(_) | What::Remove)
    }

    /// Whether the isolate's own count of the subject goes as well.
    pub(super) fn forgets(&self) -> bool {
        matches!(self.what, What::Forget)
    }

    /// The command array, as JSON.
    pub fn body(&self, limits: &[Prepared]) -> String {
        let stems = limits.get(self.target.limit).map(Prepared::stems).unwrap_or_default();
        let key = |stem: &str| [stem, &*self.target.subject].concat();
        let command = match &self.what {
            What::Peek(_) => Vec::new(),
            What::Forget => vec!["DEL".to_owned(), key(stems.state)],
            What::Set(set) => {
                let ttl_ms = set.ttl_ms.to_string();
                vec!["SET".to_owned(), key(stems.overrides), set.value(), "PX".to_owned(), ttl_ms]
            }
            What::Read => vec!["EVAL".to_owned(), READ.to_owned(), "1".to_owned(), key(stems.overrides)],
            What::Remove => vec!["DEL".to_owned(), key(stems.overrides)],
        };
        Value::from(command).to_string()
    }

    /// Reads a reply; one of another shape than the command's is malformed.
    pub fn read(&self, status: u16, body: &str) -> Result<Said, StoreError> {
        let value = reply::read_value(status, body)?;
        let fits = match &self.what {
            What::Peek(_) => false,
            What::Forget | What::Remove => value.as_u64().is_some_and(|deleted| deleted <= 1),
            What::Set(_) => value == "OK",
            What::Read => overrides::read(&value).is_some(),
        };
        if fits {
            Ok(Said::Value(value))
        } else {
            Err(StoreError::new(Class::Malformed, "reply of another shape"))
        }
    }

    /// The answer that a reply which fits makes.
    pub(super) fn answer(&self, name: &str, value: &Value, now_ms: u64) -> Answer {
        let deleted = value.as_u64() == Some(1);
        match &self.what {
            What::Peek(_) | What::Forget => super::limits::forgotten(name, deleted),
            What::Set(set) => set.answer(name),
            What::Read => overrides::found(name, value, now_ms),
            What::Remove => overrides::removed(name, deleted),
        }
    }
}
