//! Sluicegate: an edge rate limiter as a Cloudflare Worker.
//!
//! The crate is sans-io: everything but [`entry`] takes the time and plain values as arguments and runs on the host.
//! The entry hands requests over to [`gateway`] and does what the returned [`gateway::Step`] says.

// A panic resets the isolate's Wasm, and with it everybody's local state: nothing on the request path may.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::arithmetic_side_effects,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

pub mod gateway;
pub mod limit;
pub mod local;
pub mod policy;
pub mod store;
pub mod subject;

#[cfg(target_arch = "wasm32")]
mod entry;
#[cfg(target_arch = "wasm32")]
mod panic;

/// The policy compiled in, as JSON; `build.rs` has validated it.
pub const BUILT_IN_POLICY: &str = include_str!(concat!(env!("OUT_DIR"), "/policy.json"));
