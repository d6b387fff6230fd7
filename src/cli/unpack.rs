//! Files that may be gzip, read as what is packed in them.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use flate2::bufread::MultiGzDecoder;

/// What every gzip file begins with.
const GZIP: [u8; 2] = [0x1F, 0x8B];

/// What is in the file at `path`.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    unpack(File::open(path)?)
}

/// What `packed` says, gzip or not.
pub(super) fn unpack(packed: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut packed = BufReader::new(packed);
    Ok(if packed.fill_buf()?.starts_with(&GZIP) {
        Box::new(BufReader::new(MultiGzDecoder::new(packed)))
    } else {
        Box::new(packed)
    })
}
