//! One index for any size: flat, and above a size a sealed graph beside it.

use std::{collections::HashSet, sync::Arc};

use super::{Near, VectorIndex, codes::normalised, flat::Flat, graph::Graph};

/// From how many vectors on a graph is built. Up to 100,000 the flat index is faster, smaller and more exact (`benches/index`). Where exactly
/// they meet was not measured: this is where its scan would take what a graph takes that finds as many, by the growth of both.
const SEALED_FROM: usize = 1_000_000;
/// How many candidates a search in the graph weighs (`ef`): as many as .98 of the nearest need.
const CANDIDATES: usize = 256;
/// A graph is built anew when so many percent of it count no more …
const DEAD_PERCENT: usize = 30;
/// … or when this share of it has come since. So a vector is built in about three times on the way to any size.
const HOT_SHARE: usize = 2;

/// A flat index that takes all changes, and a sealed graph of what is older, once there is much.
///
/// What is removed or replaced in the graph is marked, and left out of what a search finds there. Building a graph takes about a millisecond
/// a vector, so it is up to the owner: where `needs_rebuild` says so, take a [`Plan`], let it [`run`](Plan::run) on a
/// thread that may work long, without a lock, and [`adopt`](Self::adopt) what comes of it. Changes meanwhile are kept.
#[derive(Debug)]
pub struct Adaptive {
    dimensions: usize,
    sealed_from: usize,
    candidates: usize,
    hot: Flat,
    sealed: Option<Sealed>,
    /// Plans taken so far; only what comes of the last one is adopted.
    plans: u64,
    /// Numbers that came or went since the last plan, while there is one.
    changed: Option<HashSet<u64>>,
}

#[derive(Clone, Debug)]
struct Sealed {
    graph: Arc<Graph>,
    /// A bit for each point that counts no more.
    dead: Vec<u64>,
    buried: usize,
}

impl Sealed {
    fn new(graph: Arc<Graph>) -> Self {
        let dead = vec![0; graph.len().div_ceil(64)];
        Self { graph, dead, buried: 0 }
    }

    fn counts(&self, point: u32) -> bool {
        self.dead[point as usize / 64] & 1 << (point % 64) == 0
    }

    /// Marks a number as gone; whether it was there.
    fn bury(&mut self, number: u64) -> bool {
        let Some(point) = self.graph.point(number).filter(|point| self.counts(*point)) else { return false };
        self.dead[point as usize / 64] |= 1 << (point % 64);
        self.buried += 1;
        true
    }

    fn len(&self) -> usize {
        self.graph.len() - self.buried
    }
}

/// What a graph is to be built of, as it was when the plan was taken.
#[derive(Debug)]
pub struct Plan {
    number: u64,
    dimensions: usize,
    hot: Flat,
    sealed: Option<Sealed>,
}

/// A graph that was built.
#[derive(Debug)]
pub struct Rebuilt {
    plan: u64,
    graph: Graph,
}

/// What an index does not use any more. Dropping it may take milliseconds.
#[derive(Debug)]
pub struct Retired {
    _graphs: (Option<Graph>, Option<Sealed>, Option<Flat>),
}

impl Plan {
    /// Builds the graph, on this thread: about a millisecond a vector.
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
    /// For vectors of a length.
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

    /// One that builds a graph from another size on.
    #[must_use]
    pub fn sealed_from(self, vectors: usize) -> Self {
        Self { sealed_from: vectors, ..self }
    }

    /// One that weighs another number of candidates in the graph.
    #[must_use]
    pub fn candidates(self, candidates: usize) -> Self {
        Self { candidates, ..self }
    }

    /// Whether a graph would now be built, or built anew.
    pub(crate) fn needs_rebuild(&self) -> bool {
        let hot = self.hot.len();
        match &self.sealed {
            None => hot >= self.sealed_from.max(1),
            Some(sealed) => {
                sealed.buried * 100 > sealed.graph.len() * DEAD_PERCENT
                    || hot * HOT_SHARE > sealed.len().max(self.sealed_from)
            }
        }
    }

    /// What a graph is to be built of. Copies the flat part, a few tens of milliseconds at 100,000 vectors.
    pub fn plan(&mut self) -> Plan {
        self.plans += 1;
        self.changed = Some(HashSet::new());
        let mut hot = Flat::new(self.dimensions);
        (0..self.hot.len()).for_each(|slot| hot.take_over(self.hot.codes().number(slot), &self.hot));
        Plan { number: self.plans, dimensions: self.dimensions, hot, sealed: self.sealed.clone() }
    }

    /// Uses a graph in place of what its plan was made of; what changed since then stays changed. One of an earlier plan is not used.
    ///
    /// Drop what comes back where a pause hurts nobody.
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
            sealed.bury(number);
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
        // It is in one of the two at most.
        self.hot.remove(number) || self.sealed.as_mut().is_some_and(|sealed| sealed.bury(number))
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
