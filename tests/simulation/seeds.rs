//! Plays a run for every seed, on all cores, and says how to see a failing one again.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn setting(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a whole number")))
}

/// What each of the seeds came to; the one of `SLUICEGATE_SEED` alone where that is set, and the number of them is
/// `SLUICEGATE_SEEDS` or else `usual`.
pub fn each<T: Send>(usual: u64, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    if let Some(seed) = setting("SLUICEGATE_SEED") {
        return vec![run(seed)];
    }
    let count = setting("SLUICEGATE_SEEDS").unwrap_or(usual);
    let next = AtomicU64::new(0);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= count {
                    return done;
                }
                match catch_unwind(AssertUnwindSafe(|| run(seed))) {
                    Ok(result) => done.push(result),
                    Err(panic) => {
                        eprintln!(
                            "seed {seed} failed; again: SLUICEGATE_SEED={seed} cargo test --test simulation"
                        );
                        next.store(count, Ordering::Relaxed);
                        resume_unwind(panic);
                    }
                }
            }
        };
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
