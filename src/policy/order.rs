//! Sorting of lists that are short, or nearly in order already.

/// Sorts a list; `may_precede` says whether the first of two may stand before the second, as equals do. Takes time by
/// the square of how far it is from sorted: the standard library's sort is 3 KB of Wasm for each kind of list, and
/// nothing here has more than a few dozen out of place.
pub fn sort<T>(list: &mut [T], may_precede: impl Fn(&T, &T) -> bool) {
    for end in 1..list.len() {
        for at in (1..=end).rev() {
            let (Some(left), Some(right)) = (list.get(at.saturating_sub(1)), list.get(at)) else { break };
            if may_precede(left, right) {
                break;
            }
            list.swap(at.saturating_sub(1), at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_as_the_standard_library_does() {
        let mut state = 7_u64;
        for length in 0..40 {
            let mut list: Vec<(u64, usize)> = (0..length)
                .map(|place| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 61, place)
                })
                .collect();
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort(&mut list, |(a, _), (b, _)| a <= b);
            assert_eq!(list, expected);
        }
    }
}
