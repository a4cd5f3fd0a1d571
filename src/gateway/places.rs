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
    /// The number of the next request that may have to wait.
    pub fn draw(&mut self, now_ms: u64) -> Place {
        let latest_ms = now_ms.saturating_add(LONGEST_MS);
        self.keep(&|taken| taken.until_ms > now_ms && taken.until_ms <= latest_ms);
        self.last = self.last.wrapping_add(1);
        Place(self.last)
    }

    /// Takes a place of a limit that has so many; `false` where none is free. It is free again at `until_ms`, whatever
    /// happens.
    pub fn take(&mut self, place: Place, limit: usize, most: usize, until_ms: u64) -> bool {
        let free = self.taken.iter().filter(|taken| taken.limit == limit).count() < most;
        if free {
            self.taken.push(Taken { place, until_ms, limit, held: false });
        }
        free
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
        self.keep(&|taken| taken.place != place);
    }

    /// How many places are kept by requests that wait for their moment.
    pub fn held(&self, now_ms: u64) -> usize {
        self.taken.iter().filter(|taken| taken.held && taken.until_ms > now_ms).count()
    }

    fn keep(&mut self, wanted: &dyn Fn(&Taken) -> bool) {
        self.taken.retain(wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_785_432_000_000;

    /// Takes a place in each of these limits.
    fn take(places: &mut Places, limits: &[(usize, usize)], until_ms: u64, now_ms: u64) -> Option<Place> {
        let place = places.draw(now_ms);
        if limits.iter().all(|(limit, most)| places.take(place, *limit, *most, until_ms)) {
            return Some(place);
        }
        places.give_back(place);
        None
    }

    #[test]
    fn so_many_of_each_limit_and_a_place_given_back_is_free() {
        let mut places = Places::default();
        let first = take(&mut places, &[(3, 2)], NOW + 500, NOW).unwrap();
        assert!(take(&mut places, &[(3, 2), (0, 1)], NOW + 500, NOW).is_some());
        assert_eq!(take(&mut places, &[(3, 2)], NOW + 500, NOW), None);
        assert_eq!(take(&mut places, &[(1, 1), (0, 1)], NOW + 500, NOW), None, "the other limit is full");
        assert!(
            take(&mut places, &[(1, 1)], NOW + 500, NOW).is_some(),
            "and so nothing was taken of this one"
        );
        places.give_back(first);
        places.give_back(first);
        assert!(take(&mut places, &[(3, 2)], NOW + 500, NOW).is_some());
        assert_eq!(take(&mut places, &[(3, 2)], NOW + 500, NOW), None);
    }

    #[test]
    fn who_asks_does_not_wait_yet_and_who_waits_has_a_place_until_its_moment() {
        let mut places = Places::default();
        let place = take(&mut places, &[(0, 1)], NOW + 500, NOW).unwrap();
        assert_eq!(places.held(NOW), 0);
        places.hold(place, NOW + 2_000);
        assert_eq!(places.held(NOW + 1_999), 1);
        assert_eq!(take(&mut places, &[(0, 1)], NOW + 5_000, NOW + 1_999), None);
        assert_eq!(places.held(NOW + 2_000), 0);
        assert!(take(&mut places, &[(0, 1)], NOW + 5_000, NOW + 2_000).is_some());
    }

    #[test]
    fn a_request_that_nobody_hears_of_keeps_its_place_for_a_bounded_time() {
        let mut places = Places::default();
        take(&mut places, &[(0, 1)], NOW + 500, NOW).unwrap();
        assert_eq!(take(&mut places, &[(0, 1)], NOW + 999, NOW + 499), None);
        assert!(take(&mut places, &[(0, 1)], NOW + 999, NOW + 500).is_some());
        // The clock is set back by an hour.
        assert!(take(&mut places, &[(0, 1)], NOW, NOW - 3_600_000).is_some());
        assert_eq!(places.taken.len(), 1);
    }
}
