//! Vectors of length 1.

/// Scales a vector to length 1. Returns false if it has no direction.
pub fn normalise(vector: &mut [f32]) -> bool {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !(length.is_finite() && length > f32::MIN_POSITIVE) {
        return false;
    }
    let factor = length.recip();
    for x in vector {
        *x *= factor;
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn vectors_without_a_direction_are_reported() {
        assert!(!normalise(&mut []));
        assert!(!normalise(&mut [0.0, 0.0]));
        assert!(!normalise(&mut [1.0, f32::NAN]));
        assert!(!normalise(&mut [f32::INFINITY, 1.0]));
    }

    proptest! {
        #[test]
        fn lengths_become_one(mut vector in prop::collection::vec(-1e3f32..1e3, 1..500)) {
            prop_assume!(vector.iter().any(|x| x.abs() > 1e-3));
            prop_assert!(normalise(&mut vector));
            prop_assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
        }
    }
}
