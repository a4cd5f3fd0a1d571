//! The shared store: a request's limits become one `EVAL`, the reply becomes verdicts or a classified error.
//! Nothing here sends anything; the entry does.

pub mod breaker;
pub mod call;
pub mod charge;
pub mod error;
pub mod inflight;
pub mod key;
pub mod reply;
pub mod retry;
pub mod script;
pub mod settlement;
pub mod slots;

pub use call::{Ask, Form, ScriptCall, Stems};
pub use charge::ChargeId;
pub use error::{Class, StoreError};
pub use inflight::Inflight;
pub use reply::{Answered, Said, read};
