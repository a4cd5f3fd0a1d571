use super::*;
use crate::limit::Wait;

const NOW: u64 = 1_785_432_000_000;
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog];

fn quota(limit: u64) -> Quota {
    Quota { algorithm: Algorithm::TokenBucket, limit, burst: limit, window_ms: 60_000 }
}

fn key(subject: &str) -> Key {
    Key { stem: "limit".into(), subject: subject.into() }
}

fn ask(subject: &str, limit: u64) -> LocalAsk {
    LocalAsk { key: key(subject), quota: quota(limit), cost: 1, shadow: false, holder: None, ahead_ms: None }
}

fn allowed(table: &mut Table, key: &str, limit: u64, times: usize, now: u64) -> usize {
    (0..times).filter(|_| table.decide(&[ask(key, limit)], now).allowed).count()
}

#[test]
fn counts_exactly() {
    let mut table = Table::new(10);
    assert_eq!(allowed(&mut table, "a", 20, 40, NOW), 20);
}

#[test]
fn all_or_nothing() {
    let mut table = Table::new(10);
    for _ in 0..5 {
        table.decide(&[ask("a", 3), ask("b", 10)], NOW);
    }
    let decision = table.decide(&[LocalAsk { cost: 0, ..ask("b", 10) }], NOW);
    assert_eq!((decision.verdicts[0].remaining, decision.verdicts[0].wait), (7, Wait::None));
}

#[test]
fn never_larger_than_its_bound() {
    // FIELD-REPORTS B48: an unbounded map in an isolate.
    let mut table = Table::new(1000);
    for subject in 0..200_000_u64 {
        table.decide(&[ask(&subject.to_string(), 3)], NOW + subject);
        assert!(table.len() <= 1000);
    }
    assert!(table.bytes() <= 1000 * (OVERHEAD + 8));
}

#[test]
fn bytes_are_bounded_too() {
    let mut table = Table::new(100_000);
    let log = Quota { algorithm: Algorithm::SlidingLog, limit: 10_000, burst: 10_000, window_ms: 3_600_000 };
    let mut long = State::idle(&log, NOW);
    for charge in 0..1_000 {
        long.charge(&log, 1, NOW + charge);
    }
    for subject in 0..1_500_u64 {
        table.keep(&key(&subject.to_string()), long.clone(), &log, NOW + 1_000);
    }
    // The bound of docs/failure-modes.md.
    let most = 16 << 20;
    assert!(table.len() < 1_500 && table.bytes() > most / 2, "{} in {}", table.len(), table.bytes());
    assert!(table.bytes() <= most, "{}", table.bytes());
    let counted: usize = table.entries.iter().map(|(key, entry)| size(key, entry)).sum();
    assert_eq!(table.bytes(), counted);
}

#[test]
fn a_flood_frees_no_known_subject_and_locks_none_out() {
    let mut table = Table::new(100);
    assert_eq!(allowed(&mut table, "attacker", 5, 10, NOW), 5);
    assert_eq!(allowed(&mut table, "customer", 5, 2, NOW), 2);
    let made_up: usize = (0..10_000)
        .map(|subject| {
            // The two stay in use, as they would.
            table.decide(&[LocalAsk { cost: 0, ..ask("customer", 5) }], NOW);
            table.decide(&[ask("attacker", 5)], NOW);
            allowed(&mut table, &format!("made-up-{subject}"), 5, 1, NOW)
        })
        .sum();
    assert_eq!(made_up, 98 + 5, "as many as found room, then one counter for all");
    assert_eq!(allowed(&mut table, "attacker", 5, 10, NOW), 0);
    assert_eq!(allowed(&mut table, "customer", 5, 10, NOW), 3);
}

#[test]
fn idle_subjects_make_room() {
    let mut table = Table::new(10);
    for subject in 0..10 {
        allowed(&mut table, &subject.to_string(), 5, 5, NOW);
    }
    let later = |subject: u32| allowed(&mut table, &format!("new-{subject}"), 5, 5, NOW + 60_000);
    assert_eq!((0..10).map(later).sum::<usize>(), 50, "each has a count of its own");
}

#[test]
fn warm_from_what_the_store_said() {
    // FIELD-REPORTS B43: a cold fallback gives a free burst.
    for algorithm in ALGORITHMS {
        let quota = Quota { algorithm, limit: 10, burst: 10, window_ms: 60_000 };
        let share = quota.with_limit(5);
        let local = |subject| LocalAsk {
            key: key(subject),
            quota: share,
            cost: 1,
            shadow: false,
            holder: None,
            ahead_ms: None,
        };
        for (remaining, passes) in [(0, 0), (2, 2), (5, 5), (10, 5)] {
            let mut table = Table::new(10);
            table.feed(&key("a"), &share, remaining, NOW);
            let passed = (0..20).filter(|_| table.decide(&[local("a")], NOW).allowed).count();
            assert_eq!(passed, passes, "{algorithm:?} with {remaining} left");
            // At recovery the store, which saw none of it, gives nothing back here.
            table.feed(&key("a"), &share, 10, NOW);
            assert!(!table.decide(&[local("a")], NOW).allowed, "{algorithm:?}");
        }
    }
}

#[test]
fn another_policy_keeps_what_its_limits_count_and_its_own_bound() {
    let mut table = Table::new(1);
    let mut strangers = 0..;
    let mut passes = |table: &mut Table, count| {
        let one = |subject: u32| allowed(table, &subject.to_string(), 5, 1, NOW);
        strangers.by_ref().take(count).map(one).sum::<usize>()
    };
    assert_eq!(passes(&mut table, 9), 1 + 5, "one of its own, then one counter for all");
    table.configure(1, &["limit"]);
    assert_eq!(passes(&mut table, 9), 0);
    table.configure(1, &["other"]);
    assert_eq!(passes(&mut table, 9), 5, "their limit was gone meanwhile");
    table.configure(3, &["limit"]);
    assert_eq!(passes(&mut table, 9), 2, "as many as find room now");
    table.configure(0, &["limit"]);
    assert_eq!((allowed(&mut table, "new", 5, 9, NOW + 60_000), table.len()), (5, 1));
}

#[test]
fn an_id_counts_once() {
    let mut table = Table::new(10);
    assert!(table.is_empty());
    assert!(table.note("a", 1_000, NOW));
    assert!(!table.is_empty());
    assert!(!table.note("a", 1_000, NOW + 999));
    assert!(table.note("b", 1_000, NOW));
    assert_eq!(table.len(), 2);
}

#[test]
fn what_was_reserved_is_settled_at_what_it_cost() {
    for (cost, units, left) in [(4, 0, 6), (7, 3, 3), (1, -3, 9), (30, 26, 0)] {
        let mut table = Table::new(10);
        let decided = table.decide(&[LocalAsk { cost: 4, ..ask("a", 10) }], NOW);
        let reset_ms = decided.verdicts[0].reset_ms;
        let reservation = Reservation { units: 4, since_ms: NOW, reset_ms, rate: 10 };
        assert_eq!(table.settle(&key("a"), &quota(10), &reservation, cost, NOW), (units, left));
        let look = table.decide(&[LocalAsk { cost: 0, ..ask("a", 10) }], NOW);
        assert_eq!(look.verdicts[0].remaining, left);
    }
}
