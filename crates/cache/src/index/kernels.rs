//! Inner loops, compiled for any processor and for AVX2, selected at run time.
//!
//! These are plain loops that the compiler vectorises. [`pulp`] contains the one unsafe step, the call into code for a
//! detected processor.

use pulp::{Arch, NullaryFnOnce};

/// Instruction set of this processor.
#[derive(Copy, Clone, Debug)]
pub(super) struct Kernels(Arch);

impl Kernels {
    /// Detects the instruction set; the library caches the result.
    pub(super) fn new() -> Self {
        Self(Arch::new())
    }

    /// Dot product of `query` with each of the consecutive `codes`.
    ///
    /// 65,536 or more dimensions could overflow; no embedder has that many.
    pub(super) fn dots(self, query: &[i8], codes: &[i8], dots: &mut [i32]) {
        self.0.dispatch(Dots { query, codes, out: dots });
    }

    /// Dot product of a vector with a code.
    pub(super) fn dot(self, query: &[f32], code: &[i8]) -> f32 {
        self.0.dispatch(Dot { query, code })
    }

    /// Number of bits that differ between `query` and each group of `query.len()` words.
    pub(super) fn differences(self, query: &[u64], words: &[u64], differences: &mut [u32]) {
        self.0.dispatch(Differences { query, words, out: differences });
    }
}

struct Dots<'a> {
    query: &'a [i8],
    codes: &'a [i8],
    out: &'a mut [i32],
}

impl NullaryFnOnce for Dots<'_> {
    type Output = ();

    #[expect(clippy::inline_always, reason = "only what is inlined into the call is compiled for the better processor")]
    #[inline(always)]
    fn call(self) {
        for (code, dot) in self.codes.chunks_exact(self.query.len().max(1)).zip(self.out) {
            *dot = self.query.iter().zip(code).map(|(one, other)| i32::from(*one) * i32::from(*other)).sum();
        }
    }
}

struct Dot<'a> {
    query: &'a [f32],
    code: &'a [i8],
}

impl NullaryFnOnce for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        // The order of float additions is fixed within a lane: this many lanes fill two vector registers.
        const LANES: usize = 16;
        let (queries, query_rest) = self.query.as_chunks::<LANES>();
        let (codes, code_rest) = self.code.as_chunks::<LANES>();
        let mut sums = [0.0_f32; LANES];
        for (query, code) in queries.iter().zip(codes) {
            for ((sum, one), other) in sums.iter_mut().zip(query).zip(code) {
                *sum += one * f32::from(*other);
            }
        }
        let rest: f32 = query_rest.iter().zip(code_rest).map(|(one, other)| one * f32::from(*other)).sum();
        sums.iter().sum::<f32>() + rest
    }
}

struct Differences<'a> {
    query: &'a [u64],
    words: &'a [u64],
    out: &'a mut [u32],
}

impl NullaryFnOnce for Differences<'_> {
    type Output = ();

    #[expect(clippy::inline_always, reason = "only what is inlined into the call is compiled for the better processor")]
    #[inline(always)]
    fn call(self) {
        let Self { query, words, out } = self;
        // The common lengths, 256 and 384, have an unrolled loop.
        if let Ok(query) = <&[u64; 4]>::try_from(query) {
            count(query, words, out);
        } else if let Ok(query) = <&[u64; 6]>::try_from(query) {
            count(query, words, out);
        } else {
            for (code, difference) in words.chunks_exact(query.len().max(1)).zip(out) {
                *difference = query.iter().zip(code).map(|(one, other)| (one ^ other).count_ones()).sum();
            }
        }
    }
}

#[expect(clippy::inline_always, reason = "only what is inlined into the call is compiled for the better processor")]
#[inline(always)]
fn count<const WORDS: usize>(query: &[u64; WORDS], words: &[u64], differences: &mut [u32]) {
    for (code, difference) in words.as_chunks::<WORDS>().0.iter().zip(differences) {
        *difference = query.iter().zip(code).map(|(one, other)| (one ^ other).count_ones()).sum();
    }
}
