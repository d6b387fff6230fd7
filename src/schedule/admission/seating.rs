//! Admission of waiting requests.

use std::{cmp::Reverse, time::Duration};

use super::{Queue, looks::Looks};
use crate::types::Moment;

/// Interval at which waiting requests check whether time alone has made room.
pub const LOOK: Duration = Duration::from_millis(250);

/// Reason why a request keeps waiting.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// No backend has room.
    Full,
    /// Its engine has enough work for now; holds the number of candidates that were weighed.
    Held(usize),
}

/// Tries to admit waiting requests.
pub trait Usher<T> {
    /// Reserves a place on an engine for a request, if one is free. A reservation must not be dropped during the call.
    fn seat(&mut self, item: &T, now: Moment) -> Result<(), Wait>;

    /// True if there was room for it on arrival, at an engine with enough work.
    fn is_kept(&self, item: &T) -> bool;

    /// Class of the request. Requests of one class find room or none alike, though each may wait for another engine.
    /// Where an account has tokens left for small requests only, these wait behind a large one, which would otherwise
    /// never be admitted.
    fn kind(&self, item: &T) -> u64;
}

/// Admits as many requests as possible. The queue whose oldest request has waited longest goes first; each queue keeps
/// its own order. Returns the admitted requests, which have left their queues.
pub fn seat<'a, T: 'a>(
    lines: impl IntoIterator<Item = &'a mut Queue<T>>,
    usher: &mut impl Usher<T>,
    now: Moment,
) -> Vec<T> {
    let mut order: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    order.sort_by_key(|line| Reverse(line.oldest(now)));
    let mut seated = Vec::new();
    for line in order {
        let (mut vain, mut keys) = (Vec::new(), Vec::new());
        let mut looks = Looks::default();
        for (key, item) in line.in_order(now) {
            if looks.are_over() {
                break;
            }
            if looks.pass_over(usher.is_kept(item)) {
                continue;
            }
            let kind = usher.kind(item);
            if vain.contains(&kind) {
                continue;
            }
            match usher.seat(item, now) {
                Ok(()) => keys.push(key),
                Err(Wait::Held(weighed)) => looks.kept(weighed),
                Err(Wait::Full) => {
                    looks.in_vain();
                    vain.push(kind);
                }
            }
        }
        seated.extend(keys.into_iter().filter_map(|key| line.remove(key)));
    }
    seated
}
