//! The weights of a BERT-like sentence model, read from a safetensors file with i8 matrices and one scale per row.

use safetensors::{Dtype, SafeTensors};

use crate::attention::HEAD;

/// Upper bounds of layers and of rows or columns, beyond any such model.
const MOST_LAYERS: usize = 64;
const MOST: usize = 1 << 20;

/// A file without the expected weights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// It is not a safetensors file.
    #[error("not a safetensors file: {0}")]
    File(String),
    /// A tensor is missing.
    #[error("it has no tensor {0}")]
    Missing(String),
    /// A tensor has another type or shape.
    #[error("its tensor {name} is {found}, where {wanted} is expected")]
    Kind {
        /// Its name.
        name: String,
        /// The type and shape found.
        found: String,
        /// The expected type or shape.
        wanted: String,
    },
    /// A width is not supported.
    #[error("it is {width} wide, which is not a multiple of {of}")]
    Width {
        /// The width.
        width: usize,
        /// The number it must be a multiple of.
        of: usize,
    },
    /// A tensor contains numbers that are not finite.
    #[error("its tensor {0} has numbers that are not finite")]
    Number(String),
}

/// All weights of a model. Matrices borrow from the file.
#[derive(Debug)]
pub struct Weights<'a> {
    /// A row for each word piece.
    pub(crate) words: Rows<'a>,
    /// A row for each position, with the first token type added, which all texts have here.
    pub(crate) positions: Vec<f32>,
    pub(crate) norm: Norm,
    pub(crate) layers: Vec<Layer<'a>>,
}

/// The weights of one layer.
#[derive(Debug)]
pub(crate) struct Layer<'a> {
    pub(crate) query: Linear<'a>,
    pub(crate) key: Linear<'a>,
    pub(crate) value: Linear<'a>,
    pub(crate) output: Linear<'a>,
    pub(crate) attention_norm: Norm,
    pub(crate) up: Linear<'a>,
    pub(crate) down: Linear<'a>,
    pub(crate) norm: Norm,
}

/// Rows of i8, each with a scale.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) scales: Vec<f32>,
    pub(crate) columns: usize,
}

/// A matrix with a row for each output, and its bias.
#[derive(Debug)]
pub(crate) struct Linear<'a> {
    pub(crate) rows: Rows<'a>,
    pub(crate) bias: Vec<f32>,
}

/// Weights of a layer normalisation.
#[derive(Debug)]
pub(crate) struct Norm {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

impl<'a> Weights<'a> {
    /// Reads a file. For any content, the result has consistent shapes.
    pub fn read(file: &'a [u8]) -> Result<Self, WeightsError> {
        let file = File(SafeTensors::deserialize(file).map_err(|error| WeightsError::File(error.to_string()))?);
        let words = file.rows("embeddings.word_embeddings.weight", None, None)?;
        let hidden = words.columns;
        if !hidden.is_multiple_of(HEAD) {
            return Err(WeightsError::Width { width: hidden, of: HEAD });
        }
        let types = file.numbers("embeddings.token_type_embeddings.weight", &[None, Some(hidden)])?;
        let mut positions = file.numbers("embeddings.position_embeddings.weight", &[None, Some(hidden)])?;
        for row in positions.chunks_exact_mut(hidden) {
            for (sum, one) in row.iter_mut().zip(&types) {
                *sum += one;
            }
        }
        let layers = (0..MOST_LAYERS)
            .map(|number| format!("encoder.layer.{number}"))
            .take_while(|name| file.has(&format!("{name}.attention.self.query.weight")))
            .map(|name| file.layer(&name, hidden))
            .collect::<Result<Vec<_>, _>>()?;
        if layers.is_empty() {
            return Err(WeightsError::Missing("encoder.layer.0.attention.self.query.weight".to_owned()));
        }
        Ok(Self { words, positions, norm: file.norm("embeddings.LayerNorm", hidden)?, layers })
    }

    /// The length of the model's vectors.
    pub const fn hidden(&self) -> usize {
        self.words.columns
    }

    /// The longest text in tokens.
    pub const fn longest(&self) -> usize {
        self.positions.len() / self.words.columns
    }

    /// Number of word pieces.
    pub const fn pieces(&self) -> usize {
        self.words.scales.len()
    }
}

/// A parsed file.
struct File<'a>(SafeTensors<'a>);

impl<'a> File<'a> {
    fn has(&self, name: &str) -> bool {
        self.0.tensor(name).is_ok()
    }

    fn layer(&self, name: &str, hidden: usize) -> Result<Layer<'a>, WeightsError> {
        let square = |part: &str| self.linear(&format!("{name}.attention.{part}"), Some(hidden), Some(hidden));
        let up = self.linear(&format!("{name}.intermediate.dense"), None, Some(hidden))?;
        if !up.bias.len().is_multiple_of(2) {
            return Err(WeightsError::Width { width: up.bias.len(), of: 2 });
        }
        let down = self.linear(&format!("{name}.output.dense"), Some(hidden), Some(up.bias.len()))?;
        Ok(Layer {
            query: square("self.query")?,
            key: square("self.key")?,
            value: square("self.value")?,
            output: square("output.dense")?,
            attention_norm: self.norm(&format!("{name}.attention.output.LayerNorm"), hidden)?,
            up,
            down,
            norm: self.norm(&format!("{name}.output.LayerNorm"), hidden)?,
        })
    }

    fn linear(&self, name: &str, rows: Option<usize>, columns: Option<usize>) -> Result<Linear<'a>, WeightsError> {
        let rows = self.rows(&format!("{name}.weight"), rows, columns)?;
        let bias = self.numbers(&format!("{name}.bias"), &[Some(rows.scales.len())])?;
        Ok(Linear { rows, bias })
    }

    fn norm(&self, name: &str, hidden: usize) -> Result<Norm, WeightsError> {
        let part = |part: &str| self.numbers(&format!("{name}.{part}"), &[Some(hidden)]);
        Ok(Norm { weight: part("weight")?, bias: part("bias")? })
    }

    fn rows(&self, name: &str, rows: Option<usize>, columns: Option<usize>) -> Result<Rows<'a>, WeightsError> {
        let (dtype, shape, bytes) = self.tensor(name, &[rows, columns])?;
        if dtype != Dtype::I8 {
            return Err(kind(name, dtype, &shape, "I8"));
        }
        Ok(Rows { bytes, scales: self.numbers(&format!("{name}.scale"), &[Some(shape[0])])?, columns: shape[1] })
    }

    /// A tensor of f32 or f16 as f32.
    fn numbers(&self, name: &str, wanted: &[Option<usize>]) -> Result<Vec<f32>, WeightsError> {
        let (dtype, shape, bytes) = self.tensor(name, wanted)?;
        let numbers: Vec<f32> = match dtype {
            Dtype::F32 => {
                bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
            }
            Dtype::F16 => bytes.chunks_exact(2).map(|two| half(u16::from_le_bytes([two[0], two[1]]))).collect(),
            _ => return Err(kind(name, dtype, &shape, "F32 or F16")),
        };
        if numbers.iter().all(|number| number.is_finite()) {
            Ok(numbers)
        } else {
            Err(WeightsError::Number(name.to_owned()))
        }
    }

    fn tensor(&self, name: &str, wanted: &[Option<usize>]) -> Result<(Dtype, Vec<usize>, &'a [u8]), WeightsError> {
        let view = self.0.tensor(name).map_err(|_| WeightsError::Missing(name.to_owned()))?;
        let shape = view.shape().to_vec();
        let fits = |(&found, wanted): (&usize, &Option<usize>)| {
            (1..=MOST).contains(&found) && wanted.is_none_or(|it| it == found)
        };
        if shape.len() != wanted.len() || !shape.iter().zip(wanted).all(fits) {
            let sides: Vec<_> =
                wanted.iter().map(|side| side.map_or("any".to_owned(), |side| side.to_string())).collect();
            return Err(kind(name, view.dtype(), &shape, &format!("[{}]", sides.join(", "))));
        }
        Ok((view.dtype(), shape, view.data()))
    }
}

fn kind(name: &str, dtype: Dtype, shape: &[usize], wanted: &str) -> WeightsError {
    WeightsError::Kind { name: name.to_owned(), found: format!("{dtype:?} {shape:?}"), wanted: wanted.to_owned() }
}

/// The value of 16 bits of IEEE 754 half precision.
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (bits >> 10 & 0x1f, f32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        0x1f if fraction == 0.0 => f32::INFINITY,
        0x1f => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(i32::from(exponent) - 15),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_wrong_tensor() {
        let message = |file: &[u8]| Weights::read(file).unwrap_err().to_string();
        assert!(message(b"").contains("not a safetensors file"));
        let file = |header: &str, bytes: usize| {
            [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; bytes]].concat()
        };
        assert!(message(&file("{}", 0)).contains("embeddings.word_embeddings.weight"));
        let words = |kind: &str, width: usize, bytes: usize| {
            let name = "embeddings.word_embeddings.weight";
            file(
                &format!(
                    r#"{{"{name}":{{"dtype":"{kind}","shape":[1,{width}],"data_offsets":[0,{bytes}]}},"{name}.scale":{{"dtype":"F32","shape":[1],"data_offsets":[{bytes},{}]}}}}"#,
                    bytes + 4
                ),
                bytes + 4,
            )
        };
        assert!(message(&words("F32", 32, 128)).contains("F32 [1, 32], where I8 is expected"));
        assert!(message(&words("I8", 31, 31)).contains("31 wide"));
        assert!(message(&words("I8", 32, 32)).contains("token_type_embeddings"));
    }

    #[test]
    fn halves_are_read() {
        for (bits, number) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x0001, 5.960_464_5e-8),
            (0x7bff, 65504.0),
        ] {
            assert_eq!(half(bits).to_bits(), f32::to_bits(number), "{bits:04x}");
        }
        assert!(half(0x7c00).is_infinite() && half(0x7e00).is_nan());
    }
}
