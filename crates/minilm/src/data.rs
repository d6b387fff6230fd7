//! The files of the model, compressed in this package and two others. Each call inflates a file anew.

use std::io::{self, Read};

use flate2::read::DeflateDecoder;
use signalbox_minilm_data_1 as first;
use signalbox_minilm_data_2 as second;

/// The weights of the sentence model, for [`Weights::read`](crate::Weights::read).
///
/// # Errors
/// If the packages do not belong together.
pub fn weights() -> io::Result<Vec<u8>> {
    inflated(first::PART.chain(second::PART).chain(&include_bytes!("../data/weights-3.bin")[..]))
}

/// A vector of 256 numbers for each word piece; `data/README.md` describes the format.
///
/// # Errors
/// None, in a package as it was published.
pub fn table() -> io::Result<Vec<u8>> {
    inflated(&include_bytes!("../data/table.bin")[..])
}

/// The model's `tokenizer.json`.
///
/// # Errors
/// None, in a package as it was published.
pub fn tokenizer() -> io::Result<Vec<u8>> {
    inflated(&include_bytes!("../data/tokenizer.bin")[..])
}

fn inflated(file: impl Read) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    DeflateDecoder::new(file).read_to_end(&mut data)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_is_whole() {
        let lengths = [super::weights(), super::table(), super::tokenizer()].map(|file| file.unwrap().len());
        assert_eq!(lengths, [23_076_440, 7_935_732, 466_247]);
    }
}
