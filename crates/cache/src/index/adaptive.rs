//! Vector index for any size: flat, with a sealed graph for older vectors above a threshold.

use std::{collections::HashSet, sync::Arc};

use super::{Near, VectorIndex, codes::normalised, flat::Flat, graph::Graph};
use signalbox_policy::IndexKind;

/// Vectors from which on `auto` builds a graph. Up to a million, the most that was measured, the flat index is faster at
/// the same recall, smaller, and built in a three-hundredth of the time (`benches/index`, decision 060). This is the
/// extrapolated size at which a scan takes twice as long as a search in the graph, some 6 ms.
const AUTO_FROM: usize = 4_000_000;
/// Vectors from which on `hnsw` builds a graph: with fewer, a scan takes some tens of microseconds.
const HNSW_FROM: usize = 1_000;
/// Candidates weighed by a search in the graph (`ef`): they find .98 of the nearest among 300,000 and .97 among a million.
const CANDIDATES: usize = 512;
/// A graph is rebuilt when this percentage of it is dead …
const DEAD_PERCENT: usize = 30;
/// … or when vectors added since amount to this share of it. So a vector is inserted about three times on the way to
/// any size.
const HOT_SHARE: usize = 2;

/// A flat index that takes all changes, and a sealed graph of the older vectors, once there are many.
///
/// Vectors that are removed or replaced in the graph are marked dead and filtered from its results. Building a graph
/// takes up to a millisecond per vector, so it is left to the owner: when `needs_rebuild` is
/// true, take a [`Plan`], [`run`](Plan::run) it without a lock on a thread that may work long, and
/// [`adopt`](Self::adopt) the result. Changes in the meantime are kept. A graph with too few vectors left becomes flat
/// again.
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

/// Input of a rebuild, as of the time the plan was taken.
#[derive(Debug)]
pub struct Plan {
    number: u64,
    dimensions: usize,
    hot: Flat,
    sealed: Option<Sealed>,
    /// True to build a graph, false to move all vectors into the flat index.
    seals: bool,
}

/// A finished graph, or a flat index of all vectors.
#[derive(Debug)]
pub struct Rebuilt {
    plan: u64,
    built: Built,
}

#[derive(Debug)]
enum Built {
    Graph(Graph),
    Flat(Flat),
}

/// Parts that an index no longer uses. Dropping them may take milliseconds.
#[derive(Debug)]
pub struct Retired {
    _parts: (Option<Built>, Option<Sealed>, Option<Flat>),
}

impl Plan {
    /// Builds the index on this thread: up to a millisecond per vector of a graph.
    pub fn run(mut self) -> Rebuilt {
        let built = if self.seals {
            let before = self.sealed.as_ref().map_or(0, Sealed::len);
            let mut graph = Graph::new(self.dimensions, before + self.hot.len());
            if let Some(sealed) = &self.sealed {
                graph.add_graph(&sealed.graph, |point| sealed.counts(point));
            }
            graph.add_codes(self.hot.codes());
            Built::Graph(graph)
        } else {
            if let Some(sealed) = &self.sealed {
                sealed.graph.each(|point| sealed.counts(point), |number, code| self.hot.add(number, &code));
            }
            Built::Flat(self.hot)
        };
        Rebuilt { plan: self.number, built }
    }
}

impl Adaptive {
    /// Vectors from which on an index of this kind builds a graph.
    pub(crate) const fn threshold(kind: IndexKind) -> usize {
        match kind {
            IndexKind::Auto => AUTO_FROM,
            IndexKind::Flat => usize::MAX,
            IndexKind::Hnsw => HNSW_FROM,
        }
    }

    /// Creates an index for vectors of this length, of the kind `auto`.
    pub fn new(dimensions: usize) -> Self {
        let hot = Flat::new(dimensions);
        Self { dimensions, sealed_from: AUTO_FROM, candidates: CANDIDATES, hot, sealed: None, plans: 0, changed: None }
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

    /// Sets the number of vectors from which on a graph is built, for the next rebuild.
    pub(crate) fn seal_from(&mut self, vectors: usize) {
        self.sealed_from = vectors;
    }

    /// Fewest vectors of a graph: half of those that it takes to build the first.
    fn fewest_sealed(&self) -> usize {
        (self.sealed_from / 2).max(1)
    }

    /// True if a graph should be built or rebuilt now, or made flat.
    pub(crate) fn needs_rebuild(&self) -> bool {
        let hot = self.hot.len();
        match &self.sealed {
            None => hot >= self.sealed_from.max(1),
            Some(sealed) => {
                self.len() < self.fewest_sealed()
                    || sealed.dead_count * 100 > sealed.graph.len() * DEAD_PERCENT
                    || hot * HOT_SHARE > sealed.len().max(self.sealed_from)
            }
        }
    }

    /// Takes the input of a rebuild. Copies the flat part: some 10 ms at 100,000 vectors, 100 ms at a million.
    pub fn plan(&mut self) -> Plan {
        self.plans += 1;
        self.changed = Some(HashSet::new());
        Plan {
            number: self.plans,
            dimensions: self.dimensions,
            hot: self.hot.clone(),
            sealed: self.sealed.clone(),
            seals: self.len() >= self.fewest_sealed(),
        }
    }

    /// Replaces the plan's input by what was built; later changes stay. Ignores the result of an earlier plan.
    ///
    /// Drop the returned value where a pause does no harm.
    pub fn adopt(&mut self, rebuilt: Rebuilt) -> Retired {
        let changed = if rebuilt.plan == self.plans { self.changed.take() } else { None };
        let Some(changed) = changed else { return Retired { _parts: (Some(rebuilt.built), None, None) } };
        let (mut sealed, mut hot) = match rebuilt.built {
            Built::Graph(graph) => (Some(Sealed::new(Arc::new(graph))), Flat::new(self.dimensions)),
            Built::Flat(flat) => (None, flat),
        };
        for number in changed {
            if let Some(sealed) = &mut sealed {
                sealed.mark_dead(number);
            }
            hot.remove(number);
            hot.take_over(number, &self.hot);
        }
        let hot = std::mem::replace(&mut self.hot, hot);
        Retired { _parts: (None, std::mem::replace(&mut self.sealed, sealed), Some(hot)) }
    }

    /// Size of the graph in bytes; 0 without one.
    pub(crate) fn graph_bytes(&self) -> usize {
        self.sealed.as_ref().map_or(0, |sealed| sealed.graph.bytes() + sealed.dead.capacity() * size_of::<u64>())
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
        self.hot.bytes() + self.graph_bytes()
    }
}
