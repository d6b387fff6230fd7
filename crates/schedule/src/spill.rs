//! Choice among a route's pools for a request with limits: the preferred pool, as long as it meets them.

/// Probability of meeting the limits that suffices to stay in a pool.
const STAYS: f64 = 0.9;
/// Probability that suffices to return to a pool that was left. It is higher, since a route at the edge would otherwise
/// alternate with every request and leave cold caches on both sides.
const RETURNS: f64 = 0.95;

/// Index of the pool to use. `attainments` are the probabilities of meeting the request's limits in the route's pools,
/// in order of preference; `None` for a pool that cannot take it now. `used` is the index of the pool that the route
/// used last.
///
/// Returns the first pool whose probability suffices; otherwise the one with the highest probability, and among equals
/// the first. `None` where no pool can take the request.
pub fn pick(attainments: &[Option<f64>], used: usize) -> Option<usize> {
    let known = || attainments.iter().enumerate().filter_map(|(place, chance)| Some((place, (*chance)?)));
    let enough = |&(place, chance): &(usize, f64)| chance >= if place < used { RETURNS } else { STAYS };
    let best = || known().reduce(|best, next| if next.1 > best.1 { next } else { best });
    known().find(enough).or_else(best).map(|(place, _)| place)
}

/// Best backend of one of a route's pools, for a choice among pools.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct PoolOption<T> {
    /// The backend chosen in the pool.
    pub chosen: T,
    /// True if all backends of the pool failed lately.
    pub avoided: bool,
    /// Probability that the chosen backend meets the request's limits.
    pub attainment: f64,
}

/// Chooses among the pools at the ascending indices `open` and returns the index with the backend chosen there. `look`
/// returns `None` for a pool that cannot take the request now. A `limited` request goes [by the probability](pick) of
/// meeting its limits; other requests use the first pool that did not fail lately, or else the first.
pub fn choose<T>(
    open: impl Iterator<Item = usize> + Clone,
    limited: bool,
    used: usize,
    mut look: impl FnMut(usize) -> Option<PoolOption<T>>,
) -> Option<(usize, T)> {
    if !limited {
        let mut options = open.filter_map(|at| Some((at, look(at)?)));
        let first = options.next()?;
        let found = if first.1.avoided { options.find(|(_, look)| !look.avoided).unwrap_or(first) } else { first };
        return Some((found.0, found.1.chosen));
    }
    let mut options: Vec<Option<PoolOption<T>>> = Vec::new();
    for at in open {
        options.resize_with(at.max(options.len()), || None);
        options.push(look(at));
    }
    // Failing pools are no choice while others do not fail.
    if options.iter().flatten().any(|look| !look.avoided) {
        for look in &mut options {
            look.take_if(|look| look.avoided);
        }
    }
    let chances: Vec<_> = options.iter().map(|look| look.as_ref().map(|look| look.attainment)).collect();
    let picked = pick(&chances, used)?;
    Some((picked, options.swap_remove(picked)?.chosen))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_pool_that_keeps_the_limits_is_used() {
        assert_eq!(pick(&[Some(0.9), Some(1.0)], 0), Some(0));
        assert_eq!(pick(&[Some(0.89), Some(0.9)], 0), Some(1));
        assert_eq!(pick(&[None, Some(0.2), Some(0.9)], 0), Some(2));
    }

    #[test]
    fn a_route_comes_back_later_than_it_left() {
        assert_eq!(pick(&[Some(0.92), Some(0.99)], 1), Some(1));
        assert_eq!(pick(&[Some(0.95), Some(0.99)], 1), Some(0));
        assert_eq!(pick(&[Some(0.92), Some(0.5)], 1), Some(0), "where it went is worse by now");
    }

    #[test]
    fn the_best_pool_serves_where_none_suffices() {
        assert_eq!(pick(&[Some(0.1), Some(0.4), Some(0.4)], 0), Some(1));
        assert_eq!(pick(&[Some(0.0), Some(0.0)], 0), Some(0));
        assert_eq!(pick(&[None, None], 0), None);
        assert_eq!(pick(&[], 3), None);
    }

    proptest! {
        #[test]
        fn it_picks_one_that_can(chances in proptest::collection::vec(proptest::option::of(0.0..=1.0_f64), 0..6), used in 0..6_usize) {
            let picked = pick(&chances, used);
            prop_assert_eq!(picked.is_some(), chances.iter().any(Option::is_some));
            if let Some(place) = picked {
                let best = chances.iter().flatten().copied().fold(0.0, f64::max);
                prop_assert!(chances[place].is_some_and(|chance| chance >= 0.9 || chance >= best));
            }
        }
    }
}
