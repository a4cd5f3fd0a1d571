//! What `slots.lua` says: what was done, who is refused and for how long, who holds and who waits.

use serde_json::Value;

use super::Operation;
use crate::limit::Wait;
use crate::store::error::{Class, StoreError};
use crate::store::reply::value;

/// Most characters of a reply that are looked at: a list of all holders and waiters is the longest.
const LONGEST: usize = 4_194_304;

/// What the store said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// It was done.
    Done(Done),
    /// No slot is free for this id; where it waits, it has its place.
    Refused(Refused),
    /// Nothing is held under this id: given back before, expired, or never taken. Of `Leave`: it does not wait.
    NotHeld,
    /// The id holds under another fence.
    OtherFence,
    /// No slot is free, and the queue has no room for one more.
    QueueFull(Refused),
    /// To `List`.
    Listed(Listed),
}

/// A slot after what was done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Its fence; 0 of `Leave`.
    pub fence: u64,
    /// When its lease ends, by the store's clock, in milliseconds since the Unix epoch; 0 of `Leave`.
    pub expires_ms: u64,
    /// The store's clock then.
    pub clock_ms: u64,
    /// Slots that the subject has, after an override.
    pub limit: u64,
    /// Slots left.
    pub free: u64,
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// When asking again may find one, at the latest unless leases are renewed; `Never` where the subject is banned.
    pub wait: Wait,
    /// How many wait before it.
    pub ahead: u64,
    /// The store's clock.
    pub clock_ms: u64,
    /// Slots that the subject has, after an override.
    pub limit: u64,
}

/// Who holds and who waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The store's clock.
    pub clock_ms: u64,
    /// Slots that the subject has, after an override.
    pub limit: u64,
    /// Slots left.
    pub free: u64,
    /// The first to end first.
    pub holders: Vec<Holding>,
    /// Ids, the oldest first.
    pub waiters: Vec<String>,
}

/// One holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Its id.
    pub id: String,
    /// Its fence.
    pub fence: u64,
    /// When its lease ends, in milliseconds since the Unix epoch by the store's clock.
    pub expires_ms: u64,
}

/// Reads a reply to `slots.lua`.
pub fn read(status: u16, body: &str, operation: Operation) -> Result<Said, StoreError> {
    match value(status, body, LONGEST)? {
        Value::Array(items) => {
            said(items, operation).ok_or_else(|| StoreError::new(Class::Malformed, "reply of another shape"))
        }
        _ => Err(StoreError::of_text(body, status)),
    }
}

/// `None` unless it is what the script can have said to this operation.
fn said(items: Vec<Value>, operation: Operation) -> Option<Said> {
    let mut items = items.into_iter();
    let code = whole(items.next())?;
    if operation == Operation::List {
        return (code == 1).then(|| listed(items).map(Said::Listed))?;
    }
    let numbers = items.map(|item| integer(Some(item))).collect::<Option<Vec<i64>>>()?;
    let take = matches!(operation, Operation::Take(_));
    match (code, numbers.as_slice()) {
        (1, &[fence, expires, clock, limit, free]) => {
            let [fence, expires_ms, clock_ms, limit, free] = unsigned([fence, expires, clock, limit, free])?;
            let slot = fence > 0 && expires_ms > 0;
            (slot != (operation == Operation::Leave)).then_some(Said::Done(Done {
                fence,
                expires_ms,
                clock_ms,
                limit,
                free,
            }))
        }
        (0 | 4, &[wait, ahead, clock, limit]) if take => {
            let [ahead, clock_ms, limit] = unsigned([ahead, clock, limit])?;
            let wait = match wait {
                -1 => Wait::Never,
                ms => Wait::Ms(u64::try_from(ms).ok().filter(|ms| *ms > 0)?),
            };
            let refused = Refused { wait, ahead, clock_ms, limit };
            Some(if code == 4 { Said::QueueFull(refused) } else { Said::Refused(refused) })
        }
        (2, []) if !take => Some(Said::NotHeld),
        (3, []) if matches!(operation, Operation::Renew(_) | Operation::Free(_)) => Some(Said::OtherFence),
        _ => None,
    }
}

fn listed(mut items: impl Iterator<Item = Value>) -> Option<Listed> {
    let [clock_ms, limit, free, holding, waiting] = [
        whole(items.next())?,
        whole(items.next())?,
        whole(items.next())?,
        whole(items.next())?,
        whole(items.next())?,
    ];
    let mut holders = Vec::new();
    for _ in 0..holding {
        let (id, fence, expires_ms) = (text(items.next())?, whole(items.next())?, whole(items.next())?);
        holders.push(Holding { id, fence, expires_ms });
    }
    let waiters = items.map(|item| text(Some(item))).collect::<Option<Vec<String>>>()?;
    (waiters.len() as u64 == waiting).then_some(Listed { clock_ms, limit, free, holders, waiters })
}

fn integer(item: Option<Value>) -> Option<i64> {
    item?.as_i64()
}

fn whole(item: Option<Value>) -> Option<u64> {
    u64::try_from(integer(item)?).ok()
}

fn text(item: Option<Value>) -> Option<String> {
    match item? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn unsigned<const N: usize>(numbers: [i64; N]) -> Option<[u64; N]> {
    let mut whole = [0; N];
    for (to, number) in whole.iter_mut().zip(numbers) {
        *to = u64::try_from(number).ok()?;
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::waiting::Patience;

    const PATIENCE: Patience = Patience { wait_ms: 5_000, patience_ms: 2_000, most: 100 };
    const TAKE: Operation = Operation::Take(None);

    #[test]
    fn replies_are_read() {
        let done = Done { fence: 9, expires_ms: 70, clock_ms: 40, limit: 5, free: 4 };
        let refused = Refused { wait: Wait::Ms(30), ahead: 2, clock_ms: 40, limit: 5 };
        let banned = Refused { wait: Wait::Never, ahead: 0, limit: 0, ..refused };
        for (operation, reply, said) in [
            (TAKE, "1,9,70,40,5,4", Said::Done(done)),
            (Operation::Renew(9), "1,9,70,40,5,4", Said::Done(done)),
            (Operation::Leave, "1,0,0,40,5,4", Said::Done(Done { fence: 0, expires_ms: 0, ..done })),
            (TAKE, "0,30,2,40,5", Said::Refused(refused)),
            (TAKE, "0,-1,0,40,0", Said::Refused(banned)),
            (Operation::Take(Some(PATIENCE)), "4,30,2,40,5", Said::QueueFull(refused)),
            (Operation::Free(9), "2", Said::NotHeld),
            (Operation::Free(9), "3", Said::OtherFence),
        ] {
            assert_eq!(read(200, &format!("{{\"result\":[{reply}]}}"), operation).unwrap(), said, "{reply}");
        }
        let holding = |id: &str, fence| Holding { id: id.to_owned(), fence, expires_ms: 70 };
        let listed = Listed {
            clock_ms: 40,
            limit: 5,
            free: 3,
            holders: vec![holding("a", 9), holding("b", 8)],
            waiters: vec!["c".to_owned()],
        };
        let reply = r#"{"result":[1,40,5,3,2,1,"a",9,70,"b",8,70,"c"]}"#;
        assert_eq!(read(200, reply, Operation::List).unwrap(), Said::Listed(listed));
    }

    #[test]
    fn any_other_shape_is_malformed() {
        for (operation, reply) in [
            (TAKE, ""),
            (TAKE, "1"),
            (TAKE, "1,0,0,40,5,4"),
            (TAKE, "1,0,70,40,5,4"),
            (TAKE, "1,9,0,40,5,4"),
            (TAKE, "1,9,70,40,5,-4"),
            (TAKE, "1,9,70,40,5,4,1"),
            (TAKE, "1,9.0,70,40,5,4"),
            (TAKE, "1,\"9\",70,40,5,4"),
            (TAKE, "2"),
            (TAKE, "0,0,0,40,5"),
            (Operation::Leave, "1,9,70,40,5,4"),
            (Operation::Free(1), "0,30,2,40,5"),
            (Operation::Leave, "3"),
            (Operation::List, "2"),
            (Operation::List, "1,40,5,3,1,0,\"a\",9"),
            (Operation::List, "1,40,5,3,99999999999,0"),
            (Operation::List, "1,40,5,3,0,1"),
            (Operation::List, "1,40,5,3,0,0,\"a\""),
        ] {
            let class = read(200, &format!("{{\"result\":[{reply}]}}"), operation).unwrap_err().class;
            assert_eq!(class, Class::Malformed, "{operation:?} {reply}");
        }
        let noscript = r#"{"error":"NOSCRIPT No matching script. Please use EVAL."}"#;
        assert_eq!(read(400, noscript, TAKE).unwrap_err().class, Class::NoScript);
    }
}
