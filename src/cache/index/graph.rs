//! A graph of vectors that does not change any more, by [`hnsw_rs`].

use std::{collections::HashMap, fmt};

use hnsw_rs::prelude::{Distance, Hnsw};

use super::{
    Near,
    codes::{Code, Codes},
    kernels::Kernels,
};

/// Neighbours of a vector on a layer (`M` of the paper).
const NEIGHBOURS: usize = 16;
/// How many candidates are weighed for them (`ef_construction`).
const WEIGHED: usize = 128;
const LAYERS: usize = 16;
/// A unit (`Code::unit`) lies in so many bytes behind each code, since the library hands vectors alone to the distance.
const UNIT: usize = size_of::<f32>();

/// A Hierarchical Navigable Small World graph (Malkov and Yashunin, 2016) over codes in a byte a dimension.
///
/// The library knows no deletion and no replacement; whoever uses the graph remembers what of it counts no more.
pub(super) struct Graph {
    hnsw: Hnsw<'static, i8, Angle>,
    /// The number of each point.
    numbers: Vec<u64>,
    /// The point of each number.
    points: HashMap<u64, u32>,
    dimensions: usize,
}

impl Graph {
    /// An empty graph for so many vectors of a length.
    pub(super) fn new(dimensions: usize, vectors: usize) -> Self {
        let angle = Angle(Kernels::new());
        Self {
            hnsw: Hnsw::new(NEIGHBOURS, vectors, LAYERS, WEIGHED, angle),
            numbers: Vec::with_capacity(vectors),
            points: HashMap::with_capacity(vectors),
            dimensions,
        }
    }

    /// Adds all codes. About a millisecond each.
    pub(super) fn add_codes(&mut self, codes: &Codes) {
        for slot in 0..codes.len() {
            self.add(codes.number(slot), &with_unit(codes.codes(slot..slot + 1), codes.units()[slot]));
        }
    }

    /// Adds what of another graph still counts.
    pub(super) fn add_graph(&mut self, other: &Self, counts: impl Fn(u32) -> bool) {
        for point in other.hnsw.get_point_indexation() {
            let origin = point.get_origin_id();
            if counts(origin as u32) {
                self.add(other.numbers[origin], point.get_v());
            }
        }
    }

    /// One after the other: the library's parallel insertion would take every processor from those who serve.
    fn add(&mut self, number: u64, point: &[i8]) {
        self.points.insert(number, self.numbers.len() as u32);
        self.hnsw.insert((point, self.numbers.len()));
        self.numbers.push(number);
    }

    /// The point of a number.
    pub(super) fn point(&self, number: u64) -> Option<u32> {
        self.points.get(&number).copied()
    }

    /// How many points it has.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Adds to `near` the nearest of those that count, in no order, from so many candidates (`ef`).
    ///
    /// What counts is told from the candidates when they are found: the library's own filter goes through most of the graph where little counts.
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
        // The distances are those of two rounded vectors: twice as many as are asked for are compared with the query as it came.
        let counted = found.iter().filter(|neighbour| counts(neighbour.d_id as u32)).take(2 * most);
        near.extend(counted.filter_map(|neighbour| {
            let point = self.hnsw.get_point_indexation().get_point_data(&neighbour.p_id)?;
            let (code, unit) = parts(&point);
            let similarity = (self.hnsw.get_distance().0.dot(vector, code) * unit).clamp(-1.0, 1.0);
            Some(Near { number: self.numbers[neighbour.d_id], similarity })
        }));
    }

    /// What it takes, in bytes, by what the library keeps: a vector, an entry for each layer, and for each neighbour a shared place.
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

/// One less the cosine, never below 0: rounding would otherwise make vectors nearer than identical, at which the library panics.
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
