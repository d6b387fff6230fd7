//! The inner loops, compiled once for any processor and once for those with AVX2, and chosen as the program runs.
//!
//! They are plain loops that the compiler turns into vector instructions; [`pulp`] holds the one unsafe step, the call into
//! code for a processor that was found to be there.

use pulp::{Arch, NullaryFnOnce};

/// What this processor can do.
#[derive(Copy, Clone, Debug)]
pub(super) struct Kernels(Arch);

impl Kernels {
    /// Finds out once what there is; the answer is cached by the library.
    pub(super) fn new() -> Self {
        Self(Arch::new())
    }

    /// For each code of `codes`, one after the other and each as long as `query`, its dot product with `query`.
    ///
    /// 65,536 dimensions and more could overflow; no embedder has so many.
    pub(super) fn dots(self, query: &[i8], codes: &[i8], dots: &mut [i32]) {
        self.0.dispatch(Dots { query, codes, out: dots });
    }

    /// The dot product of a vector with a code.
    pub(super) fn dot(self, query: &[f32], code: &[i8]) -> f32 {
        self.0.dispatch(Dot { query, code })
    }

    /// For each group of `query.len()` words of `words`, how many bits differ from those of `query`.
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
        // Sums of floats keep their order unless they are told apart: so many of them fill two vector registers.
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
        // The usual lengths, 256 and 384, are worth a loop that is unrolled.
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
