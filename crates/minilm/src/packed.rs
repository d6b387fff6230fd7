//! Products of `f32` rows and an `i8` matrix in integer arithmetic.
//!
//! Each row is quantised with its own scale, as finely as 32-bit sums allow: 14 bits and more, so that the additional
//! error is negligible beside that of the weights. Integer sums do not depend on their order, so every machine computes
//! the same vectors. With AVX2, two neighbours of a row are multiplied with two weights and added in one instruction
//! (`vpmaddwd`).

#[cfg(target_arch = "x86_64")]
use pulp::x86::V3;
use pulp::{Arch, NullaryFnOnce};

use crate::{
    arithmetic::{largest, nearest},
    weights::Linear,
};

/// Number of outputs computed together.
const BLOCK: usize = 16;
/// Number of rows computed together: 12 sums, two vectors of weights and a number then fill the 16 registers of AVX2.
const TILE: usize = 6;

/// Two neighbours of a row, or two weights of one output.
type Pair<T> = [T; 2];

/// A weight matrix in its order of use.
#[derive(Debug)]
pub(crate) struct Packed {
    /// For each block of outputs and each pair of inputs, the two weights of each output.
    weights: Vec<[Pair<i8>; BLOCK]>,
    /// The scale of each output's weights, and its bias.
    scales: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
    /// The largest quantised number whose sums cannot overflow.
    limit: f32,
}

/// Quantised rows.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    integers: Vec<i16>,
    scales: Vec<f32>,
}

impl Packed {
    /// Joins matrices with the same inputs into one, with their outputs in order.
    pub(crate) fn new(parts: &[&Linear<'_>]) -> Self {
        let inputs = parts[0].rows.columns;
        let bias: Vec<f32> = parts.iter().flat_map(|part| part.bias.iter().copied()).collect();
        let scales = parts.iter().flat_map(|part| part.rows.scales.iter().copied()).collect();
        let rows: Vec<&[u8]> = parts.iter().flat_map(|part| part.rows.bytes.chunks_exact(inputs)).collect();
        let weight = |output: usize, input: usize| {
            rows.get(output).and_then(|row| row.get(input)).map_or(0, |byte| byte.cast_signed())
        };
        let weights = (0..rows.len().div_ceil(BLOCK)).flat_map(|block| {
            (0..inputs / 2).map(move |pair| {
                std::array::from_fn(|lane| [0, 1].map(|which| weight(block * BLOCK + lane, 2 * pair + which)))
            })
        });
        let most = i32::MAX as usize / (usize::from(i8::MIN.unsigned_abs()) * inputs);
        Self { weights: weights.collect(), scales, bias, inputs, limit: most.min(i16::MAX as usize) as f32 }
    }

    /// Number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Multiplies each row of `numbers` with the matrix and writes the results row by row.
    pub(crate) fn times(&self, numbers: &[f32], grid: &mut Grid, results: &mut Vec<f32>) {
        grid.set(numbers, self.inputs, self.limit);
        results.clear();
        results.resize(grid.scales.len() * self.outputs(), 0.0);
        match Arch::new() {
            #[cfg(target_arch = "x86_64")]
            Arch::V3(simd) => simd.vectorize(Avx2 { simd, packed: self, grid, results }),
            _ => self.blocks(grid, results, portable::<TILE>),
        }
    }

    #[inline(always)]
    fn blocks(
        &self,
        grid: &Grid,
        results: &mut [f32],
        sums: impl Fn(&[[Pair<i8>; BLOCK]], [&[Pair<i16>]; TILE]) -> [[i32; BLOCK]; TILE],
    ) {
        let (pairs, outputs) = (self.inputs / 2, self.outputs());
        let (numbers, _) = grid.integers.as_chunks::<2>();
        for (block, weights) in self.weights.chunks_exact(pairs).enumerate() {
            let first = block * BLOCK;
            let width = BLOCK.min(outputs - first);
            for tile in (0..grid.scales.len()).step_by(TILE) {
                let rows = TILE.min(grid.scales.len() - tile);
                // Beyond the last row, that row is repeated and its result dropped.
                let row = |at: usize| &numbers[(tile + at.min(rows - 1)) * pairs..][..pairs];
                let sums = sums(weights, std::array::from_fn(row));
                for (at, sums) in sums.iter().enumerate().take(rows) {
                    let scale = grid.scales[tile + at];
                    let results = &mut results[(tile + at) * outputs + first..][..width];
                    let by = self.scales[first..][..width].iter().zip(&self.bias[first..][..width]);
                    for ((result, sum), (weight, bias)) in results.iter_mut().zip(sums).zip(by) {
                        *result = *sum as f32 * (scale * weight) + bias;
                    }
                }
            }
        }
    }
}

/// The sums of a block of outputs for some rows, in portable code.
#[inline(always)]
fn portable<const ROWS: usize>(weights: &[[Pair<i8>; BLOCK]], rows: [&[Pair<i16>]; ROWS]) -> [[i32; BLOCK]; ROWS] {
    let mut sums = [[0; BLOCK]; ROWS];
    for (at, weights) in weights.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            let [one, other] = row[at].map(i32::from);
            for (sum, weight) in sums.iter_mut().zip(weights) {
                let more = one * i32::from(weight[0]) + other * i32::from(weight[1]);
                // Only NaN inputs can overflow 32 bits, and their results do not matter.
                *sum = i32::wrapping_add(*sum, more);
            }
        }
    }
    sums
}

/// The same with AVX2.
#[cfg(target_arch = "x86_64")]
struct Avx2<'a> {
    simd: V3,
    packed: &'a Packed,
    grid: &'a Grid,
    results: &'a mut [f32],
}

#[cfg(target_arch = "x86_64")]
impl NullaryFnOnce for Avx2<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { simd, packed, grid, results } = self;
        packed.blocks(grid, results, |weights, rows| avx2(simd, weights, rows));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn avx2<const ROWS: usize>(
    simd: V3,
    weights: &[[Pair<i8>; BLOCK]],
    rows: [&[Pair<i16>]; ROWS],
) -> [[i32; BLOCK]; ROWS] {
    let (avx, avx2) = (simd.avx, simd.avx2);
    let rows = rows.map(|row| &row[..weights.len()]);
    let mut sums = [[avx._mm256_setzero_si256(); 2]; ROWS];
    for (at, weights) in weights.iter().enumerate() {
        let weights: [[i8; 16]; 2] = pulp::cast(*weights);
        let weights = weights.map(|half| avx2._mm256_cvtepi8_epi16(pulp::cast(half)));
        for (sums, row) in sums.iter_mut().zip(rows) {
            let pair = avx._mm256_set1_epi32(pulp::cast(row[at]));
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = avx2._mm256_add_epi32(*sum, avx2._mm256_madd_epi16(pair, weights));
            }
        }
    }
    sums.map(pulp::cast)
}

impl Grid {
    /// Quantises rows of `width` numbers to integers of magnitude `limit` at most.
    fn set(&mut self, numbers: &[f32], width: usize, limit: f32) {
        self.integers.resize(numbers.len(), 0);
        self.scales.clear();
        Arch::new().dispatch(Setting { numbers, width, limit, grid: self });
    }
}

/// The work of [`Grid::set`], for dispatch by instruction set.
struct Setting<'a> {
    numbers: &'a [f32],
    width: usize,
    limit: f32,
    grid: &'a mut Grid,
}

impl NullaryFnOnce for Setting<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Grid { integers, scales } = self.grid;
        let rows = self.numbers.chunks_exact(self.width);
        for (row, integers) in rows.zip(integers.chunks_exact_mut(self.width)) {
            let largest = largest(row).max(f32::MIN_POSITIVE);
            scales.push(largest / self.limit);
            let by = self.limit / largest;
            for (number, integer) in row.iter().zip(integers) {
                *integer = nearest(number * by) as i16;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::weights::Rows;

    /// A matrix of `outputs` by `inputs` and rows of numbers, derived from a seed.
    fn made(seed: u64, outputs: usize, inputs: usize, rows: usize) -> (Vec<u8>, Vec<f32>, Vec<f32>, Vec<f32>) {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes = (0..outputs * inputs).map(|_| random.u8(..)).collect();
        let mut floats = |many: usize, by: f32| (0..many).map(|_| (random.f32() - 0.5) * by).collect::<Vec<_>>();
        let scales = floats(outputs, 0.02).into_iter().map(|scale| scale.abs() + 1e-4).collect();
        (bytes, scales, floats(outputs, 1.0), floats(rows * inputs, 8.0))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn products_are_those_of_real_numbers_on_every_machine(
            seed in any::<u64>(), outputs in 1usize..40, half in 1usize..40, rows in 0usize..14,
        ) {
            let inputs = 2 * half;
            let (bytes, scales, bias, numbers) = made(seed, outputs, inputs, rows);
            let linear = Linear { rows: Rows { bytes: &bytes, scales: scales.clone(), columns: inputs }, bias: bias.clone() };
            let packed = Packed::new(&[&linear]);
            let (mut grid, mut results) = (Grid::default(), Vec::new());
            packed.times(&numbers, &mut grid, &mut results);
            let mut anywhere = vec![0.0; results.len()];
            packed.blocks(&grid, &mut anywhere, portable::<TILE>);
            prop_assert_eq!(&results, &anywhere);
            for (row, results) in numbers.chunks_exact(inputs).zip(results.chunks_exact(outputs)) {
                for (output, result) in results.iter().enumerate() {
                    let weights = bytes[output * inputs..][..inputs].iter().map(|byte| f64::from(byte.cast_signed()));
                    let sum: f64 = weights.zip(row).map(|(weight, &x)| weight * f64::from(x)).sum();
                    let wanted = sum * f64::from(scales[output]) + f64::from(bias[output]);
                    prop_assert!((wanted - f64::from(*result)).abs() < 1e-3 * wanted.abs().max(1.0), "{} {}", wanted, result);
                }
            }
        }
    }

    #[test]
    fn the_largest_sums_do_not_overflow() {
        let (outputs, inputs) = (3, 4096);
        let bytes = vec![0x80; outputs * inputs];
        let rows = Rows { bytes: &bytes, scales: vec![1.0; outputs], columns: inputs };
        let packed = Packed::new(&[&Linear { rows, bias: vec![0.0; outputs] }]);
        let mut results = Vec::new();
        packed.times(&vec![1.0; inputs], &mut Grid::default(), &mut results);
        for result in results {
            assert!((result + 128.0 * 4096.0).abs() < 1.0, "{result}");
        }
    }

    #[test]
    fn nan_inputs_do_not_panic() {
        let rows = Rows { bytes: &[1, 2, 3, 4], scales: vec![1.0; 2], columns: 2 };
        let packed = Packed::new(&[&Linear { rows, bias: vec![0.0; 2] }]);
        let mut results = Vec::new();
        packed.times(&[f32::NAN, f32::INFINITY, 0.0, 0.0, -0.0, f32::MIN_POSITIVE], &mut Grid::default(), &mut results);
        assert_eq!((results.len(), &results[2..4]), (6, &[0.0, 0.0][..]));
    }
}
