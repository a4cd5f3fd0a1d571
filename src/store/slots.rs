//! The call to `slots.lua`, and what it says: slots of concurrency limits that are held outside a request.

mod reply;

pub use reply::{Done, Holding, Listed, Refused, Said, read};

use super::call::{Form, ScriptCall, key, named, number};
use super::script::Script;
use crate::limit::Quota;
use crate::limit::waiting::Patience;

/// What is done with a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Takes one, or renews the one that the id holds already. Also how a paused one is asked for again. `Some` waits
    /// in the queue where there is none; `None`, and a wait of 0, has no place there, or gives it up.
    Take(Option<Patience>),
    /// Lets the lease that is held under this fence run anew.
    Renew(u64),
    /// Gives back the slot that is held under this fence, for good or for a pause.
    Free(u64),
    /// Gives up the id's place in the queue.
    Leave,
    /// Who holds and who waits. The id does not matter.
    List,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Take(_) => "take",
            Self::Renew(_) => "renew",
            Self::Free(_) => "free",
            Self::Leave => "leave",
            Self::List => "list",
        }
    }
}

/// What the keys of a concurrency limit begin with; the subject follows.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlotStems<'a> {
    /// Of holders: the limit's state.
    pub holders: &'a str,
    /// Of overrides.
    pub overrides: &'a str,
    /// Of those who wait.
    pub queue: &'a str,
}

/// A call to `slots.lua`.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Which form of the script the store takes.
    pub form: Form,
    /// How the script is named.
    pub by: ScriptCall,
    /// What the keys begin with.
    pub stems: SlotStems<'a>,
    /// The subject, as keys end with it.
    pub subject: &'a str,
    /// What the subject has: slots and lease.
    pub quota: Quota,
    /// The holder's id, 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub id: &'a str,
    /// What is done.
    pub operation: Operation,
}

/// Whether the scripts take this text for a holder's id.
pub fn is_id(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&text.len()) && text.bytes().all(known)
}

/// The command array, as JSON whose elements are all strings.
pub fn body(script: &Script, call: &Call<'_>) -> String {
    let Call { form, by, stems, subject, quota, id, operation } = *call;
    let mut body = String::with_capacity(512);
    named(&mut body, script, form, by);
    number(&mut body, 3);
    for stem in [stems.holders, stems.overrides, stems.queue] {
        key(&mut body, stem, subject);
    }
    key(&mut body, "", operation.name());
    for value in [quota.limit, quota.window_ms, quota.ttl_ms()] {
        number(&mut body, value);
    }
    key(&mut body, "", id);
    match operation {
        Operation::Renew(fence) | Operation::Free(fence) => number(&mut body, fence),
        _ => key(&mut body, "", ""),
    }
    if let Operation::Take(patience) = operation {
        let Patience { wait_ms, patience_ms, most } =
            patience.unwrap_or(Patience { wait_ms: 0, patience_ms: 0, most: 0 });
        [wait_ms, patience_ms, most].into_iter().for_each(|value| number(&mut body, value));
    }
    body.push(']');
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Algorithm;

    const SCRIPT: Script =
        Script { redis: "return 1", redis_sha: "aa", upstash: "return 2", upstash_sha: "bb" };
    const PATIENCE: Patience = Patience { wait_ms: 5_000, patience_ms: 2_000, most: 100 };
    const TAKE: Operation = Operation::Take(None);

    fn command(operation: Operation) -> Vec<String> {
        let call = Call {
            form: Form::Redis,
            by: ScriptCall::BySha,
            stems: SlotStems { holders: "h:", overrides: "o:", queue: "q:" },
            subject: "x",
            quota: Quota { algorithm: Algorithm::Concurrency, limit: 5, burst: 5, window_ms: 30_000 },
            id: "job-1",
            operation,
        };
        serde_json::from_str(&body(&SCRIPT, &call)).unwrap()
    }

    #[test]
    fn the_body_is_one_array_of_strings() {
        let common = ["EVALSHA", "aa", "3", "h:x", "o:x", "q:x"];
        for (operation, rest) in [
            (TAKE, "take 5 30000 32000 job-1 ! 0 0 0"),
            (Operation::Take(Some(PATIENCE)), "take 5 30000 32000 job-1 ! 5000 2000 100"),
            (Operation::Renew(77), "renew 5 30000 32000 job-1 77"),
            (Operation::Free(77), "free 5 30000 32000 job-1 77"),
            (Operation::Leave, "leave 5 30000 32000 job-1 !"),
            (Operation::List, "list 5 30000 32000 job-1 !"),
        ] {
            let rest: Vec<&str> = rest.split(' ').map(|word| if word == "!" { "" } else { word }).collect();
            assert_eq!(command(operation), [&common, rest.as_slice()].concat());
        }
    }

    #[test]
    fn ids() {
        assert!(is_id("A") && is_id("job_1-x") && is_id(&"a".repeat(64)));
        for wrong in ["", ":", "a b", "a:b", "ä", "a\"", &"a".repeat(65)] {
            assert!(!is_id(wrong), "{wrong}");
        }
    }
}
