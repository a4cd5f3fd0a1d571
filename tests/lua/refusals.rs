//! What a server says when it does not run a script, brought about in a real one: the words differ between servers and
//! versions, and each must be known for what it is.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use sluicegate::store::script::{CHECK, SLOTS};
use sluicegate::store::{Class, StoreError};

use super::support::redis::{Client, Reply, Server};

/// Longest that a server may take to come to a state; a machine can be busy.
const SOON: Duration = Duration::from_secs(30);

/// Keys and arguments of a check that charges one token bucket.
const CHARGE: [&str; 10] =
    ["2", "sg:1:a:b1s:x", "sg:1:a:!:x", "1785432109876", "b", "50", "1000", "100", "4000", "1"];

/// The check by its text or its hash.
fn check<'a>(command: &'a str, script: &'a str) -> Vec<&'a str> {
    [command, script].into_iter().chain(CHARGE).collect()
}

/// The check by its text.
fn charge() -> Vec<&'static str> {
    check("EVAL", CHECK.redis)
}

/// Holds what is said to a command against the class it must be known as.
fn refused(client: &mut Client, command: &[&str], class: Class) {
    let reply = client.try_call(command).expect("a reply");
    let Reply::Error(text) = reply else { panic!("no {class:?}: {reply:?}") };
    let told = StoreError::of_text(&text, 400);
    assert!(told.class == class && !told.sign.starts_with("status"), "{told:?} and no {class:?}: {text}");
}

/// Waits until a command says so.
fn until(client: &mut Client, command: &[&str], so: impl Fn(&Reply) -> bool) {
    let deadline = Instant::now() + SOON;
    while !so(&client.try_call(command).expect("a reply")) {
        assert!(Instant::now() < deadline, "{command:?} in vain");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn scripts_that_it_does_not_know_or_take() {
    let server = Server::start();
    let mut client = server.client();
    refused(&mut client, &check("EVALSHA", CHECK.redis_sha), Class::NoScript);
    refused(&mut client, &check("EVAL", CHECK.upstash), Class::Dialect);
    refused(&mut client, &["EVAL", "return +", "0"], Class::Bug);
    refused(&mut client, &["EVAL", "return nil + 1", "0"], Class::Bug);
    refused(&mut client, &["EVALSHA", CHECK.redis_sha], Class::Bug);
    refused(&mut client, &["EVALTEXT", CHECK.redis_sha], Class::Bug);
    client.call(&["SET", "k", "text"]);
    refused(&mut client, &["EVAL", "return redis.call('ZCARD', KEYS[1])", "1", "k"], Class::Bug);
}

#[test]
fn a_database_that_takes_no_writes() {
    let server = Server::start();
    let mut client = server.client();
    for (setting, on, off, class) in
        [("maxmemory", "1", "0", Class::Full), ("min-replicas-to-write", "1", "0", Class::Full)]
    {
        client.call(&["CONFIG", "SET", setting, on]);
        refused(&mut client, &charge(), class);
        client.call(&["CONFIG", "SET", setting, off]);
    }
    // It cannot be saved where a directory stands in the file's place.
    let directory = client.call(&["CONFIG", "GET", "dir"]).array()[1].text().to_owned();
    fs::create_dir(Path::new(&directory).join("dump.rdb")).expect("a directory");
    client.call(&["CONFIG", "SET", "save", "3600 1"]);
    client.call(&["BGSAVE"]);
    until(&mut client, &["INFO", "persistence"], |info| info.text().contains("rdb_last_bgsave_status:err"));
    refused(&mut client, &charge(), Class::Full);
    client.call(&["CONFIG", "SET", "save", ""]);

    client.call(&["REPLICAOF", "127.0.0.1", "1"]);
    refused(&mut client, &charge(), Class::Busy);
    client.call(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    refused(&mut client, &charge(), Class::Busy);
}

#[test]
fn a_database_that_is_occupied() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.call(&["CONFIG", "SET", "lua-time-limit", "1"]);
    let endless = thread::spawn(move || other.try_call(&["EVAL", "while true do end", "0"]));
    until(&mut client, &["PING"], |reply| matches!(reply, Reply::Error(_)));
    refused(&mut client, &charge(), Class::Busy);
    client.call(&["SCRIPT", "KILL"]);
    endless.join().expect("a thread").expect("a reply");
}

#[test]
fn a_database_that_is_still_read_in() {
    let saved = Server::start_with(&["--rdbcompression", "no"]);
    let mut client = saved.client();
    let fill = "for i = 1, 300 do redis.call('SET', i, string.rep('x', 65536)) end";
    client.call(&["EVAL", fill, "0"]);
    client.call(&["SAVE"]);
    let directory = client.call(&["CONFIG", "GET", "dir"]).array()[1].text().to_owned();
    // Between two megabytes it answers; each key takes so many microseconds that there are seconds of it.
    let slow = ["--dir", &directory, "--key-load-delay", "20000"];
    let server = Server::start_with(&slow);
    refused(&mut server.client(), &charge(), Class::Busy);
}

#[test]
fn users_without_the_rights() {
    let server = Server::start();
    let mut client = server.client();
    for (user, rights, command) in [
        ("runs-nothing", ["-evalsha", "~*"], check("EVALSHA", CHECK.redis_sha)),
        ("reads", ["-set", "~*"], charge()),
        ("has-other-keys", ["+ping", "~other:*"], charge()),
    ] {
        let all = ["ACL", "SETUSER", user, "on", "nopass", "+@all"];
        client.call(&[&all[..], &rights].concat());
        let mut theirs = server.client();
        theirs.call(&["AUTH", user, "any"]);
        refused(&mut theirs, &command, Class::Misconfigured);
    }
    client.call(&["CONFIG", "SET", "requirepass", "secret"]);
    let mut stranger = server.client();
    refused(&mut stranger, &["EVALSHA", SLOTS.redis_sha, "0"], Class::Misconfigured);
    refused(&mut stranger, &["AUTH", "wrong"], Class::Misconfigured);
}
