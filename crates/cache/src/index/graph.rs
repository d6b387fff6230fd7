//! Immutable graph of vectors, by [`hnsw_rs`].

use std::{collections::HashMap, fmt};

use hnsw_rs::prelude::{Distance, Hnsw};

use super::{
    Near,
    codes::{Code, Codes},
    kernels::Kernels,
};

/// Neighbours of a vector per layer (`M` of the paper).
const NEIGHBOURS: usize = 16;
/// Candidates weighed for them (`ef_construction`). Twice as many take twice as long to build a graph that finds as much
/// in the same time of search.
const WEIGHED: usize = 64;
const LAYERS: usize = 16;
/// Bytes of the unit (`Code::unit`) behind each code, since the library passes only vectors to the distance function.
const UNIT: usize = size_of::<f32>();

/// A Hierarchical Navigable Small World graph (Malkov and Yashunin, 2016) over codes of a byte per dimension.
///
/// The library supports neither deletion nor replacement; the user of the graph tracks dead points.
pub(super) struct Graph {
    hnsw: Hnsw<'static, i8, Angle>,
    /// Number of each point.
    numbers: Vec<u64>,
    /// Point of each number.
    points: HashMap<u64, u32>,
    dimensions: usize,
}

impl Graph {
    /// Creates an empty graph for this many vectors of one length.
    pub(super) fn new(dimensions: usize, vectors: usize) -> Self {
        let angle = Angle(Kernels::new());
        Self {
            hnsw: Hnsw::new(NEIGHBOURS, vectors, LAYERS, WEIGHED, angle),
            numbers: Vec::with_capacity(vectors),
            points: HashMap::with_capacity(vectors),
            dimensions,
        }
    }

    /// Adds all codes, in up to a millisecond each.
    pub(super) fn add_codes(&mut self, codes: &Codes) {
        for slot in 0..codes.len() {
            self.add(codes.number(slot), &with_unit(codes.codes(slot..slot + 1), codes.units()[slot]));
        }
    }

    /// Adds the live points of another graph.
    pub(super) fn add_graph(&mut self, other: &Self, counts: impl Fn(u32) -> bool) {
        for point in other.hnsw.get_point_indexation() {
            let origin = point.get_origin_id();
            if counts(origin as u32) {
                self.add(other.numbers[origin], point.get_v());
            }
        }
    }

    /// Passes numbers and codes of the live points to `take`, in no order.
    pub(super) fn each(&self, counts: impl Fn(u32) -> bool, mut take: impl FnMut(u64, Code)) {
        for point in self.hnsw.get_point_indexation() {
            let origin = point.get_origin_id();
            if counts(origin as u32) {
                let (values, unit) = parts(point.get_v());
                take(self.numbers[origin], Code::again(values, unit));
            }
        }
    }

    /// Sequential: the library's parallel insertion would occupy all processors.
    fn add(&mut self, number: u64, point: &[i8]) {
        self.points.insert(number, self.numbers.len() as u32);
        self.hnsw.insert((point, self.numbers.len()));
        self.numbers.push(number);
    }

    /// Point of a number.
    pub(super) fn point(&self, number: u64) -> Option<u32> {
        self.points.get(&number).copied()
    }

    /// Number of points.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Adds the nearest live points to `near`, in no order, from `ef` candidates.
    ///
    /// Dead points are filtered from the candidates afterwards: the library's own filter visits most of the graph when
    /// few points are live.
    pub(super) fn search(
        &self,
        vector: &[f32],
        most: usize,
        candidates: usize,
        counts: impl Fn(u32) -> bool,
        near: &mut Vec<Near>,
    ) {
        let query = Code::of(vector);
        let candidates = candidates.max(most);
        let found = self.hnsw.search(&with_unit(&query.values, query.unit), candidates, candidates);
        // These are distances of quantised vectors, so twice as many as requested are compared with the original query.
        let counted = found.iter().filter(|neighbour| counts(neighbour.d_id as u32)).take(2 * most);
        near.extend(counted.filter_map(|neighbour| {
            let point = self.hnsw.get_point_indexation().get_point_data(&neighbour.p_id)?;
            let (code, unit) = parts(&point);
            let similarity = (self.hnsw.get_distance().0.dot(vector, code) * unit).clamp(-1.0, 1.0);
            Some(Near { number: self.numbers[neighbour.d_id], similarity })
        }));
    }

    /// Size in bytes, by the library's layout: a vector, an entry per layer, and a shared reference per neighbour.
    pub(super) fn bytes(&self) -> usize {
        let pointers = 2 * size_of::<usize>();
        let place = size_of::<usize>() + pointers + size_of::<(usize, f32)>();
        let point = self.dimensions + UNIT + pointers + LAYERS * size_of::<Vec<u8>>() + 2 * NEIGHBOURS * place;
        let own = size_of::<u64>() + (size_of::<(u64, u32)>() + 1) * 8 / 7;
        self.len() * (point + own)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("points", &self.numbers.len()).finish_non_exhaustive()
    }
}

fn with_unit(code: &[i8], unit: f32) -> Vec<i8> {
    code.iter().copied().chain(unit.to_le_bytes().map(u8::cast_signed)).collect()
}

fn parts(point: &[i8]) -> (&[i8], f32) {
    let (code, unit) = point.split_last_chunk::<UNIT>().unwrap_or((point, &[0; UNIT]));
    (code, f32::from_le_bytes(unit.map(i8::cast_unsigned)))
}

/// One minus the cosine, at least 0: rounding could otherwise make it negative, and the library panics at that.
#[derive(Copy, Clone)]
struct Angle(Kernels);

impl Distance<i8> for Angle {
    fn eval(&self, one: &[i8], other: &[i8]) -> f32 {
        let ((one, one_unit), (other, other_unit)) = (parts(one), parts(other));
        let mut dot = [0];
        self.0.dots(one, other, &mut dot);
        (1.0 - dot[0] as f32 * one_unit * other_unit).max(0.0)
    }
}
