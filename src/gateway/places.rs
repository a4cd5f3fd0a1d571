//! Places for requests that wait for their moment: so many of each limit in one isolate, as plain data.
//!
//! A place is taken before the store is asked, since what it grants is reserved in the same call. It is kept until the
//! moment of its request, and is then free by itself: so it is free, too, where the client has left or the platform has
//! dropped the request, of which nobody hears. They are few enough to be looked through.

/// Further ahead no place is kept, in milliseconds: the clock has been set back since.
const LONGEST_MS: u64 = 120_000;

/// The number of a place that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u32);

#[derive(Debug)]
struct Taken {
    place: Place,
    /// In milliseconds since the Unix epoch.
    until_ms: u64,
    /// The limit it counts for, by its place in the metrics.
    limit: usize,
    /// Its request has been decided, and waits.
    held: bool,
}

/// The places of one isolate; of a request with two limits that delay there is one for each.
#[derive(Debug, Default)]
pub struct Places {
    taken: Vec<Taken>,
    last: u32,
}

impl Places {
    /// Takes a place in each of these limits, told with the most it has; `None` where one of them is full. It is free
    /// again at `until_ms`, whatever happens.
    pub fn take(&mut self, limits: &[(usize, usize)], until_ms: u64, now_ms: u64) -> Option<Place> {
        self.sweep(now_ms);
        let count = |limit: usize| self.taken.iter().filter(|taken| taken.limit == limit).count();
        if limits.iter().any(|(limit, most)| count(*limit) >= *most) {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        let place = Place(self.last);
        self.taken.extend(limits.iter().map(|(limit, _)| Taken {
            place,
            until_ms,
            limit: *limit,
            held: false,
        }));
        Some(place)
    }

    /// Keeps a place until its request's moment.
    pub fn hold(&mut self, place: Place, until_ms: u64) {
        for taken in self.taken.iter_mut().filter(|taken| taken.place == place) {
            taken.until_ms = until_ms;
            taken.held = true;
        }
    }

    /// Gives a place back.
    pub fn give_back(&mut self, place: Place) {
        self.taken.retain(|taken| taken.place != place);
    }

    /// How many places are kept by requests that wait for their moment.
    pub fn held(&mut self, now_ms: u64) -> usize {
        self.sweep(now_ms);
        self.taken.iter().filter(|taken| taken.held).count()
    }

    fn sweep(&mut self, now_ms: u64) {
        let latest_ms = now_ms.saturating_add(LONGEST_MS);
        self.taken.retain(|taken| taken.until_ms > now_ms && taken.until_ms <= latest_ms);
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
        places.give_back(first);
        places.give_back(first);
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
