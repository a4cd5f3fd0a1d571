use super::*;
use crate::policy::Algorithm;

const NOW: u64 = 1_785_432_000_000;
const QUOTA: Quota = Quota { algorithm: Algorithm::FixedWindow, limit: 100, burst: 100, window_ms: 60_000 };
const BATCH: Batch = Batch { units: 10, ttl_ms: 5_000 };
const COMING: Term = Term { from_ms: NOW, until_ms: NOW + 1_150 };
const TERM: Term = Term { from_ms: NOW, until_ms: NOW + 5_000 };

fn key(subject: &str) -> Key {
    Key { stem: "limit".into(), subject: subject.into() }
}

/// Permits of which a batch of `units` has come for a subject.
fn holding(units: u64) -> Permits {
    let mut permits = Permits::default();
    let wanted = permits.want(&key("a"), &QUOTA, BATCH, 1, COMING).expect("a batch");
    permits.note(&key("a"), &QUOTA, &verdict(100, 50), NOW);
    permits.grant(&key("a"), wanted.id, units, TERM);
    permits.heard(&key("a"), wanted.id);
    permits
}

fn verdict(limit: u64, remaining: u64) -> Verdict {
    Verdict { limit, remaining, reset_ms: 30_000, wait: Wait::None }
}

fn spend(permits: &mut Permits, cost: u64, now_ms: u64) -> bool {
    let held = permits.hold(&key("a"), &QUOTA, cost, now_ms);
    held.map(|(held, _)| permits.spend(held)).is_some()
}

fn assert_adds_up(permits: &mut Permits, now_ms: u64) {
    let counts = permits.counts(now_ms);
    assert_eq!(counts.granted, counts.spent + counts.lapsed + counts.in_hand(), "{counts:?}");
}

#[test]
fn spent_to_the_last_and_no_further() {
    let mut permits = holding(4);
    assert!(!spend(&mut permits, 5, NOW), "as many at once as there are");
    assert!(!spend(&mut permits, 0, NOW), "a look asks the store");
    assert!(spend(&mut permits, 2, NOW) && spend(&mut permits, 1, NOW) && spend(&mut permits, 1, NOW));
    assert!(!spend(&mut permits, 1, NOW));
    let counts = permits.counts(NOW);
    assert_eq!((counts.batches, counts.granted, counts.spent, counts.in_hand()), (1, 4, 4, 0));
}

#[test]
fn what_is_held_is_nobody_elses_and_goes_back_unspent() {
    let mut permits = holding(2);
    let (held, said) = permits.hold(&key("a"), &QUOTA, 2, NOW + 1_000).expect("two");
    assert_eq!(said, Verdict { remaining: 50, reset_ms: 29_000, ..verdict(100, 0) });
    assert!(permits.hold(&key("a"), &QUOTA, 1, NOW).is_none());
    drop(held);
    let (held, said) = permits.hold(&key("a"), &QUOTA, 1, NOW).expect("they are back");
    assert_eq!(said.remaining, 51);
    permits.spend(held);
    assert_eq!(permits.counts(NOW).in_hand(), 1);
}

#[test]
fn permits_end_and_a_clock_that_is_set_back_ends_them_too() {
    assert!(spend(&mut holding(1), 1, NOW + 4_999));
    for now_ms in [NOW + 5_000, NOW - 1] {
        let mut permits = holding(3);
        assert!(!spend(&mut permits, 1, now_ms));
        assert_eq!(permits.counts(now_ms).lapsed, 3);
    }
    // What is held at the end and comes back later lapses as well.
    let mut permits = holding(3);
    let held = permits.hold(&key("a"), &QUOTA, 2, NOW).expect("two").0;
    assert_eq!(permits.counts(NOW + 5_000).lapsed, 1);
    drop(held);
    assert_eq!(permits.counts(NOW + 5_000).lapsed, 3);
}

#[test]
fn the_oldest_are_spent_first_and_no_more_than_a_batch_is_in_hand() {
    let mut permits = holding(3);
    let coming = Term { from_ms: NOW + 1_000, until_ms: NOW + 2_150 };
    let wanted = permits.want(&key("a"), &QUOTA, BATCH, 5, coming).expect("a batch");
    assert_eq!(wanted.more, 2, "three are in hand and five are its own");
    let term = Term { from_ms: NOW + 1_000, until_ms: NOW + 6_000 };
    permits.grant(&key("a"), wanted.id, 2, term);
    permits.heard(&key("a"), wanted.id);
    assert!(spend(&mut permits, 4, NOW + 1_000));
    assert!(spend(&mut permits, 1, NOW + 5_500), "one of the younger is left");
    assert_eq!(permits.counts(NOW + 5_500).lapsed, 0);
}

#[test]
fn one_batch_at_a_time_until_it_counts_as_lost() {
    let mut permits = Permits::default();
    let first = permits.want(&key("a"), &QUOTA, BATCH, 1, COMING).expect("a batch");
    assert_eq!((first.more, permits.want(&key("a"), &QUOTA, BATCH, 1, COMING)), (9, None));
    let later = |from_ms| Term { from_ms, until_ms: from_ms + 1_150 };
    assert_eq!(permits.want(&key("a"), &QUOTA, BATCH, 1, later(NOW + 1_149)), None);
    let second = permits.want(&key("a"), &QUOTA, BATCH, 1, later(NOW + 1_150)).expect("the first is lost");
    permits.grant(&key("a"), first.id, 9, TERM);
    assert_eq!(permits.left(&key("a")), 0, "it is too late");
    permits.heard(&key("a"), first.id);
    assert_eq!(
        permits.want(&key("a"), &QUOTA, BATCH, 1, later(NOW + 1_151)),
        None,
        "the second is under way"
    );
    permits.grant(&key("a"), second.id, 9, TERM);
    assert_eq!(permits.left(&key("a")), 9);
    assert_adds_up(&mut permits, NOW);
    // Also by a clock that was set back.
    let mut permits = Permits::default();
    permits.want(&key("a"), &QUOTA, BATCH, 1, COMING).expect("a batch");
    assert!(permits.want(&key("a"), &QUOTA, BATCH, 1, later(NOW - 1)).is_some());
}

#[test]
fn costs_that_a_batch_does_not_hold_ask_for_none() {
    let mut permits = Permits::default();
    for cost in [0, 10, 11] {
        assert_eq!(permits.want(&key("a"), &QUOTA, BATCH, cost, COMING), None, "{cost}");
    }
    assert_eq!(permits.want(&key("a"), &QUOTA, BATCH, 9, COMING).map(|wanted| wanted.more), Some(1));
}

#[test]
fn permits_are_good_for_their_own_quota() {
    let other = Quota { limit: 200, burst: 200, ..QUOTA };
    let mut permits = holding(2);
    assert!(permits.hold(&key("a"), &other, 1, NOW).is_none());
    assert_eq!(permits.want(&key("a"), &other, BATCH, 1, COMING), None, "while those are in hand");
    assert!(spend(&mut permits, 2, NOW));
    assert!(permits.want(&key("a"), &other, BATCH, 1, COMING).is_some());
}

#[test]
fn what_is_forgotten_is_given_up_and_what_was_under_way_with_it() {
    let mut permits = holding(2);
    let wanted = permits.want(&key("a"), &QUOTA, BATCH, 1, COMING).expect("a batch");
    permits.forget(&key("a"));
    assert!(!spend(&mut permits, 1, NOW));
    permits.grant(&key("a"), wanted.id, 7, TERM);
    assert!(!spend(&mut permits, 1, NOW), "it was taken before");
    assert_eq!(permits.counts(NOW).lapsed, 9);
}

#[test]
fn another_limit_in_force_ends_them() {
    for limit in [0, 50] {
        let mut permits = holding(2);
        permits.note(&key("a"), &QUOTA, &verdict(100, 40), NOW + 1);
        permits.note(&key("a"), &QUOTA, &verdict(limit, 40), NOW);
        assert_eq!(permits.left(&key("a")), 2, "that is older news");
        permits.note(&key("a"), &QUOTA, &verdict(limit, 40), NOW + 1);
        assert_eq!(permits.left(&key("a")), 0);
    }
}

#[test]
fn another_policy_keeps_what_means_the_same() {
    let mut permits = holding(2);
    permits.configure(|stem| (stem == "limit").then_some(BATCH));
    assert_eq!(permits.left(&key("a")), 2);
    permits.configure(|_| Some(Batch { ttl_ms: 1_000, ..BATCH }));
    assert_eq!((permits.left(&key("a")), permits.counts(NOW).lapsed), (0, 2));
}

#[test]
fn a_flood_takes_no_batch_from_those_that_are_known() {
    let mut permits = holding(2);
    let many = || (0..20_000).map(|subject| key(&subject.to_string()));
    let taken = many().filter(|key| permits.want(key, &QUOTA, BATCH, 1, COMING).is_some()).count();
    assert_eq!(taken, CAPACITY - 1);
    assert!(spend(&mut permits, 1, NOW));
    // Those that say nothing any more make room.
    let later = Term { from_ms: NOW + 10_000, until_ms: NOW + 11_150 };
    assert!(permits.want(&key("new"), &QUOTA, BATCH, 1, later).is_some());
    assert_adds_up(&mut permits, NOW + 10_000);
}
