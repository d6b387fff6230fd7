//! Static embedding table: one vector per word piece; a text's vector is their mean. Microseconds per text, and mostly
//! insensitive to word order.
//!
//! The method is `Model2Vec`'s (`MinishLab`): each piece goes through a sentence model alone, the vectors are reduced
//! to principal components and weighted down by the frequency of their piece (`crates/minilm/data/distill_static.py`).
//!
//! A file consists of `SEM1`, rows and dimensions (u32 each), a scale for each row (f32), and the rows (i8), all
//! little-endian. It is read in place.

use std::{borrow::Cow, fmt, sync::Arc};

use super::{unit::normalise, wordpiece::WordPiece};
use signalbox_cache::{EmbedError, Embedder};

const MAGIC: &[u8] = b"SEM1";
const HEAD: usize = 12;
/// Upper bound of plausible dimensions.
const WIDEST: usize = 4096;

/// A table that embeds texts.
pub(super) struct StaticTable {
    id: String,
    wordpiece: Arc<WordPiece>,
    rows: Rows,
    max_tokens: usize,
}

/// Reason why a file is not a table.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TableError {
    #[error("the table does not begin with SEM1")]
    Magic,
    #[error("the table has {bytes} bytes, but its head asks for {wanted}")]
    Length { bytes: usize, wanted: usize },
    #[error("the table has {rows} rows of {dimensions} dimensions")]
    Shape { rows: usize, dimensions: usize },
    #[error("the scale of row {0} is no positive number")]
    Scale(usize),
}

/// Rows of a table, in the layout of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    file: Vec<u8>,
    count: usize,
    dimensions: usize,
}

impl Rows {
    /// Reads a file's head and checks its scales.
    pub(super) fn read(file: Vec<u8>) -> Result<Self, TableError> {
        if file.len() < HEAD || !file.starts_with(MAGIC) {
            return Err(TableError::Magic);
        }
        let (rows, dimensions) = (word(&file, MAGIC.len()) as usize, word(&file, MAGIC.len() + 4) as usize);
        if rows == 0 || !(1..=WIDEST).contains(&dimensions) {
            return Err(TableError::Shape { rows, dimensions });
        }
        // 2³² rows of 4100 bytes do not overflow 64 bits.
        let wanted = HEAD + rows * (4 + dimensions);
        if file.len() != wanted {
            return Err(TableError::Length { bytes: file.len(), wanted });
        }
        let table = Self { file, count: rows, dimensions };
        match (0..rows).find(|&row| !(table.scale(row).is_finite() && table.scale(row) > 0.0)) {
            Some(row) => Err(TableError::Scale(row)),
            None => Ok(table),
        }
    }

    fn scale(&self, row: usize) -> f32 {
        f32::from_bits(word(&self.file, HEAD + 4 * row))
    }

    /// Adds a row to a sum. Missing rows add nothing.
    fn add(&self, row: usize, sum: &mut [f32]) {
        if row >= self.count {
            return;
        }
        let scale = self.scale(row);
        let from = HEAD + 4 * self.count + row * self.dimensions;
        for (sum, byte) in sum.iter_mut().zip(&self.file[from..from + self.dimensions]) {
            *sum += scale * f32::from(byte.cast_signed());
        }
    }
}

fn word(file: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]])
}

impl StaticTable {
    /// Creates a table whose rows correspond to the pieces of `wordpiece`.
    pub(super) fn new(id: String, rows: Rows, wordpiece: Arc<WordPiece>, max_tokens: usize) -> Result<Self, String> {
        if rows.count != wordpiece.len() {
            return Err(format!("its table has {} rows for {} word pieces", rows.count, wordpiece.len()));
        }
        Ok(Self { id, wordpiece, rows, max_tokens })
    }

    fn problem(&self, problem: impl Into<Cow<'static, str>>) -> EmbedError {
        EmbedError { embedder: self.id.clone(), problem: problem.into() }
    }
}

impl Embedder for StaticTable {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.rows.dimensions
    }

    fn knows(&self, word: &str) -> bool {
        self.wordpiece.knows(word)
    }

    fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut pieces = Vec::new();
        let embed = |text: &&str| {
            pieces.clear();
            self.wordpiece.pieces(text, self.max_tokens, &mut pieces).map_err(|problem| self.problem(problem))?;
            let mut sum = vec![0.0; self.rows.dimensions];
            for &piece in &pieces {
                self.rows.add(piece as usize, &mut sum);
            }
            // The mean has the direction of the sum.
            if normalise(&mut sum) { Ok(sum) } else { Err(self.problem("a text has no word in it")) }
        };
        texts.iter().map(embed).collect()
    }
}

impl fmt::Debug for StaticTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTable")
            .field("id", &self.id)
            .field("dimensions", &self.rows.dimensions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(rows: u32, dimensions: u32, scales: &[f32], bytes: &[i8]) -> Vec<u8> {
        let mut file = [MAGIC, &rows.to_le_bytes(), &dimensions.to_le_bytes()].concat();
        file.extend(scales.iter().flat_map(|scale| scale.to_le_bytes()));
        file.extend(bytes.iter().map(|byte| byte.cast_unsigned()));
        file
    }

    #[test]
    fn rows_are_read_in_place() {
        let rows = Rows::read(file(2, 3, &[0.5, 2.0], &[1, -2, 3, 0, 127, -128])).unwrap();
        let mut sum = vec![0.0; 3];
        for row in [0, 1, 2, usize::MAX] {
            rows.add(row, &mut sum);
        }
        assert_eq!(sum, [0.5, 253.0, -254.5]);
    }

    #[test]
    fn invalid_files_give_precise_errors() {
        let error = |file: Vec<u8>| Rows::read(file).unwrap_err();
        assert_eq!(error(Vec::new()), TableError::Magic);
        assert_eq!(error(b"SEM1\0\0\0".to_vec()), TableError::Magic);
        assert_eq!(error(b"SEM2\x01\0\0\0\x01\0\0\0aaaab".to_vec()), TableError::Magic);
        assert_eq!(error(file(0, 3, &[], &[])), TableError::Shape { rows: 0, dimensions: 3 });
        assert_eq!(error(file(1, 5000, &[], &[])), TableError::Shape { rows: 1, dimensions: 5000 });
        assert_eq!(error(file(1, 3, &[1.0], &[1, 2])), TableError::Length { bytes: 18, wanted: 19 });
        assert_eq!(error(file(2, 1, &[1.0, f32::NAN], &[1, 2])), TableError::Scale(1));
        assert_eq!(error(file(1, 1, &[0.0], &[1])), TableError::Scale(0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_table_or_an_error(head in prop::collection::vec(0u8..4, 8), rest in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Rows::read([MAGIC, &head, &rest].concat());
        }
    }
}
