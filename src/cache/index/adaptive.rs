//! Vector index for any size: flat, with a sealed graph for older vectors above a threshold.

use std::{collections::HashSet, sync::Arc};

use super::{Near, VectorIndex, codes::normalised, flat::Flat, graph::Graph};

/// Vectors from which on a graph is built. Up to 100,000 the flat index is faster, smaller and more exact
/// (`benches/index`). The exact crossover was not measured: this is the extrapolated size at which its scan takes as
/// long as a graph of the same recall.
const SEALED_FROM: usize = 1_000_000;
/// Candidates weighed by a search in the graph (`ef`): enough for .98 of the nearest.
const CANDIDATES: usize = 256;
/// A graph is rebuilt when this percentage of it is dead …
const DEAD_PERCENT: usize = 30;
/// … or when vectors added since amount to this share of it. So a vector is inserted about three times on the way to
/// any size.
const HOT_SHARE: usize = 2;

/// A flat index that takes all changes, and a sealed graph of the older vectors, once there are many.
///
/// Vectors that are removed or replaced in the graph are marked dead and filtered from its results. Building a graph
/// takes about a millisecond per vector, so it is left to the owner: when `needs_rebuild` is
/// true, take a [`Plan`], [`run`](Plan::run) it without a lock on a thread that may work long, and
/// [`adopt`](Self::adopt) the result. Changes in the meantime are kept.
#[derive(Debug)]
pub struct Adaptive {
    dimensions: usize,
    sealed_from: usize,
    candidates: usize,
    hot: Flat,
    sealed: Option<Sealed>,
    /// Plans taken so far; only the result of the last one is adopted.
    plans: u64,
    /// Numbers changed since the last plan, while there is one.
    changed: Option<HashSet<u64>>,
}

#[derive(Clone, Debug)]
struct Sealed {
    graph: Arc<Graph>,
    /// A bit for each dead point.
    dead: Vec<u64>,
    dead_count: usize,
}

impl Sealed {
    fn new(graph: Arc<Graph>) -> Self {
        let dead = vec![0; graph.len().div_ceil(64)];
        Self { graph, dead, dead_count: 0 }
    }

    fn counts(&self, point: u32) -> bool {
        self.dead[point as usize / 64] & 1 << (point % 64) == 0
    }

    /// Marks a number as dead. Returns true if it was present.
    fn mark_dead(&mut self, number: u64) -> bool {
        let Some(point) = self.graph.point(number).filter(|point| self.counts(*point)) else { return false };
        self.dead[point as usize / 64] |= 1 << (point % 64);
        self.dead_count += 1;
        true
    }

    fn len(&self) -> usize {
        self.graph.len() - self.dead_count
    }
}

/// Input of a graph build, as of the time the plan was taken.
#[derive(Debug)]
pub struct Plan {
    number: u64,
    dimensions: usize,
    hot: Flat,
    sealed: Option<Sealed>,
}

/// A finished graph.
#[derive(Debug)]
pub struct Rebuilt {
    plan: u64,
    graph: Graph,
}

/// Parts that an index no longer uses. Dropping them may take milliseconds.
#[derive(Debug)]
pub struct Retired {
    _graphs: (Option<Graph>, Option<Sealed>, Option<Flat>),
}

impl Plan {
    /// Builds the graph on this thread: about a millisecond per vector.
    pub fn run(self) -> Rebuilt {
        let before = self.sealed.as_ref().map_or(0, Sealed::len);
        let mut graph = Graph::new(self.dimensions, before + self.hot.len());
        if let Some(sealed) = &self.sealed {
            graph.add_graph(&sealed.graph, |point| sealed.counts(point));
        }
        graph.add_codes(self.hot.codes());
        Rebuilt { plan: self.number, graph }
    }
}

impl Adaptive {
    /// Creates an index for vectors of this length.
    pub fn new(dimensions: usize) -> Self {
        let hot = Flat::new(dimensions);
        Self {
            dimensions,
            sealed_from: SEALED_FROM,
            candidates: CANDIDATES,
            hot,
            sealed: None,
            plans: 0,
            changed: None,
        }
    }

    /// Sets the number of vectors from which on a graph is built.
    #[must_use]
    pub fn sealed_from(self, vectors: usize) -> Self {
        Self { sealed_from: vectors, ..self }
    }

    /// Sets the number of candidates weighed in the graph.
    #[must_use]
    pub fn candidates(self, candidates: usize) -> Self {
        Self { candidates, ..self }
    }

    /// True if a graph should be built or rebuilt now.
    pub(crate) fn needs_rebuild(&self) -> bool {
        let hot = self.hot.len();
        match &self.sealed {
            None => hot >= self.sealed_from.max(1),
            Some(sealed) => {
                sealed.dead_count * 100 > sealed.graph.len() * DEAD_PERCENT
                    || hot * HOT_SHARE > sealed.len().max(self.sealed_from)
            }
        }
    }

    /// Takes the input of a graph build. Copies the flat part, a few tens of milliseconds at 100,000 vectors.
    pub fn plan(&mut self) -> Plan {
        self.plans += 1;
        self.changed = Some(HashSet::new());
        let mut hot = Flat::new(self.dimensions);
        (0..self.hot.len()).for_each(|slot| hot.take_over(self.hot.codes().number(slot), &self.hot));
        Plan { number: self.plans, dimensions: self.dimensions, hot, sealed: self.sealed.clone() }
    }

    /// Replaces the plan's input by the graph; later changes stay. Ignores the result of an earlier plan.
    ///
    /// Drop the returned value where a pause does no harm.
    pub fn adopt(&mut self, rebuilt: Rebuilt) -> Retired {
        if rebuilt.plan != self.plans {
            return Retired { _graphs: (Some(rebuilt.graph), None, None) };
        }
        let Some(changed) = self.changed.take() else {
            return Retired { _graphs: (Some(rebuilt.graph), None, None) };
        };
        let mut sealed = Sealed::new(Arc::new(rebuilt.graph));
        let mut hot = Flat::new(self.dimensions);
        for number in changed {
            sealed.mark_dead(number);
            hot.take_over(number, &self.hot);
        }
        let hot = std::mem::replace(&mut self.hot, hot);
        let sealed = if sealed.graph.len() == 0 { self.sealed.take() } else { self.sealed.replace(sealed) };
        Retired { _graphs: (None, sealed, Some(hot)) }
    }
}

impl VectorIndex for Adaptive {
    fn insert(&mut self, number: u64, vector: &[f32]) {
        self.remove(number);
        self.hot.insert(number, vector);
    }

    fn remove(&mut self, number: u64) -> bool {
        if let Some(changed) = &mut self.changed {
            changed.insert(number);
        }
        // It is in at most one of the two.
        self.hot.remove(number) || self.sealed.as_mut().is_some_and(|sealed| sealed.mark_dead(number))
    }

    fn search(&self, vector: &[f32], most: usize, near: &mut Vec<Near>) {
        self.hot.search(vector, most, near);
        if let Some(sealed) = &self.sealed
            && vector.len() == self.dimensions
            && most > 0
        {
            let counts = |point| sealed.counts(point);
            sealed.graph.search(&normalised(vector), most, self.candidates, counts, near);
            near.sort_unstable_by(Near::nearest_first);
            near.truncate(most);
        }
    }

    fn len(&self) -> usize {
        self.hot.len() + self.sealed.as_ref().map_or(0, Sealed::len)
    }

    fn bytes(&self) -> usize {
        let sealed =
            self.sealed.as_ref().map_or(0, |sealed| sealed.graph.bytes() + sealed.dead.capacity() * size_of::<u64>());
        self.hot.bytes() + sealed
    }
}
