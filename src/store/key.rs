//! Names of keys: `{prefix}:{schema version}:{limit}:{what}:{subject}`.
//!
//! Limit names hold no colon, and the subject comes last, so no subject can reach into another limit's keys.
//! Limit and burst are not in the name, since a change of either keeps what was used; algorithm and window are,
//! since a change of those starts a new counter. A lease is not: who holds a slot keeps it.

use crate::policy::{Algorithm, duration};

/// Version of the layout of keys and values; another version never reads this one's.
pub const SCHEMA: u32 = 1;

/// What stands where the algorithm would, in the key of a subject's override: long enough that the whole name passes
/// 44 bytes. Redis 7 keeps a script's arguments by position for the next command, and takes a shorter name's
/// allocation over into the database as the value of the `SET` that follows: 32 bytes more for every subject.
const OVERRIDE: &str = "override-instead-of-the-policy-s-limit";

/// The letter that `lua/check.lua` knows an algorithm by.
pub fn letter(algorithm: Algorithm) -> char {
    match algorithm {
        Algorithm::TokenBucket => 'b',
        Algorithm::FixedWindow => 'f',
        Algorithm::SlidingWindow => 's',
        Algorithm::SlidingLog => 'l',
        Algorithm::Concurrency => 'c',
    }
}

/// What the key of any subject's state in one limit begins with. Holders keep their slots when the lease changes.
pub fn state_stem(prefix: &str, cluster: bool, limit: &str, algorithm: Algorithm, window_ms: u64) -> String {
    let window = match algorithm {
        Algorithm::Concurrency => String::new(),
        _ => duration::to_text(window_ms),
    };
    let what = format!("{}{window}", letter(algorithm));
    stem(prefix, cluster, limit, &what)
}

/// What the key of any subject's override in one limit begins with.
pub fn override_stem(prefix: &str, cluster: bool, limit: &str) -> String {
    stem(prefix, cluster, limit, OVERRIDE)
}

/// What the key of those who wait for a slot of a concurrency limit begins with.
pub fn queue_stem(prefix: &str, cluster: bool, limit: &str) -> String {
    stem(prefix, cluster, limit, "queue")
}

/// What the key of any charge id begins with. No limit's name is empty, so it is no limit's key.
pub fn charge_stem(prefix: &str, cluster: bool) -> String {
    stem(prefix, cluster, "", "charge")
}

/// What the key of any task begins with. No limit's name is empty, so it is no limit's key.
pub fn task_stem(prefix: &str, cluster: bool) -> String {
    stem(prefix, cluster, "", "task")
}

/// What the key of any settlement begins with; see [`charge_stem`].
pub fn settlement_stem(prefix: &str, cluster: bool) -> String {
    stem(prefix, cluster, "", "settled")
}

fn stem(prefix: &str, cluster: bool, limit: &str, what: &str) -> String {
    // On a cluster everything shares one hash tag, so that the keys of an EVAL lie in one slot.
    let prefix = if cluster { format!("{{{prefix}}}") } else { prefix.to_owned() };
    format!("{prefix}:{SCHEMA}:{limit}:{what}:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_key_has_its_name() {
        let state = |algorithm| state_stem("sg", false, "api", algorithm, 60_000);
        assert_eq!(
            [
                state(Algorithm::TokenBucket),
                state(Algorithm::FixedWindow),
                state(Algorithm::SlidingWindow),
                state(Algorithm::SlidingLog),
                state(Algorithm::Concurrency),
                override_stem("sg", false, "api"),
                queue_stem("sg", false, "api"),
                charge_stem("sg", false),
                task_stem("sg", false),
                settlement_stem("sg", false),
            ],
            [
                "sg:1:api:b1m:",
                "sg:1:api:f1m:",
                "sg:1:api:s1m:",
                "sg:1:api:l1m:",
                "sg:1:api:c:",
                "sg:1:api:override-instead-of-the-policy-s-limit:",
                "sg:1:api:queue:",
                "sg:1::charge:",
                "sg:1::task:",
                "sg:1::settled:",
            ]
        );
        assert_eq!(state_stem("sg", true, "api", Algorithm::FixedWindow, 1), "{sg}:1:api:f1ms:");
    }
}
