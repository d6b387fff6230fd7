//! Invariants of the log reader on any input.

use std::io::{Cursor, Read, Seek, SeekFrom};

use super::{
    frame::{HEAD, Head, HeadRead},
    live::Live,
    scan::Frames,
};

/// Reads any bytes as a log and checks that frames are in order and within bounds, and that all other bytes are counted
/// as damaged.
///
/// # Panics
///
/// If an invariant is violated.
pub fn fuzz_store(bytes: &[u8]) {
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
