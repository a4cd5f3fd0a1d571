//! Scripts that are given the store's clock: they ask a key for it, and are otherwise as they are.

use sluicegate::store::script::Script;

use super::support::redis::Client;

/// The key that they ask.
pub const CLOCK: &str = "clock";

/// A script of this text, loaded, that asks the key where the text asks `TIME`.
pub fn clockwork(client: &mut Client, text: &str) -> Script {
    assert_eq!(text.matches("call('TIME')").count(), 1);
    let text = text.replace("call('TIME')", &format!("call('HMGET', '{CLOCK}', 's', 'us')"));
    let sha = client.call(&["SCRIPT", "LOAD", &text]).text().to_owned();
    let (text, sha): (&'static str, &'static str) = (text.leak(), sha.leak());
    Script { redis: text, redis_sha: sha, upstash: text, upstash_sha: sha }
}

/// The command that sets the clock, to µs since the Unix epoch.
pub fn set(now_us: u64) -> Vec<String> {
    let (s, us) = ((now_us / 1_000_000).to_string(), (now_us % 1_000_000).to_string());
    ["HSET", CLOCK, "s", &s, "us", &us].map(str::to_owned).to_vec()
}
