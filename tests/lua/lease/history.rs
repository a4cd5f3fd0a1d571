//! Twenty clients at once on a real Redis, the scripts as they are built in, leases that end in earnest.
//!
//! A client holds a slot for certain from the moment it has the reply to its taking until it sends the freeing, or
//! until its lease must end: so long after the *sending* of the last call that took or renewed it. However the store
//! orders the calls, no more than `limit` of these intervals may overlap. Nothing here waits for time to pass: the
//! clients go on with something else until it has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::limit::Quota;
use sluicegate::limit::waiting::Patience;
use sluicegate::policy::{Algorithm, Clock};
use sluicegate::store::call::{self, Check};
use sluicegate::store::script::{CHECK, SLOTS, Script};
use sluicegate::store::slots::{self, Call, Operation, Said, SlotStems};
use sluicegate::store::{self, Ask, Form, ScriptCall, Stems};

use super::super::random::{Random, seed, setting};
use super::super::support::redis::{Client, Reply, Server};

const CLIENTS: u64 = 20;
/// Operations of all clients, where `SLUICEGATE_STEPS` does not ask for more.
const OPERATIONS: u64 = 10_000;
const LIMIT: u64 = 5;
const LEASE: Duration = Duration::from_millis(20);
/// The store's clock tells whole milliseconds, and a lease may end by one early.
const TICK: Duration = Duration::from_millis(2);

const QUOTA: Quota = Quota {
    algorithm: Algorithm::Concurrency,
    limit: LIMIT,
    burst: LIMIT,
    window_ms: LEASE.as_millis() as u64,
};
const STEMS: SlotStems<'static> =
    SlotStems { holders: "sg:1:l:c:", overrides: "sg:1:l:!:", queue: "sg:1:l:queue:" };

/// A slot, held for certain.
#[derive(Debug, Clone, Copy)]
struct Interval {
    asked: Instant,
    from: Instant,
    until: Instant,
    fence: u64,
}

/// What happens to the store meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// SCRIPT FLUSH now and then.
    Scripts,
    /// FLUSHALL, once, half way.
    Flush,
}

/// The history of a run.
struct History {
    intervals: Vec<Interval>,
    /// Leases that ended without being freed.
    expired: u64,
    /// The most holders that a list has shown.
    listed: u64,
    /// When everything was forgotten.
    flushed: Option<(Instant, Instant)>,
}

struct Actor {
    client: Client,
    random: Random,
    check: Script,
    slots: Script,
    name: u64,
    taken: u64,
    held: Option<(String, Interval)>,
    done: Vec<Interval>,
    expired: u64,
    listed: u64,
}

impl Actor {
    /// Runs a command by its hash and, where the store has forgotten that, by its text: the reply as the REST body.
    fn run(&mut self, body: impl Fn(ScriptCall) -> String) -> String {
        let mut send = |by| {
            let command: Vec<String> = serde_json::from_str(&body(by)).expect("an array of strings");
            self.client.queue(&command);
            self.client.flush().remove(0)
        };
        let reply = match send(ScriptCall::BySha) {
            Reply::Error(text) if text.starts_with("NOSCRIPT") => send(ScriptCall::ByText),
            reply => reply,
        };
        let item = |reply: &Reply| match reply {
            Reply::Int(number) => serde_json::Value::from(*number),
            other => serde_json::Value::from(other.text()),
        };
        let items: Vec<serde_json::Value> = reply.array().iter().map(item).collect();
        serde_json::json!({ "result": items }).to_string()
    }

    fn slot(&mut self, id: &str, operation: Operation) -> Said {
        let script = self.slots;
        let body = self.run(|by| {
            let call =
                Call { form: Form::Redis, by, stems: STEMS, subject: "s", quota: QUOTA, id, operation };
            slots::body(&script, &call)
        });
        slots::read(200, &body, operation).unwrap_or_else(|error| panic!("{body}: {error:?}"))
    }

    /// The fence, where a slot was taken, by a request.
    fn request(&mut self, id: &str) -> Option<u64> {
        let (script, skew) = (self.check, self.random.between(0, 20_000));
        // A clock ten seconds ahead or behind must not matter.
        let epoch =
            std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock past 1970").as_millis() as u64;
        let arguments = call::slot_arguments(&QUOTA, false, id).into();
        let asks = [Ask {
            limit: 0,
            quota: QUOTA,
            arguments,
            subject: "s".into(),
            cost: 1,
            shadow: false,
            ahead_ms: None,
            more: 0,
        }];
        let body = self.run(|by| {
            let now_ms = epoch + skew - 10_000;
            let check =
                Check { form: Form::Redis, by, clock: Clock::Edge, now_ms, asks: &asks, charge: None };
            call::check_body(&script, check, |_| Stems { state: STEMS.holders, overrides: STEMS.overrides })
        });
        match store::read(200, &body, &asks).unwrap_or_else(|error| panic!("{body}: {error:?}")) {
            store::Said::Decided(answered) => answered.fences.first().copied().filter(|fence| *fence > 0),
            said => panic!("a decision is asked for: {said:?}"),
        }
    }

    fn take(&mut self, id: &str) -> Option<u64> {
        let way = self.random.between(0, 9);
        if way < 4 {
            return self.request(id);
        }
        let patience = Patience { wait_ms: 20, patience_ms: 5, most: 30 };
        match self.slot(id, Operation::Take((way < 7).then_some(patience))) {
            Said::Done(done) => Some(done.fence),
            Said::Refused(_) | Said::QueueFull(_) => None,
            other => panic!("{other:?}"),
        }
    }

    fn operate(&mut self, trouble: Trouble) {
        let Some((id, held)) = self.held.take() else {
            self.acquire(trouble);
            return;
        };
        match self.random.between(0, 99) {
            0..25 => {
                let asked = Instant::now();
                match self.slot(&id, Operation::Renew(held.fence)) {
                    Said::Done(done) => {
                        assert_eq!(done.fence, held.fence);
                        let until = held.until.max(asked + LEASE - TICK);
                        self.held = Some((id, Interval { until, ..held }));
                    }
                    Said::NotHeld => {
                        let told = Instant::now();
                        assert!(told >= held.until || trouble == Trouble::Flush, "lost before its end");
                        self.expired += 1;
                        self.done.push(held);
                    }
                    other => panic!("{other:?}"),
                }
            }
            25..35 => {
                // Not mine to free: nothing changes.
                let said = self.slot(&id, Operation::Free(held.fence + 1));
                assert!(matches!(said, Said::OtherFence | Said::NotHeld), "{said:?}");
                self.held = Some((id, held));
            }
            35..42 => {
                let Said::Listed(listed) = self.slot("-", Operation::List) else { panic!("no list") };
                self.listed = self.listed.max(listed.holders.len() as u64);
                self.held = Some((id, held));
            }
            // It vanishes: the lease alone gives the slot back.
            42..50 => {
                self.expired += 1;
                self.done.push(held);
            }
            _ => {
                let freed = Instant::now();
                let said = self.slot(&id, Operation::Free(held.fence));
                assert!(matches!(said, Said::Done(_) | Said::NotHeld), "{said:?}");
                self.done.push(Interval { until: held.until.min(freed), ..held });
                let again = self.slot(&id, Operation::Free(held.fence));
                assert_eq!(again, Said::NotHeld);
            }
        }
    }

    fn acquire(&mut self, trouble: Trouble) {
        // The same id until it gets a slot: so a waiter keeps its place.
        let id = format!("{}-{}", self.name, self.taken);
        let mut asked = Instant::now();
        let Some(mut fence) = self.take(&id) else { return };
        self.taken += 1;
        let (mut from, mut until) = (Instant::now(), asked + LEASE - TICK);
        if self.random.percent(25) {
            // That reply was lost. Where the lease has not ended meanwhile, it is the same slot.
            let again = Instant::now();
            let Some(second) = self.take(&id) else { return };
            if second != fence {
                let ended = Instant::now() > until || trouble == Trouble::Flush;
                assert!(ended, "two slots for one id");
                (asked, fence) = (again, second);
            }
            (from, until) = (Instant::now(), again + LEASE - TICK);
        }
        self.held = Some((id, Interval { asked, from, until, fence }));
    }
}

/// Lets all clients loose.
fn run(server: &Server, (check, slots): (Script, Script), trouble: Trouble) -> History {
    let seed = seed();
    println!("SLUICEGATE_SEED={seed}");
    let operations = setting("SLUICEGATE_STEPS").map_or(OPERATIONS, |steps| steps.max(OPERATIONS));
    server.client().call(&["FLUSHALL"]);
    let count = AtomicU64::new(0);
    let work = |name: u64| {
        let random = Random::new(seed.wrapping_add(name));
        let client = server.client();
        let (held, done) = (None, Vec::new());
        let mut actor =
            Actor { client, random, check, slots, name, taken: 0, held, done, expired: 0, listed: 0 };
        let mut flushed = None;
        loop {
            let number = count.fetch_add(1, Ordering::Relaxed);
            if number >= operations {
                break;
            }
            match trouble {
                Trouble::Scripts if number % 500 == 250 => drop(actor.client.call(&["SCRIPT", "FLUSH"])),
                Trouble::Flush if number == operations / 2 => {
                    let sent = Instant::now();
                    actor.client.call(&["FLUSHALL"]);
                    flushed = Some((sent, Instant::now()));
                }
                _ => {}
            }
            actor.operate(trouble);
        }
        actor.done.extend(actor.held.map(|(_, held)| held));
        (actor.done, actor.expired, actor.listed, flushed)
    };
    let mut history = History { intervals: Vec::new(), expired: 0, listed: 0, flushed: None };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS).map(|name| scope.spawn(move || work(name))).collect();
        for thread in threads {
            let (intervals, expired, listed, flushed) = thread.join().expect("a history");
            history.intervals.extend(intervals);
            history.expired += expired;
            history.listed = history.listed.max(listed);
            history.flushed = history.flushed.or(flushed);
        }
    });
    history
}

/// The most intervals that overlap anywhere.
fn most(intervals: impl Iterator<Item = (Instant, Instant)>) -> u64 {
    let mut edges: Vec<(Instant, bool)> = intervals
        .filter(|(from, until)| from < until)
        .flat_map(|(from, until)| [(from, true), (until, false)])
        .collect();
    // An interval ends before the next begins at the same moment.
    edges.sort();
    let (mut now, mut most) = (0, 0);
    for (_, begins) in edges {
        if begins {
            now += 1
        } else {
            now -= 1
        }
        most = most.max(now);
    }
    most
}

/// Every fence is higher than all that were told before it was asked for, and none was given twice.
fn fences_rise(intervals: &[Interval]) {
    let mut by_asked = intervals.to_vec();
    let mut by_told = intervals.to_vec();
    by_asked.sort_by_key(|interval| interval.asked);
    by_told.sort_by_key(|interval| interval.from);
    let mut told = by_told.iter().peekable();
    let mut highest = 0;
    for interval in &by_asked {
        while let Some(before) = told.next_if(|before| before.from < interval.asked) {
            highest = highest.max(before.fence);
        }
        assert!(interval.fence > highest, "{interval:?} after {highest}");
    }
    let mut all: Vec<u64> = intervals.iter().map(|interval| interval.fence).collect();
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "a fence was given twice");
}

#[test]
fn never_more_than_the_limit_hold_whatever_happens() {
    let server = Server::start();
    let history = run(&server, (CHECK, SLOTS), Trouble::Scripts);
    let all = history.intervals.iter().map(|interval| (interval.from, interval.until));
    assert_eq!((most(all), history.listed), (LIMIT, LIMIT), "all slots are used, and no more");
    fences_rise(&history.intervals);
    let (taken, expired) = (history.intervals.len(), history.expired);
    println!("{taken} slots taken, {expired} expired");
    assert!(taken > 300 && expired > 30, "{taken} taken and {expired} expired prove little");
}

#[test]
fn after_a_flush_twice_the_limit_hold_for_a_lease_at_most() {
    let server = Server::start();
    let history = run(&server, (CHECK, SLOTS), Trouble::Flush);
    let (sent, told) = history.flushed.expect("a flush half way");
    fences_rise(&history.intervals);
    let all = || history.intervals.iter();
    assert!(most(all().map(|interval| (interval.from, interval.until))) <= 2 * LIMIT);
    assert!(most(all().map(|interval| (interval.from, interval.until.min(sent)))) <= LIMIT);
    assert!(most(all().map(|interval| (interval.from.max(told + LEASE), interval.until))) <= LIMIT);
    let after = all().filter(|interval| interval.asked > told).count();
    assert!(after > 100, "{after} after the flush prove little");
}

/// The checker can tell: scripts that give one slot too many are found out.
#[test]
fn one_slot_too_many_is_noticed() {
    let server = Server::start();
    let mistaken = |script: Script, from: &str, to: &str| {
        assert_eq!(script.redis.matches(from).count(), 1);
        let text: &'static str = script.redis.replace(from, to).leak();
        let sha =
            server.client().call(&["EVAL", "return redis.sha1hex(ARGV[1])", "0", text]).text().to_owned();
        Script { redis: text, redis_sha: sha.leak(), ..script }
    };
    let check = mistaken(CHECK, "if living >= limit and not", "if living > limit and not");
    let slots = mistaken(SLOTS, "limit - living > ahead", "limit - living >= ahead");
    let server = Server::start();
    let history = run(&server, (check, slots), Trouble::Flush);
    let (sent, _) = history.flushed.expect("a flush half way");
    let before = history.intervals.iter().map(|interval| (interval.from, interval.until.min(sent)));
    assert!(most(before) > LIMIT);
}
