//! What decides for the isolates: the model, or the script itself on a real Redis.

use std::collections::HashSet;

use super::super::command::Command;
use super::super::redis::{Client, Reply};
use super::super::store::Store;

pub enum Kind {
    Model(Box<Store>),
    Redis(Client),
}

/// A store, and what it has charged.
pub struct Backend {
    store: Kind,
    charges: HashSet<String>,
}

/// What a call came to.
pub struct Ran {
    /// The script's reply.
    pub reply: Vec<i64>,
    /// Units charged of each ask, permits included; none where nothing was, or had been before.
    pub charged: Vec<u64>,
}

impl Backend {
    pub fn new(store: Kind) -> Self {
        Self { store, charges: HashSet::new() }
    }

    /// Runs a call at this moment of true time; `Err` is the error's text, and nothing was run.
    pub fn run(&mut self, body: &str, true_ms: u64) -> Result<Ran, String> {
        let command = Command::read(body);
        let reply = match &mut self.store {
            Kind::Model(store) => store.run(&command, true_ms)?.reply,
            Kind::Redis(client) => on_redis(client, body, true_ms)?,
        };
        let first = command.charge.as_ref().is_none_or(|charge| !self.charges.contains(&charge.key));
        let mut permits = reply[1 + command.asks.len() * 4..].iter();
        let charged = command.asks.iter().zip(reply[1..].chunks(4)).map(|(ask, numbers)| {
            let more = if ask.more > 0 { *permits.next().expect("permits") as u64 } else { 0 };
            if first && reply[0] == 1 && numbers[3] == 0 { ask.cost + more } else { 0 }
        });
        let charged = charged.collect();
        if reply[0] == 1 {
            self.charges.extend(command.charge.map(|charge| charge.key));
        }
        Ok(Ran { reply, charged })
    }
}

/// Time is simulated, so a call that leaves the clock to the store is told what it would say.
fn on_redis(client: &mut Client, body: &str, true_ms: u64) -> Result<Vec<i64>, String> {
    let mut words: Vec<String> = serde_json::from_str(body).expect("an array of strings");
    let clock = 3 + words[2].parse::<usize>().expect("a number of keys");
    if words[clock].is_empty() {
        words[clock] = true_ms.to_string();
    }
    match client.try_call(&words).expect("a reply from Redis") {
        Reply::Error(text) => Err(text),
        reply => Ok(reply.array().iter().map(Reply::int).collect()),
    }
}
