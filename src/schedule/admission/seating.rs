//! Who of those who wait goes now.

use std::{cmp::Reverse, time::Duration};

use super::{Queue, looks::Looks};
use crate::types::Moment;

/// How often those who wait look whether time alone has made room.
pub const LOOK: Duration = Duration::from_millis(250);

/// Why a request has to wait on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// No backend has room.
    Full,
    /// The one that it should go to, of so many that were weighed, has enough to do for now.
    Held(usize),
}

/// Shows those who wait to their places.
pub trait Usher<T> {
    /// Takes a place on an engine for one, if there is one now. Nothing that holds a place may be dropped meanwhile.
    fn seat(&mut self, item: &T, now: Moment) -> Result<(), Wait>;

    /// Whether there was room for it when it came, at an engine with enough to do.
    fn is_kept(&self, item: &T) -> bool;

    /// Those of one kind find room or none alike, though each may have to wait for an engine of its own. Where an account has tokens left for
    /// small ones only, they wait for a large one before them, which would never come up else.
    fn kind(&self, item: &T) -> u64;
}

/// Seats whom it can, the queue whose first has waited longest before the others, each in its own order. Those who were seated have left
/// their queues.
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
