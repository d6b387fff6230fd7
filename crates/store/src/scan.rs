//! Frame-by-frame reader of a file that skips damaged parts.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::frame::{FRAME, Frame, MARK};

/// Bytes read at once.
const PIECE: usize = 64 * 1024;

/// Intact frames of a file, in order. Payloads are skipped, not read.
pub(super) struct Frames<R> {
    reader: BufReader<R>,
    seal: [u8; 32],
    /// End of the last intact frame.
    at: u64,
    /// Position of the reader.
    here: u64,
    end: u64,
    /// Bytes so far that were not frames.
    pub(super) damaged: u64,
}

impl<R: Read + Seek> Frames<R> {
    /// Reads the frames between two offsets.
    pub(super) fn new(source: R, seal: [u8; 32], at: u64, end: u64) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(PIECE, source);
        reader.seek(SeekFrom::Start(at))?;
        Ok(Self { reader, seal, at, here: at, end, damaged: 0 })
    }

    /// End of the last intact frame: the bytes after it are torn.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Next intact frame with its offset. Bytes skipped before it count as damaged.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Frame)>> {
        let mut from = self.at;
        loop {
            if let Some(frame) = self.frame(from)? {
                self.damaged += from - self.at;
                self.at = from + frame.total();
                return Ok(Some((from, frame)));
            }
            match self.mark(from + 1)? {
                Some(found) => from = found,
                None => return Ok(None),
            }
        }
    }

    /// Intact frame at an offset, if there is one.
    fn frame(&mut self, at: u64) -> io::Result<Option<Frame>> {
        if self.end.saturating_sub(at) < FRAME as u64 {
            return Ok(None);
        }
        let mut bytes = [0; FRAME];
        self.read(at, &mut bytes)?;
        Ok(Frame::read(&self.seal, &bytes).filter(|frame| at + frame.total() <= self.end))
    }

    /// Next offset at which a frame may begin.
    fn mark(&mut self, from: u64) -> io::Result<Option<u64>> {
        let mut from = from;
        let mut piece = vec![0; PIECE];
        while from + FRAME as u64 <= self.end {
            let length = (self.end - from).min(PIECE as u64) as usize;
            self.read(from, &mut piece[..length])?;
            if let Some(found) = memchr::memmem::find(&piece[..length], &MARK) {
                return Ok(Some(from + found as u64));
            }
            // A mark may span two pieces.
            from += (length - (MARK.len() - 1)) as u64;
        }
        Ok(None)
    }

    fn read(&mut self, from: u64, bytes: &mut [u8]) -> io::Result<()> {
        // Within the buffer this does not touch the file.
        self.reader.seek_relative(from.cast_signed() - self.here.cast_signed())?;
        self.reader.read_exact(bytes)?;
        self.here = from + bytes.len() as u64;
        Ok(())
    }
}

/// Reads any bytes as a log and checks that frames are in order and within bounds, and that all other bytes are counted
/// as damaged.
///
/// # Panics
///
/// If an invariant is violated.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_store(bytes: &[u8]) {
    use crate::{
        frame::{HEAD, Head, HeadRead},
        live::Live,
    };
    use std::io::Cursor;

    let mut reader = Cursor::new(bytes);
    let mut head = [0; HEAD];
    if reader.read_exact(&mut head).is_err() {
        return;
    }
    let HeadRead::Ours(head) = Head::read(&head) else { return };
    let length = reader.seek(SeekFrom::End(0)).expect("bytes in memory");
    let mut live = Live::new(1 << 20, u64::MAX);
    let mut frames = Frames::new(reader, head.key(), HEAD as u64, length).expect("bytes in memory");
    let (mut end, mut whole) = (HEAD as u64, 0);
    while let Some((at, frame)) = frames.next().expect("bytes in memory") {
        assert!(at >= end && at + frame.total() <= length, "a frame outside its place");
        end = at + frame.total();
        whole += frame.total();
        live.apply(at, &frame);
        assert!(live.bytes() <= 1 << 20, "more than may be kept");
    }
    assert_eq!(HEAD as u64 + whole + frames.damaged, end, "bytes that are neither frames nor damage");
}
