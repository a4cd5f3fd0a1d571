//! The scripts, compiled in with their hashes by build.rs.

/// One Lua script in the two forms that stores want.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    /// For a plain Redis.
    pub redis: &'static str,
    /// SHA-1 of that, lower-case hex.
    pub redis_sha: &'static str,
    /// For Upstash: opens with `#!lua flags=allow-key-locking`, without which every `EVAL` locks the whole database.
    pub upstash: &'static str,
    /// SHA-1 of that, lower-case hex.
    pub upstash_sha: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/scripts.rs"));
