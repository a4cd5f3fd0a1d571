//! Places for requests that wait for their moment: so many of each limit in one isolate, as plain data.
//!
//! A place is taken before the store is asked, since what it grants is reserved in the same call. It is kept until the
//! moment of its request, and is then free by itself: so it is free, too, where the client has left or the platform has
//! dropped the request, of which nobody hears.

use std::collections::BTreeMap;

/// Further ahead no place is kept, in milliseconds: the clock has been set back since.
const LONGEST_MS: u64 = 120_000;

/// A place that was taken: until when, in milliseconds since the Unix epoch, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u64, u32);

#[derive(Debug)]
struct Taken {
    /// The limits it counts for, by their places in the metrics.
    limits: Vec<usize>,
    /// Its request has been decided, and waits.
    held: bool,
}

/// The places of one isolate.
#[derive(Debug, Default)]
pub struct Places {
    taken: BTreeMap<Place, Taken>,
    /// How many of each limit are taken.
    counts: Vec<usize>,
    last: u32,
}

impl Places {
    /// Takes a place in each of these limits, told with the most it has; `None` where one of them is full. It is free
    /// again at `until_ms`, whatever happens.
    pub fn take(&mut self, limits: &[(usize, usize)], until_ms: u64, now_ms: u64) -> Option<Place> {
        self.sweep(now_ms);
        let full =
            |(limit, most): &(usize, usize)| self.counts.get(*limit).is_some_and(|count| count >= most);
        if limits.iter().any(full) {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        let place = Place(until_ms, self.last);
        self.keep(place, limits.iter().map(|(limit, _)| *limit).collect(), false);
        Some(place)
    }

    /// Keeps a place until its request's moment.
    pub fn hold(&mut self, place: Place, until_ms: u64) {
        if let Some(limits) = self.give_back(place) {
            self.keep(Place(until_ms, place.1), limits, true);
        }
    }

    /// Gives a place back; the limits it was for, unless its time is over.
    pub fn give_back(&mut self, place: Place) -> Option<Vec<usize>> {
        let Taken { limits, .. } = self.taken.remove(&place)?;
        for limit in &limits {
            if let Some(count) = self.counts.get_mut(*limit) {
                *count = count.saturating_sub(1);
            }
        }
        Some(limits)
    }

    /// How many requests wait for their moment.
    pub fn held(&mut self, now_ms: u64) -> usize {
        self.sweep(now_ms);
        self.taken.values().filter(|taken| taken.held).count()
    }

    fn keep(&mut self, place: Place, limits: Vec<usize>, held: bool) {
        for limit in &limits {
            if self.counts.len() <= *limit {
                self.counts.resize(limit.saturating_add(1), 0);
            }
            if let Some(count) = self.counts.get_mut(*limit) {
                *count = count.saturating_add(1);
            }
        }
        self.taken.insert(place, Taken { limits, held });
    }

    fn sweep(&mut self, now_ms: u64) {
        while let Some(place) = self.taken.keys().next().copied().filter(|place| place.0 <= now_ms) {
            self.give_back(place);
        }
        let latest_ms = now_ms.saturating_add(LONGEST_MS);
        while let Some(place) = self.taken.keys().next_back().copied().filter(|place| place.0 > latest_ms) {
            self.give_back(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_785_432_000_000;

    #[test]
    fn so_many_of_each_limit_and_a_place_given_back_is_free() {
        let mut places = Places::default();
        let first = places.take(&[(3, 2)], NOW + 500, NOW).unwrap();
        assert!(places.take(&[(3, 2), (0, 1)], NOW + 500, NOW).is_some());
        assert_eq!(places.take(&[(3, 2)], NOW + 500, NOW), None);
        assert_eq!(places.take(&[(1, 9), (0, 1)], NOW + 500, NOW), None, "the other limit is full");
        assert!(places.give_back(first).is_some() && places.give_back(first).is_none());
        assert!(places.take(&[(3, 2)], NOW + 500, NOW).is_some());
    }

    #[test]
    fn who_asks_does_not_wait_yet_and_who_waits_has_a_place_until_its_moment() {
        let mut places = Places::default();
        let place = places.take(&[(0, 1)], NOW + 500, NOW).unwrap();
        assert_eq!(places.held(NOW), 0);
        places.hold(place, NOW + 2_000);
        assert_eq!(places.held(NOW + 1_999), 1);
        assert_eq!(places.take(&[(0, 1)], NOW + 5_000, NOW + 1_999), None);
        assert_eq!(places.held(NOW + 2_000), 0);
        assert!(places.take(&[(0, 1)], NOW + 5_000, NOW + 2_000).is_some());
    }

    #[test]
    fn a_request_that_nobody_hears_of_keeps_its_place_for_a_bounded_time() {
        let mut places = Places::default();
        places.take(&[(0, 1)], NOW + 500, NOW).unwrap();
        assert_eq!(places.take(&[(0, 1)], NOW + 999, NOW + 499), None);
        assert!(places.take(&[(0, 1)], NOW + 999, NOW + 500).is_some());
        // The clock is set back by an hour.
        assert!(places.take(&[(0, 1)], NOW, NOW - 3_600_000).is_some());
        assert_eq!(places.taken.len(), 1);
    }
}
