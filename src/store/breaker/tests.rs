use super::*;

const CONFIG: Config = Config {
    window_ms: 10_000,
    min_calls: 5,
    failure_rate: 0.5,
    slow_ms: 100,
    slow_rate: 0.8,
    open_ms: 1_000,
    max_open_ms: 8_000,
    long_open_ms: 60_000,
    probes: 2,
};

fn call(breaker: &mut Breaker, ending: Ending, now: u64) -> bool {
    match breaker.permit(now, now + 150) {
        Err(_) => false,
        Ok(permit) => {
            breaker.end(permit, ending, now, 0.999);
            true
        }
    }
}

fn opened(now: u64) -> Breaker {
    let mut breaker = Breaker::new(CONFIG);
    for _ in 0..5 {
        assert!(call(&mut breaker, Ending::Failed, now));
    }
    assert_eq!(breaker.phase(now), Phase::Open);
    breaker
}

#[test]
fn opens_on_failures_and_closes_on_probes() {
    let mut breaker = opened(0);
    assert!(!call(&mut breaker, Ending::Answered(1), 998));
    assert!(call(&mut breaker, Ending::Answered(1), 1_000));
    assert_eq!(breaker.phase(1_000), Phase::HalfOpen);
    assert!(call(&mut breaker, Ending::Answered(1), 1_000));
    assert_eq!(breaker.phase(1_000), Phase::Closed);
}

#[test]
fn too_few_calls_say_nothing() {
    let mut breaker = Breaker::new(CONFIG);
    for _ in 0..4 {
        call(&mut breaker, Ending::Failed, 0);
    }
    assert_eq!(breaker.phase(0), Phase::Closed);
    // ... and what lies outside the window is forgotten.
    assert!(call(&mut breaker, Ending::Failed, 20_000));
    assert_eq!(breaker.phase(20_000), Phase::Closed);
}

#[test]
fn opens_on_slowness() {
    let mut breaker = Breaker::new(CONFIG);
    for _ in 0..5 {
        call(&mut breaker, Ending::Answered(101), 0);
    }
    assert_eq!(breaker.phase(0), Phase::Open);
}

#[test]
fn open_time_grows_to_its_bound() {
    let mut breaker = opened(0);
    let mut now = 0;
    let mut times = Vec::new();
    for _ in 0..6 {
        let wait = breaker.opens_in_ms(now);
        times.push(wait);
        now += wait;
        assert!(call(&mut breaker, Ending::Failed, now));
    }
    for (time, most) in times.iter().zip([1_000, 2_000, 4_000, 8_000, 8_000, 8_000]) {
        assert!(*time <= most && *time >= most / 2, "{times:?}");
    }
}

#[test]
fn what_cannot_be_mended_opens_at_once_and_for_long() {
    let mut breaker = Breaker::new(CONFIG);
    call(&mut breaker, Ending::Hopeless, 0);
    assert!(breaker.opens_in_ms(0) >= 30_000);
    let mut breaker = Breaker::new(CONFIG);
    call(&mut breaker, Ending::LeaveAlone(7_000), 0);
    assert!(breaker.opens_in_ms(0) >= 7_000);
}

#[test]
fn half_open_lets_out_no_more_than_its_probes() {
    let mut breaker = opened(0);
    let probes: Vec<_> = (0..50).filter_map(|_| breaker.permit(1_000, 1_150).ok()).collect();
    assert_eq!(probes.len(), 2);
}

#[test]
fn a_lost_probe_gives_its_permit_back() {
    let mut breaker = opened(0);
    let lost = breaker.permit(1_000, 1_150).unwrap();
    breaker.permit(1_000, 1_150).unwrap();
    assert!(breaker.permit(2_150, 2_300).is_err());
    assert!(breaker.permit(2_151, 2_301).is_ok());
    // Too late: it neither closes nor opens.
    breaker.end(lost, Ending::Failed, 2_152, 0.0);
    assert_eq!(breaker.phase(2_152), Phase::HalfOpen);
}

#[test]
fn another_form_of_a_call_does_not_go_around() {
    let mut breaker = Breaker::new(CONFIG);
    let early = breaker.permit(0, 150).unwrap();
    assert_eq!(breaker.renew(early, 1, 150), Ok(early));
    for _ in 0..5 {
        call(&mut breaker, Ending::Failed, 1);
    }
    assert!(breaker.renew(early, 2, 150).is_err());
}

#[test]
fn an_ending_from_before_the_change_does_not_count() {
    let mut breaker = Breaker::new(CONFIG);
    let early: Vec<_> = (0..10).map(|_| breaker.permit(0, 150).unwrap()).collect();
    for permit in &early {
        breaker.end(*permit, Ending::Failed, 150, 0.0);
    }
    let until = breaker.opens_in_ms(150);
    assert!(until <= 1_000, "opened once, not twice: {until}");
}

#[test]
fn a_clock_at_zero_or_going_back_does_no_harm() {
    // Report: workerd 6839, the clock reads 0 at module load.
    let mut breaker = opened(0);
    assert!(!call(&mut breaker, Ending::Answered(1), 0));
    let mut breaker = opened(50_000);
    assert!(!call(&mut breaker, Ending::Answered(1), 0));
    assert!(call(&mut breaker, Ending::Answered(1), 51_000));
}

/// One that is open until `until`, drawn with this chance.
fn drawn(ending: Ending, random: f64) -> u64 {
    let mut breaker = Breaker::new(Config { min_calls: 1, ..CONFIG });
    let permit = breaker.permit(0, 150).unwrap();
    breaker.end(permit, ending, 0, random);
    let until = breaker.opens_in_ms(0);
    assert_eq!((breaker.phase(until - 1), breaker.phase(until)), (Phase::Open, Phase::HalfOpen));
    until
}

#[test]
fn half_of_the_time_is_certain_and_half_by_chance() {
    assert_eq!([0.0, 0.5, 1.0].map(|random| drawn(Ending::Failed, random)), [500, 750, 1_000]);
    assert_eq!([0.0, 0.5, 1.0].map(|random| drawn(Ending::Hopeless, random)), [30_000, 45_000, 60_000]);
    // What the store said is kept in full.
    assert_eq!([0.0, 0.5].map(|random| drawn(Ending::LeaveAlone(8_000), random)), [8_000, 10_000]);
    assert_eq!([1, 900_000].map(|ms| drawn(Ending::LeaveAlone(ms), 0.0)), [1_000, 60_000]);
}

#[test]
fn calls_are_counted_by_how_they_ended() {
    let mut breaker = Breaker::new(CONFIG);
    for ending in [Ending::Answered(100), Ending::Answered(101), Ending::Failed, Ending::Neutral] {
        call(&mut breaker, ending, 7_000);
    }
    assert_eq!(breaker.counts(), (3, 1, 1));
    call(&mut breaker, Ending::Answered(1), 16_999);
    assert_eq!(breaker.counts(), (4, 1, 1));
    breaker.permit(17_000, 17_150).unwrap();
    assert_eq!(breaker.counts(), (1, 0, 0), "a window later");
}

#[test]
fn an_answer_in_time_is_not_slow() {
    let mut breaker = Breaker::new(CONFIG);
    for _ in 0..50 {
        call(&mut breaker, Ending::Answered(100), 0);
    }
    assert_eq!(breaker.phase(0), Phase::Closed);
}

#[test]
fn a_slow_probe_opens_again_and_one_that_says_nothing_is_repeated() {
    let mut breaker = opened(0);
    assert!(call(&mut breaker, Ending::Answered(101), 1_000));
    assert_eq!(breaker.phase(1_000), Phase::Open);
    let mut breaker = opened(0);
    for ending in [Ending::Neutral, Ending::Answered(100), Ending::Neutral] {
        assert!(call(&mut breaker, ending, 1_000));
        assert_eq!(breaker.phase(1_000), Phase::HalfOpen);
    }
    assert!(call(&mut breaker, Ending::Answered(100), 1_000));
    assert_eq!((breaker.phase(1_000), breaker.counts()), (Phase::Closed, (0, 0, 0)));
}

#[test]
fn a_window_of_good_calls_makes_the_next_opening_a_first_one() {
    for (good, most) in [(4, 2_000), (5, 1_000)] {
        let mut breaker = opened(0);
        for _ in 0..2 {
            assert!(call(&mut breaker, Ending::Answered(1), 1_000));
        }
        for _ in 0..good {
            assert!(call(&mut breaker, Ending::Answered(1), 1_000));
        }
        while breaker.phase(1_000) == Phase::Closed {
            call(&mut breaker, Ending::Failed, 1_000);
        }
        let wait = breaker.opens_in_ms(1_000);
        assert!(wait > most * 9 / 10 && wait <= most, "{good} good calls, then {wait} ms");
    }
}

#[test]
fn what_went_well_is_never_bad() {
    let mut breaker = Breaker::new(Config { failure_rate: 0.0, slow_rate: 0.0, ..CONFIG });
    for _ in 0..50 {
        call(&mut breaker, Ending::Answered(1), 0);
    }
    assert_eq!(breaker.phase(0), Phase::Closed);
}

#[test]
fn phases_have_the_words_of_the_field() {
    let words = [Phase::Closed, Phase::Open, Phase::HalfOpen].map(Phase::word);
    assert_eq!(words, ["closed", "open", "half-open"]);
}
