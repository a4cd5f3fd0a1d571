//! A hundred waiters, of whom many die in the queue: order is kept, nobody is passed over, no dead head blocks.

use super::super::random::{Random, seed};
use super::super::support::redis::Server;
use super::play::{Lane, Stage};
use super::trace::{Act, BASE_FENCE, Item, Step, Trace};

const WAITERS: usize = 100;
/// For how long a place is kept.
const PATIENCE_MS: u64 = 1_000;
/// A whole wait; longer than all of it takes.
const WAIT_MS: u64 = 3_600_000;
/// Every waiter asks once in a round; two rounds are within its patience.
const ROUND_MS: u64 = 450;
/// How long a slot is held; now and then its holder vanishes, and the lease has to end.
const HELD_MS: u64 = 400;

/// A slot that somebody has.
struct Holder {
    id: String,
    fence: i64,
    until: Option<u64>,
}

struct Crowd {
    stage: Stage,
    lane: Lane,
    at: u64,
}

impl Crowd {
    fn step(&mut self, act: Act) -> Vec<Item> {
        let step = Step { at: self.at, act, ..Step::default() };
        self.stage.play(&mut self.lane, &step).unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// The fence, where the slot was given.
    fn ask(&mut self, id: &str, waits: bool) -> Option<i64> {
        let wait = waits.then_some((WAIT_MS, PATIENCE_MS, WAITERS as u64));
        match self.step(Act::Take { id: id.to_owned(), wait }).as_slice() {
            [Item::Number(1), Item::Number(fence), ..] => Some(fence - BASE_FENCE as i64),
            [Item::Number(0), ..] => None,
            other => panic!("{other:?}"),
        }
    }
}

fn shuffled<T>(random: &mut Random, all: &mut [T]) {
    for index in (1..all.len()).rev() {
        all.swap(index, random.between(0, index as u64) as usize);
    }
}

/// Plays it with so many slots; who got one, in that order, and who died.
fn crowd(slots: usize, random: &mut Random, server: &Server) -> (Vec<usize>, Vec<usize>) {
    let mut stage = Stage::new(server.client());
    let lane = stage.lane(&Trace { limits: vec![format!("concurrency({slots}/1s)")], ..Trace::default() });
    let mut crowd = Crowd { stage, lane, at: 1 };
    let mut holders = Vec::new();
    for slot in 0..slots {
        let id = format!("first-{slot}");
        let fence = crowd.ask(&id, false).expect("the first slots are free");
        holders.push(Holder { id, fence, until: Some(HELD_MS) });
    }
    let mut alive: Vec<usize> = Vec::new();
    for waiter in 0..WAITERS {
        crowd.at += 1;
        assert_eq!(crowd.ask(&format!("w{waiter}"), true), None);
        alive.push(waiter);
    }
    let (mut served, mut dead) = (Vec::new(), Vec::new());
    let mut free_since = None;
    while !alive.is_empty() {
        crowd.at += ROUND_MS;
        let now = crowd.at;
        for holder in std::mem::take(&mut holders) {
            match holder.until {
                Some(until) if until <= now => drop(crowd.step(Act::Free(holder.id, holder.fence))),
                None if crowd.lane.model.subjects[0].holders().lease(&holder.id, now_ms(now)).is_none() => {}
                _ => holders.push(holder),
            }
        }
        // The oldest are the likeliest to have given up. While a slot is free none does, so that it is told below for
        // how long one blocks.
        for place in (0..alive.len().min(4)).rev() {
            if free_since.is_none() && random.percent(20) {
                dead.push(alive.remove(place));
            }
        }
        let mut order = alive.clone();
        shuffled(random, &mut order);
        for waiter in order {
            // Who does not wait overtakes nobody.
            if random.percent(10) && alive.len() > slots {
                assert_eq!(crowd.ask("passer-by", false), None);
            }
            let id = format!("w{waiter}");
            let Some(fence) = crowd.ask(&id, true) else { continue };
            let place = alive.iter().position(|other| *other == waiter).expect("one who waits");
            assert!(place < slots, "{waiter} overtook {place} others");
            alive.remove(place);
            served.push(waiter);
            let until = (!random.percent(15)).then_some(now + HELD_MS);
            holders.push(Holder { id, fence, until });
        }
        // A slot stays free for no longer than a dead head's place is kept.
        if holders.len() == slots || alive.is_empty() {
            free_since = None;
        } else {
            let since = *free_since.get_or_insert(now);
            assert!(now - since <= PATIENCE_MS, "a slot is free since {} ms", now - since);
        }
    }
    (served, dead)
}

fn now_ms(at: u64) -> u64 {
    super::trace::BASE_MS + at
}

#[test]
fn a_hundred_waiters_are_served_in_their_order() {
    let server = Server::start();
    let seed = seed();
    println!("SLUICEGATE_SEED={seed}");
    let mut random = Random::new(seed);
    for slots in [1, 4] {
        let (served, dead) = crowd(slots, &mut random, &server);
        assert_eq!(served.len() + dead.len(), WAITERS, "somebody was passed over");
        assert!(dead.len() >= 5, "{} dead prove little", dead.len());
        if slots == 1 {
            assert!(served.is_sorted(), "{served:?}");
        }
    }
}
