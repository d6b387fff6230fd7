//! Flat index: scans all vectors, by a byte per dimension or, for many vectors, by a bit per dimension first.

use super::{
    Near, VectorIndex,
    best::{Best, rank},
    codes::{Code, Codes, normalised},
};

/// Vectors from which on signs are compared first. Determined by `benches/index`.
const SIFTED_FROM: usize = 2_000;
/// Vectors with the fewest differing signs that are compared in full. Determined by `benches/index`.
const SIFTED: usize = 256;
/// Best vectors by the quantised query that are compared in full.
const SCANNED: usize = 32;
/// Vectors scanned together. Their intermediate results fit the processor's first-level cache.
const BLOCK: usize = 512;

/// An index without structure: exact up to rounding below a threshold, and with a prefilter above it. Removed vectors
/// leave nothing behind.
///
/// A vector is stored as a byte per dimension, with a scale of its own. The query is quantised in the same way for the
/// scan, and the best few are compared again with the original query. The prefilter counts differing signs, which
/// increase with the angle between two vectors (Charikar, *Similarity estimation techniques from rounding algorithms*,
/// 2002, with the axes as hyperplanes).
#[derive(Clone, Debug)]
pub struct Flat {
    codes: Codes,
    sifted_from: usize,
    sifted: usize,
}

impl Flat {
    /// Creates an index for vectors of this length.
    pub fn new(dimensions: usize) -> Self {
        Self { codes: Codes::new(dimensions), sifted_from: SIFTED_FROM, sifted: SIFTED }
    }

    /// Disables the prefilter.
    #[must_use]
    pub fn scanned(self) -> Self {
        Self { sifted_from: usize::MAX, ..self }
    }

    /// Always uses the prefilter, with `keep` survivors.
    #[must_use]
    pub fn sifted(self, keep: usize) -> Self {
        Self { sifted_from: 0, sifted: keep, ..self }
    }

    /// The codes, for building another index.
    pub(super) fn codes(&self) -> &Codes {
        &self.codes
    }

    /// Adds a code under a new number.
    pub(super) fn add(&mut self, number: u64, code: &Code) {
        self.codes.push(number, code);
    }

    /// Copies a new number's vector from another index.
    pub(super) fn take_over(&mut self, number: u64, from: &Self) {
        self.codes.copy(number, &from.codes);
    }

    fn scan(&self, vector: &[f32], most: usize) -> Best {
        let query = Code::of(vector);
        let mut best = Best::new(most.max(SCANNED));
        let mut dots = [0; BLOCK];
        for start in (0..self.codes.len()).step_by(BLOCK) {
            let end = self.codes.len().min(start + BLOCK);
            self.codes.kernels.dots(&query.values, self.codes.codes(start..end), &mut dots);
            for ((slot, unit), dot) in (start..end).zip(&self.codes.units()[start..end]).zip(dots) {
                best.offer(rank(dot as f32 * unit), slot);
            }
        }
        best
    }

    fn sift(&self, vector: &[f32], most: usize) -> Best {
        let query = Code::of(vector);
        let mut best = Best::new(self.sifted.max(most));
        let mut differences = [0; BLOCK];
        for start in (0..self.codes.len()).step_by(BLOCK) {
            let end = self.codes.len().min(start + BLOCK);
            self.codes.kernels.differences(&query.signs, self.codes.signs(start..end), &mut differences);
            for (slot, difference) in (start..end).zip(differences) {
                best.offer(difference, slot);
            }
        }
        best
    }
}

impl VectorIndex for Flat {
    fn insert(&mut self, number: u64, vector: &[f32]) {
        self.remove(number);
        if vector.len() == self.codes.dimensions() {
            self.codes.push(number, &Code::of(vector));
        }
    }

    fn remove(&mut self, number: u64) -> bool {
        self.codes.remove(number)
    }

    fn search(&self, vector: &[f32], most: usize, near: &mut Vec<Near>) {
        near.clear();
        if vector.len() != self.codes.dimensions() || most == 0 {
            return;
        }
        let vector = normalised(vector);
        let found =
            if self.codes.len() < self.sifted_from { self.scan(&vector, most) } else { self.sift(&vector, most) };
        near.extend(
            found
                .slots()
                .map(|slot| Near { number: self.codes.number(slot), similarity: self.codes.similarity(&vector, slot) }),
        );
        near.sort_unstable_by(Near::nearest_first);
        near.truncate(most);
    }

    fn len(&self) -> usize {
        self.codes.len()
    }

    fn bytes(&self) -> usize {
        self.codes.bytes()
    }
}
