//! What is left of a panic: a line in the log, before the instance traps and is replaced.

use std::panic::PanicHookInfo;

use serde_json::json;

/// Has `log` told of every panic of this instance.
pub fn log_with(log: fn(&str)) {
    std::panic::set_hook(Box::new(move |info| log(&line(info))));
}

/// Where it happened, and what was said where that is literal text: one put together at run time may quote a client.
fn line(info: &PanicHookInfo<'_>) -> String {
    let at = info.location().map(ToString::to_string);
    json!({ "event": "panic", "at": at, "said": info.payload().downcast_ref::<&'static str>() }).to_string()
}

/// Faults on demand, for the tests of what becomes of everybody else. Never in the release.
#[cfg(feature = "provoke-panic")]
pub mod provoked {
    use std::cell::Cell;
    use std::hint::black_box;

    use crate::subject::Platform;

    thread_local! {
        static LATER: Cell<bool> = const { Cell::new(false) };
    }

    /// What the header `x-provoke` of a request asks for.
    #[allow(clippy::panic, reason = "what this is for")]
    pub fn on_receive(platform: &dyn Platform) {
        match platform.header("x-provoke").as_deref() {
            Some("panic") => panic!("provoked"),
            Some("quoting") => panic!("provoked by {:?}", platform.header("authorization")),
            Some("overflow") => drop(deep(0)),
            // No header has such a name: the platform throws, through this frame.
            Some("throw") => drop(platform.header("\n")),
            Some("later") => LATER.set(true),
            _ => {}
        }
    }

    /// Panics at the first store reply after a request that asked for it.
    #[allow(clippy::panic, reason = "what this is for")]
    pub fn on_conclude() {
        if LATER.take() {
            panic!("provoked later");
        }
    }

    fn deep(level: u64) -> u64 {
        if black_box(level) == u64::MAX { level } else { black_box(deep(level.wrapping_add(1))) }
    }
}
