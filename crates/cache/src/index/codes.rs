//! Quantised vectors: a byte per dimension, stored consecutively, with the signs as bits.

use std::collections::HashMap;

use super::kernels::Kernels;

/// A vector with a byte per dimension, and the factor that gives it length 1. Each vector has its own scale, so that
/// none loses precision because of another.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    /// Integers from −127 to 127, in proportion to the vector's values.
    pub(super) values: Vec<i8>,
    /// 1 over the length of `values`; 0 for a zero vector.
    pub(super) unit: f32,
    /// Dimensions above zero, the first in the lowest bit of the first word.
    pub(super) signs: Vec<u64>,
}

impl Code {
    /// Quantises a vector. Non-finite values count as zero.
    pub(super) fn of(vector: &[f32]) -> Self {
        let largest =
            vector.iter().filter(|value| value.is_finite()).fold(0.0_f32, |most, value| most.max(value.abs()));
        // The largest value becomes 127, also for very small vectors: dividing by it is exact, multiplying by 127 over
        // it is not.
        let step = |value: &f32| {
            let share = if value.is_finite() && largest > 0.0 { value / largest } else { 0.0 };
            (share * 127.0).round() as i8
        };
        let values: Vec<i8> = vector.iter().map(step).collect();
        let squares: i32 = values.iter().map(|value| i32::from(*value).pow(2)).sum();
        let unit = if squares == 0 { 0.0 } else { 1.0 / (squares as f32).sqrt() };
        let signs = signs(vector, |value| *value > 0.0);
        Self { values, unit, signs }
    }

    /// A code again, from its stored values. The signs of values that were rounded to 0 are lost.
    pub(super) fn again(values: &[i8], unit: f32) -> Self {
        Self { values: values.to_vec(), unit, signs: signs(values, |value| *value > 0) }
    }
}

/// A bit per value, the first in the lowest bit of the first word.
fn signs<T>(values: &[T], above: impl Fn(&T) -> bool) -> Vec<u64> {
    let word = |values: &[T]| values.iter().rev().fold(0, |word, value| word << 1 | u64::from(above(value)));
    values.chunks(64).map(word).collect()
}

/// Codes of vectors of one length, by number, without gaps.
#[derive(Clone, Debug)]
pub(super) struct Codes {
    dimensions: usize,
    values: Vec<i8>,
    units: Vec<f32>,
    signs: Vec<u64>,
    numbers: Vec<u64>,
    slots: HashMap<u64, u32>,
    pub(super) kernels: Kernels,
}

impl Codes {
    pub(super) fn new(dimensions: usize) -> Self {
        Self {
            dimensions,
            values: Vec::new(),
            units: Vec::new(),
            signs: Vec::new(),
            numbers: Vec::new(),
            slots: HashMap::new(),
            kernels: Kernels::new(),
        }
    }

    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn number(&self, slot: usize) -> u64 {
        self.numbers[slot]
    }

    pub(super) fn units(&self) -> &[f32] {
        &self.units
    }

    /// Codes of a range of slots.
    pub(super) fn codes(&self, slots: std::ops::Range<usize>) -> &[i8] {
        &self.values[slots.start * self.dimensions..slots.end * self.dimensions]
    }

    /// Words of signs per vector.
    pub(super) fn words(&self) -> usize {
        self.dimensions.div_ceil(64)
    }

    /// Signs of a range of slots.
    pub(super) fn signs(&self, slots: std::ops::Range<usize>) -> &[u64] {
        &self.signs[slots.start * self.words()..slots.end * self.words()]
    }

    /// Adds a code of the right length under a new number.
    pub(super) fn push(&mut self, number: u64, code: &Code) {
        let slot = u32::try_from(self.len()).expect("fewer vectors than 2³²: they would take a terabyte");
        self.values.extend_from_slice(&code.values);
        self.signs.extend_from_slice(&code.signs);
        self.units.push(code.unit);
        self.numbers.push(number);
        self.slots.insert(number, slot);
    }

    /// Copies the code of a new number from other codes of the same length, if they have it.
    pub(super) fn copy(&mut self, number: u64, from: &Self) {
        let Some(slot) = from.slots.get(&number).map(|slot| *slot as usize) else { return };
        self.values.extend_from_slice(from.codes(slot..slot + 1));
        self.signs.extend_from_slice(from.signs(slot..slot + 1));
        self.units.push(from.units[slot]);
        self.slots.insert(number, self.numbers.len() as u32);
        self.numbers.push(number);
    }

    /// Removes a code; the last one moves into its slot.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        let Some(slot) = self.slots.remove(&number) else { return false };
        let (slot, last) = (slot as usize, self.len() - 1);
        take(&mut self.values, slot, last, self.dimensions);
        take(&mut self.signs, slot, last, self.dimensions.div_ceil(64));
        self.units.swap_remove(slot);
        self.numbers.swap_remove(slot);
        if let Some(moved) = self.numbers.get(slot) {
            self.slots.insert(*moved, slot as u32);
        }
        true
    }

    /// Similarity of a vector of length 1 and the one in a slot.
    pub(super) fn similarity(&self, query: &[f32], slot: usize) -> f32 {
        (self.kernels.dot(query, self.codes(slot..slot + 1)) * self.units[slot]).clamp(-1.0, 1.0)
    }

    pub(super) fn bytes(&self) -> usize {
        // A hash table has one extra byte per bucket, and is at most seven eighths full.
        let bucket = size_of::<(u64, u32)>() + 1;
        self.values.capacity()
            + self.units.capacity() * size_of::<f32>()
            + (self.signs.capacity() + self.numbers.capacity()) * size_of::<u64>()
            + self.slots.capacity() * 8 / 7 * bucket
    }
}

/// Replaces a group of `width` items by the last one.
fn take<T: Copy>(items: &mut Vec<T>, slot: usize, last: usize, width: usize) {
    items.copy_within(last * width..(last + 1) * width, slot * width);
    items.truncate(last * width);
}

/// The vector scaled to length 1; all zeros if it has no direction.
pub(super) fn normalised(vector: &[f32]) -> Vec<f32> {
    let finite = |value: &f32| if value.is_finite() { *value } else { 0.0 };
    // In f64, in which squares of the largest f32 are finite.
    let squares: f64 = vector.iter().map(|value| f64::from(finite(value)).powi(2)).sum();
    let unit = if squares > 0.0 { 1.0 / squares.sqrt() } else { 0.0 };
    vector.iter().map(|value| (f64::from(finite(value)) * unit) as f32).collect()
}
