//! The forward pass of a BERT-like model, on one thread.

use pulp::{Arch, NullaryFnOnce};

use crate::{
    arithmetic::{gelu, layer_norm},
    attention::attend,
    packed::{Grid, Packed},
    weights::{Layer, Norm, Weights},
};

/// A model ready for inference.
#[derive(Debug)]
pub struct Engine {
    /// A row of i8 for each word piece, and its scale.
    words: Vec<u8>,
    scales: Vec<f32>,
    hidden: usize,
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    query_key_value: Packed,
    output: Packed,
    attention_norm: Norm,
    up: Packed,
    down: Packed,
    norm: Norm,
}

/// Memory reused by the texts of a batch.
#[derive(Debug, Default)]
pub struct Scratch {
    states: Vec<f32>,
    wide: Vec<f32>,
    results: Vec<f32>,
    grid: Grid,
    keys: Vec<f32>,
}

impl Engine {
    /// Copies the weights, with the matrices in their order of use.
    pub fn new(weights: Weights<'_>) -> Self {
        let Weights { words, positions, norm, layers } = weights;
        let layers = layers.into_iter().map(Block::new).collect();
        Self { words: words.bytes.to_vec(), scales: words.scales, hidden: words.columns, positions, norm, layers }
    }

    /// The mean of the last layer's states. `pieces` must be word pieces, and no more than the positions, of the model.
    pub fn forward(&self, pieces: &[u32], scratch: &mut Scratch) -> Vec<f32> {
        let hidden = self.hidden;
        let states = &mut scratch.states;
        states.clear();
        for (&piece, position) in pieces.iter().zip(self.positions.chunks_exact(hidden)) {
            let row = &self.words[piece as usize * hidden..][..hidden];
            let scale = self.scales[piece as usize];
            states.extend(row.iter().zip(position).map(|(byte, at)| scale * f32::from(byte.cast_signed()) + at));
        }
        Arch::new().dispatch(AddAndNorm { states, more: &[], norm: &self.norm });
        for layer in &self.layers {
            layer.forward(hidden, scratch);
        }
        let mut mean = vec![0.0; hidden];
        for row in scratch.states.chunks_exact(hidden) {
            for (sum, x) in mean.iter_mut().zip(row) {
                *sum += x / pieces.len() as f32;
            }
        }
        mean
    }
}

impl Block {
    fn new(layer: Layer<'_>) -> Self {
        Self {
            query_key_value: Packed::new(&[&layer.query, &layer.key, &layer.value]),
            output: Packed::new(&[&layer.output]),
            attention_norm: layer.attention_norm,
            up: Packed::new(&[&layer.up]),
            down: Packed::new(&[&layer.down]),
            norm: layer.norm,
        }
    }

    fn forward(&self, hidden: usize, scratch: &mut Scratch) {
        let Scratch { states, wide, results, grid, keys } = scratch;
        self.query_key_value.times(states, grid, wide);
        attend(wide, hidden, keys, results);
        self.output.times(results, grid, wide);
        Arch::new().dispatch(AddAndNorm { states, more: wide, norm: &self.attention_norm });
        self.up.times(states, grid, wide);
        Arch::new().dispatch(Gelu(wide));
        self.down.times(wide, grid, results);
        Arch::new().dispatch(AddAndNorm { states, more: results, norm: &self.norm });
    }
}

/// Adds `more` to the states and normalises the sum.
struct AddAndNorm<'a> {
    states: &'a mut [f32],
    more: &'a [f32],
    norm: &'a Norm,
}

impl NullaryFnOnce for AddAndNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (state, more) in self.states.iter_mut().zip(self.more) {
            *state += more;
        }
        layer_norm(self.states, &self.norm.weight, &self.norm.bias);
    }
}

/// Gaussian error linear units, in place.
struct Gelu<'a>(&'a mut [f32]);

impl NullaryFnOnce for Gelu<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        gelu(self.0);
    }
}
