//! docs/algorithms.md and its pictures, from the limiter itself: what a client that asks without a pause gets of each
//! algorithm around the edge of a window.
//!
//! `SLUICEGATE_WRITE=1 cargo test --test algorithms` writes them anew.

mod plot;

use std::{env, fs, path::Path};

use sluicegate::limit::{Check, Quota, State, decide};
use sluicegate::policy::Algorithm;

/// A start of a window of a minute, in ms since 1970.
const BEGIN: u64 = 1_800_000_000_000;

/// 60 a minute, by any of them.
const LIMIT: u64 = 60;
const WINDOW_MS: u64 = 60_000;

/// The client comes out of the blue in the middle of a minute and asks four times a second, for two minutes and more.
const FIRST_MS: u64 = 30_000;
const LAST_MS: u64 = 180_000;
const EVERY_MS: u64 = 250;

/// One algorithm as it is drawn.
struct Case {
    name: &'static str,
    quota: Quota,
}

fn cases() -> [Case; 5] {
    let of = |name, algorithm, burst| Case {
        name,
        quota: Quota { algorithm, limit: LIMIT, burst, window_ms: WINDOW_MS },
    };
    [
        of("fixed-window", Algorithm::FixedWindow, LIMIT),
        of("sliding-window", Algorithm::SlidingWindow, LIMIT),
        of("sliding-log", Algorithm::SlidingLog, LIMIT),
        of("token-bucket, burst = 60", Algorithm::TokenBucket, 60),
        of("token-bucket, burst = 10", Algorithm::TokenBucket, 10),
    ]
}

/// What became of each request, in order: when it came, in ms from [`BEGIN`], and whether it passed.
fn asked(quota: Quota) -> Vec<(u64, bool)> {
    let mut state: Option<State> = None;
    (FIRST_MS..=LAST_MS)
        .step_by(EVERY_MS as usize)
        .map(|at| {
            let state_now = state.clone();
            let check = Check {
                quota,
                cost: 1,
                shadow: false,
                state: state_now,
                holder: None,
                ahead_ms: None,
                more: 0,
            };
            let decision = decide(&[check], BEGIN + at);
            if let [Some(write)] = decision.writes.as_slice() {
                state = Some(write.clone());
            }
            (at, decision.allowed)
        })
        .collect()
}

/// The most that passed in any minute.
fn most(requests: &[(u64, bool)]) -> usize {
    let passed: Vec<u64> = requests.iter().filter(|(_, passed)| *passed).map(|(at, _)| *at).collect();
    let within = |from: u64| passed.iter().filter(|at| (from..from + WINDOW_MS).contains(*at)).count();
    passed.iter().map(|from| within(*from)).max().unwrap_or(0)
}

/// The longest that nothing passed for, after the first had, in ms.
fn longest_gap(requests: &[(u64, bool)]) -> u64 {
    let passed: Vec<u64> = requests.iter().filter(|(_, passed)| *passed).map(|(at, _)| *at).collect();
    passed.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
}

fn held(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(file);
    if env::var_os("SLUICEGATE_WRITE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == text,
        "docs/{file} is not what the code does: SLUICEGATE_WRITE=1 cargo test --test algorithms"
    );
}

#[test]
fn the_picture_is_what_the_code_does() {
    let panels: Vec<plot::Panel> = cases()
        .iter()
        .map(|case| {
            let requests = asked(case.quota);
            let most = most(&requests);
            let gap = longest_gap(&requests) as f64 / 1000.0;
            plot::Panel {
                name: case.name,
                note: format!("at most {most} in a minute, longest pause {gap} s"),
                requests,
            }
        })
        .collect();
    held("pictures/window-edge.svg", &plot::svg(&panels, FIRST_MS, LAST_MS, WINDOW_MS));
}

#[test]
fn the_table_is_what_the_code_does() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/algorithms.md")).unwrap();
    let rows: Vec<String> = cases()
        .iter()
        .map(|case| {
            let requests = asked(case.quota);
            let by = |until: u64| requests.iter().filter(|(at, passed)| *passed && *at < until).count();
            let (half, next) = (by(WINDOW_MS), by(2 * WINDOW_MS) - by(WINDOW_MS));
            let third = by(3 * WINDOW_MS) - half - next;
            let gap = longest_gap(&requests) as f64 / 1000.0;
            format!("| `{}` | {half} | {next} | {third} | {} | {gap} s |", case.name, most(&requests))
        })
        .collect();
    let table = rows.join("\n");
    assert!(page.contains(&table), "docs/algorithms.md has another table than:\n{table}");
}

#[test]
fn bounds_that_the_page_states_hold() {
    for case in cases() {
        let most = most(&asked(case.quota)) as u64;
        let bound = match case.quota.algorithm {
            Algorithm::FixedWindow => 2 * LIMIT,
            Algorithm::TokenBucket => case.quota.burst + LIMIT,
            Algorithm::SlidingLog => LIMIT,
            _ => 2 * LIMIT - 1,
        };
        assert!(most <= bound, "{}: {most} in a minute, more than {bound}", case.name);
    }
}
