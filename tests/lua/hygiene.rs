//! The text of the scripts: what other Redis-likes would refuse, the contract at the top, the two forms.

use std::process::Command;
use std::{env, fs};

use sluicegate::store::script::{CHECK, SETTLE, SLOTS, Script};
use sluicegate::store::{Class, StoreError};

use super::support::redis::{Reply, Server};

const FLAGS: &str = "#!lua flags=allow-key-locking\n";

/// FIELD-REPORTS B08: missing or refused somewhere (traefik/traefik#13824 on Dragonfly, otovo/redis-rate-limiters#11
/// and cristipufu/aspnetcore-redis-rate-limiting#154 on ElastiCache Serverless), or slow and lossy.
const BANNED: [&str; 10] = [
    "table.maxn",
    "os.",
    "cjson",
    "cmsgpack",
    "struct.",
    "bit.",
    "loadstring",
    "math.random",
    "setmetatable",
    "%.14g",
];

/// The standard functions that scripts may name; all are in Lua 5.1, and but for `unpack` in every later one.
const KNOWN: [&str; 10] = [
    "string.byte",
    "string.char",
    "string.format",
    "string.gmatch",
    "string.lower",
    "string.match",
    "string.sub",
    "table.concat",
    "math.ceil",
    "math.floor",
];

/// Words that need a reason, with how often a script may hold them, in code.
const RATIONED: [(&str, &str, usize); 5] = [
    // MGET takes the keys as arguments.
    ("check.lua", "unpack", 1),
    // The store's clock: where a policy asks for it, and as the arbiter.
    ("check.lua", "'TIME'", 1),
    ("settle.lua", "unpack", 1),
    ("settle.lua", "'TIME'", 1),
    // By which alone its leases begin and end.
    ("slots.lua", "'TIME'", 1),
];

/// Name and text of each script.
fn scripts() -> Vec<(String, String)> {
    let entries = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/lua")).expect("lua/");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let named = |path: std::path::PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("a script"))
    };
    files.filter(|path| path.extension().is_some_and(|ext| ext == "lua")).map(named).collect()
}

/// Its lines without comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n")
}

#[test]
fn nothing_is_used_that_some_store_lacks() {
    for (name, text) in scripts() {
        let code = code(&text);
        for word in BANNED {
            assert!(!code.contains(word), "{name}: {word}");
        }
        for library in ["string.", "math.", "table."] {
            for (at, _) in code.match_indices(library) {
                let found = KNOWN.iter().any(|known| code[at..].starts_with(known));
                let end = code[at..].find('\n').unwrap_or(code.len() - at);
                assert!(found, "{name}: {}", &code[at..at + end]);
            }
        }
    }
}

#[test]
fn what_needs_a_reason_is_used_as_often_as_it_has_one() {
    let scripts = scripts();
    for (name, word, times) in RATIONED {
        let (_, text) = scripts.iter().find(|(own, _)| own == name).expect("a script of that name");
        assert_eq!(code(text).matches(word).count(), times, "{name}: {word}");
    }
    for (name, text) in &scripts {
        for word in ["unpack", "TIME"] {
            let rationed =
                RATIONED.iter().any(|(own, known, _)| own == name && known.trim_matches('\'') == word);
            assert!(rationed || !code(text).contains(word), "{name}: {word}, without a reason");
        }
    }
}

#[test]
fn every_script_opens_with_its_contract() {
    for (name, text) in scripts() {
        let contract: Vec<&str> = text.lines().take_while(|line| line.starts_with("--")).collect();
        for part in ["-- KEYS[", "-- ARGV[", "-- Reply: ", "-- Invariants: "] {
            assert!(contract.iter().any(|line| line.starts_with(part)), "{name}: no {part:?} at the top");
        }
    }
}

#[test]
fn every_write_carries_its_ttl() {
    for (name, text) in scripts() {
        for line in code(&text).lines().filter(|line| line.contains("'SET'")) {
            assert!(line.contains("'PX'"), "{name}: {line}");
        }
    }
}

#[test]
fn the_forms_and_their_hashes_are_what_a_redis_says() {
    let server = Server::start();
    let mut client = server.client();
    for Script { redis, redis_sha, upstash, upstash_sha } in [CHECK, SETTLE, SLOTS] {
        assert_eq!(client.call(&["SCRIPT", "LOAD", redis]).text(), redis_sha);
        assert_eq!(upstash, format!("{FLAGS}{redis}"));
        // Why there are two: a plain Redis knows no such flag.
        let Reply::Error(refused) = client.try_call(&["SCRIPT", "LOAD", upstash]).expect("a reply") else {
            panic!("it takes the line");
        };
        assert_eq!(StoreError::of_text(&refused, 400).class, Class::Dialect, "{refused}");
        // SHA-1 of what Upstash is sent, by Redis's own hand.
        let sha = client.call(&["EVAL", "return redis.sha1hex(ARGV[1])", "0", upstash]);
        assert_eq!(sha.text(), upstash_sha);
    }
}

#[test]
fn a_named_server_that_is_not_there_is_not_replaced_by_another() {
    let mut tests = Command::new(env::current_exe().expect("a path"));
    tests.args(["--exact", "hygiene::the_forms_and_their_hashes_are_what_a_redis_says"]);
    let run = tests.env("SLUICEGATE_REDIS", "/nowhere/a-server").output().expect("a run");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(!run.status.success() && said.contains("SLUICEGATE_REDIS=/nowhere/a-server: "), "{said}");
}

#[test]
fn comments_do_not_travel() {
    for (Script { redis, .. }, most) in [(CHECK, 14_500), (SETTLE, 5_500), (SLOTS, 6_000)] {
        assert!(!redis.contains("--"), "{redis}");
        assert!(redis.len() < most, "{} bytes with every EVAL", redis.len());
    }
}
