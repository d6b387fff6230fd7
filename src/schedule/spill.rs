//! Which of a route's pools serves a request that has limits: the preferred one, as long as it keeps them.

/// The chance to keep a request's limits that is good enough to stay.
const STAYS: f64 = 0.9;
/// The chance that is good enough to come back to a pool that was left. Higher, for else a route at the edge would swing with
/// every request, and leave cold caches on both sides.
const RETURNS: f64 = 0.95;

/// The place of the pool to use. `attainments` are the chances of keeping the request's limits in the route's pools, in their
/// order of preference; `None` for one that cannot take it now. `used` is the place of the pool that the route used last.
///
/// That is the first one whose chance is good enough; where none is, the one with the best chance, and among equals the first.
/// `None` where no pool can take the request.
pub fn pick(attainments: &[Option<f64>], used: usize) -> Option<usize> {
    let known = || attainments.iter().enumerate().filter_map(|(place, chance)| Some((place, (*chance)?)));
    let enough = |&(place, chance): &(usize, f64)| chance >= if place < used { RETURNS } else { STAYS };
    let best = || known().reduce(|best, next| if next.1 > best.1 { next } else { best });
    known().find(enough).or_else(best).map(|(place, _)| place)
}

/// The best backend of one of a route's pools, as a choice among the pools sees it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Look<T> {
    /// What was chosen there.
    pub chosen: T,
    /// Whether it failed lately, as all others there.
    pub avoided: bool,
    /// The chance that the request's limits are kept there.
    pub attainment: f64,
}

/// Which of the pools at the places `open`, which rise, serves a request, and what was chosen there; `look` gives `None` for a pool that cannot take it
/// now. Where the request is `limited`, that is [by the chance](pick) that its limits are kept; else it is the first pool that did not
/// fail lately, or else the first.
pub fn among<T>(
    open: impl Iterator<Item = usize> + Clone,
    limited: bool,
    used: usize,
    mut look: impl FnMut(usize) -> Option<Look<T>>,
) -> Option<(usize, T)> {
    if !limited {
        let mut looks = open.filter_map(|at| Some((at, look(at)?)));
        let first = looks.next()?;
        let found = if first.1.avoided { looks.find(|(_, look)| !look.avoided).unwrap_or(first) } else { first };
        return Some((found.0, found.1.chosen));
    }
    let mut looks: Vec<Option<Look<T>>> = Vec::new();
    for at in open {
        looks.resize_with(at.max(looks.len()), || None);
        looks.push(look(at));
    }
    // Where some pools fail and others do not, those that fail are no choice.
    if looks.iter().flatten().any(|look| !look.avoided) {
        for look in &mut looks {
            look.take_if(|look| look.avoided);
        }
    }
    let chances: Vec<_> = looks.iter().map(|look| look.as_ref().map(|look| look.attainment)).collect();
    let picked = pick(&chances, used)?;
    Some((picked, looks.swap_remove(picked)?.chosen))
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
    fn where_none_is_good_the_best_serves() {
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
