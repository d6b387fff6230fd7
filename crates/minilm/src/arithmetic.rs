//! The element-wise arithmetic of a layer. Sums have a fixed order and no system math library is used, so that every
//! machine computes the same numbers; each function is inlined where the widest registers of the processor may be used.

const LANES: usize = 8;

/// The largest magnitude in a row.
#[inline(always)]
pub(crate) fn largest(row: &[f32]) -> f32 {
    let (lanes, rest) = row.as_chunks::<LANES>();
    let mut largest = [0.0f32; LANES];
    for lane in lanes {
        for (largest, x) in largest.iter_mut().zip(lane) {
            *largest = if x.abs() > *largest { x.abs() } else { *largest };
        }
    }
    largest.iter().chain(rest).fold(0.0, |largest: f32, x| largest.max(x.abs()))
}

/// The nearest integer, for magnitudes below 2²²: the sum's lowest bits are those of the integer.
#[inline(always)]
pub(crate) fn nearest(x: f32) -> i32 {
    const SHIFT: f32 = 12_582_912.0;
    (x + SHIFT).to_bits().cast_signed().wrapping_sub(SHIFT.to_bits().cast_signed())
}

#[inline(always)]
fn sum(row: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let (lanes, rest) = row.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for lane in lanes {
        for (sum, &x) in sums.iter_mut().zip(lane) {
            *sum += of(x);
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|&x| of(x)).sum::<f32>()
}

/// Layer normalisation of each row, in place.
#[inline(always)]
pub(crate) fn layer_norm(rows: &mut [f32], weight: &[f32], bias: &[f32]) {
    const EPSILON: f32 = 1e-12;
    let width = weight.len();
    for row in rows.chunks_exact_mut(width) {
        let mean = sum(row, |x| x) / width as f32;
        let variance = sum(row, |x| (x - mean) * (x - mean)) / width as f32;
        let by = (variance + EPSILON).sqrt().recip();
        for ((x, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
            *x = (*x - mean) * by * weight + bias;
        }
    }
}

/// Normalises a row with softmax, so that it sums to 1.
#[inline(always)]
pub(crate) fn softmax(row: &mut [f32]) {
    let most = row.iter().fold(f32::NEG_INFINITY, |most, &x| if x > most { x } else { most });
    for x in &mut *row {
        *x = exp(*x - most);
    }
    let by = sum(row, |x| x).recip();
    for x in row {
        *x *= by;
    }
}

/// Gaussian error linear units, in place: x Φ(x).
#[inline(always)]
pub(crate) fn gelu(numbers: &mut [f32]) {
    for x in numbers {
        *x *= 0.5 * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2));
    }
}

/// Abramowitz and Stegun, 7.1.26; its error is below 1.5e-7, plus as much from rounding.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let polynomial = t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    (1.0 - polynomial * exp(-x * x)).copysign(x)
}

/// eˣ for x up to 88, and about 0 below −87 (Cephes' `expf`: a power of two times a polynomial of the rest).
#[inline(always)]
fn exp(x: f32) -> f32 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let power = nearest(x * std::f32::consts::LOG2_E);
    let rest = x - power as f32 * LN_2_HIGH - power as f32 * LN_2_LOW;
    let polynomial = [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5]
        .iter()
        .fold(1.987_569_1e-4, |polynomial, coefficient| polynomial * rest + coefficient);
    let value = polynomial * rest * rest + rest + 1.0;
    value * f32::from_bits(((power + 127) << 23).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn exponentials_are_accurate(x in -87.0f32..88.0) {
            let wanted = f64::from(x).exp();
            prop_assert!((f64::from(exp(x)) / wanted - 1.0).abs() < 1e-6, "{} {}", exp(x), wanted);
        }

        #[test]
        fn integers_are_the_nearest(x in -4e6f32..4e6) {
            prop_assert!((nearest(x) as f32 - x).abs() <= 0.5);
        }

        #[test]
        fn softmax_sums_to_one(mut row in prop::collection::vec(-500f32..500.0, 1..70)) {
            let most = row.iter().copied().fold(f32::MIN, f32::max);
            let first = row.iter().position(|x| x.total_cmp(&most).is_eq()).unwrap();
            softmax(&mut row);
            prop_assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            prop_assert!(row.iter().all(|&x| x >= 0.0 && x <= row[first]));
        }

        #[test]
        fn rows_are_normalised(mut row in prop::collection::vec(-50f32..50.0, 16)) {
            prop_assume!(row.iter().any(|x| (x - row[0]).abs() > 0.1));
            layer_norm(&mut row, &[2.0; 16], &[1.0; 16]);
            let mean = row.iter().sum::<f32>() / 16.0;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / 16.0;
            prop_assert!((mean - 1.0).abs() < 1e-3 && (variance - 4.0).abs() < 1e-2, "{} {}", mean, variance);
        }
    }

    #[test]
    fn erf_and_gelu_have_known_values() {
        for (x, wanted) in [(0.0, 0.0), (0.5, 0.520_499_9), (-1.0, -0.842_700_8), (2.0, 0.995_322_3), (9.0, 1.0)] {
            assert!((erf(x) - wanted).abs() < 1e-6, "{x}: {}", erf(x));
        }
        let mut numbers = [-20.0, -1.0, 0.0, 1.0, 20.0];
        gelu(&mut numbers);
        for (found, wanted) in numbers.iter().zip([0.0, -0.158_655_26, 0.0, 0.841_344_8, 20.0]) {
            assert!((found - wanted).abs() < 1e-5, "{numbers:?}");
        }
        assert!((exp(-1e30)).abs() < 1e-37 && exp(0.0).to_bits() == 1f32.to_bits());
        assert_eq!((largest(&[]).to_bits(), largest(&[1.0, -3.0]).to_bits()), (0, 3f32.to_bits()));
    }
}
