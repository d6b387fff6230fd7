//! Files that may be gzip-compressed.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use flate2::bufread::MultiGzDecoder;

/// The first two bytes of every gzip file.
const MAGIC: [u8; 2] = [0x1F, 0x8B];

/// Opens the file at `path` and decompresses it where it is gzip.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    reader(File::open(path)?)
}

/// Decompresses `packed` where it is gzip, and passes it through otherwise.
pub fn reader(packed: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut packed = BufReader::new(packed);
    Ok(if packed.fill_buf()?.starts_with(&MAGIC) {
        Box::new(BufReader::new(MultiGzDecoder::new(packed)))
    } else {
        Box::new(packed)
    })
}

/// Reads the whole file at `path`, decompressed.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
