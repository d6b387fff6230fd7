//! The flat index: everything is looked at, in a byte a dimension or, where that is much, in a bit a dimension first.

use super::{
    Near, VectorIndex,
    best::{Best, rank},
    codes::{Code, Codes, normalised},
};

/// From how many vectors on their signs are looked at first. By `benches/index`.
const SIFTED_FROM: usize = 2_000;
/// How many of those whose signs differ least are compared in full. By `benches/index`.
const SIFTED: usize = 256;
/// How many, by rounded query, are compared in full.
const SCANNED: usize = 32;
/// So many are looked at together. What is worked out of them fits the first cache of the processor.
const BLOCK: usize = 512;

/// An index without structure: exact up to rounding below a size, and by a prefilter above it. Vectors go at once and leave nothing behind.
///
/// A vector is kept in a byte a dimension, with a scale of its own. A query is rounded in the same way for the scan, and the best
/// few are compared anew with the query as it came. The prefilter counts by how many signs two vectors differ, which grows with the
/// angle between them (Charikar, *Similarity estimation techniques from rounding algorithms*, 2002, with the axes for hyperplanes).
#[derive(Debug)]
pub struct Flat {
    codes: Codes,
    sifted_from: usize,
    sifted: usize,
}

impl Flat {
    /// For vectors of a length.
    pub fn new(dimensions: usize) -> Self {
        Self { codes: Codes::new(dimensions), sifted_from: SIFTED_FROM, sifted: SIFTED }
    }

    /// One that always compares all bytes.
    #[must_use]
    pub fn scanned(self) -> Self {
        Self { sifted_from: usize::MAX, ..self }
    }

    /// One that always looks at signs first and keeps so many.
    #[must_use]
    pub fn sifted(self, keep: usize) -> Self {
        Self { sifted_from: 0, sifted: keep, ..self }
    }

    /// The codes themselves, for whoever builds another index of them.
    pub(super) fn codes(&self) -> &Codes {
        &self.codes
    }

    /// Adds what another index holds under a number, which is not in this one yet.
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
