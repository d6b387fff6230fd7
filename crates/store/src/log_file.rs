//! A log file: reads it once, appends to it, and returns its records.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
};

use bytes::Bytes;

use super::{
    frame::{Act, FRAME, Frame, HEAD, Head},
    live::Live,
    record::{Key, Record},
    scan::Frames,
};

/// A file and its live records.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    pub(super) seal: [u8; 32],
    pub(super) live: Live,
    /// Length of the written part.
    end: u64,
    /// Bytes to be written next.
    unwritten: Vec<u8>,
    /// True if the frames contain a deletion, which must be on disk before anything relies on it.
    deletes: bool,
    /// True if written bytes may not be on disk yet.
    unsynced: bool,
}

impl LogFile {
    fn new(file: File, head: &Head, live: Live) -> Self {
        let (end, unwritten) = (HEAD as u64, Vec::new());
        Self { file, seal: head.key(), live, end, unwritten, deletes: false, unsynced: false }
    }

    /// Creates an empty file.
    pub(super) fn create(mut file: File, head: &Head, live: Live) -> io::Result<Self> {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&head.write())?;
        Ok(Self { unsynced: true, ..Self::new(file, head, live) })
    }

    /// Reads a file from start to end and truncates a torn end. Returns the number of bytes that were not frames.
    pub(super) fn read(file: File, head: &Head, live: Live) -> io::Result<(Self, u64)> {
        let length = file.metadata()?.len();
        let mut log = Self::new(file, head, live);
        let mut frames = Frames::new(&log.file, log.seal, log.end, length)?;
        while let Some((at, frame)) = frames.next()? {
            log.live.apply(at, &frame);
        }
        log.end = frames.at();
        let damaged = frames.damaged + (length - log.end);
        log.file.set_len(log.end)?;
        for key in log.live.keys() {
            if let Some(place) = log.live.place(&key) {
                place.recovered = true;
            }
        }
        Ok((log, damaged))
    }

    /// Length of the file, including bytes about to be written.
    pub(super) fn length(&self) -> u64 {
        self.end + self.unwritten.len() as u64
    }

    /// Appends a record.
    pub(super) fn put(&mut self, record: &Record) {
        self.add(Frame::put(record), &record.payload);
    }

    /// Appends a deletion twice, so that damage in one place does not bring the deleted record back.
    pub(super) fn delete(&mut self, frame: &Frame) {
        for _ in 0..2 {
            self.add(frame.clone(), &[]);
        }
        self.deletes = true;
    }

    fn add(&mut self, mut frame: Frame, payload: &[u8]) {
        let at = self.length();
        self.live.number(&mut frame);
        frame.write(&self.seal, payload, &mut self.unwritten);
        self.live.apply(at, &frame);
    }

    /// Bytes waiting to be written.
    pub(super) fn waiting(&self) -> usize {
        self.unwritten.len()
    }

    /// Writes the waiting bytes. On return, deletions are on disk and records are with the operating system.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&self.unwritten)?;
        self.end += self.unwritten.len() as u64;
        self.unwritten.clear();
        self.unsynced = true;
        if std::mem::take(&mut self.deletes) {
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Forces everything written to disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        if std::mem::take(&mut self.unsynced) {
            self.file.sync_all()?;
        }
        Ok(())
    }

    /// Frame and payload at an offset, if both are intact.
    pub(super) fn at(&mut self, at: u64) -> io::Result<Option<(Frame, Bytes)>> {
        let mut head = [0; FRAME];
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut head)?;
        let Some(frame) = Frame::read(&self.seal, &head).filter(|frame| at + frame.total() <= self.end) else {
            return Ok(None);
        };
        let mut payload = vec![0; frame.length as usize];
        self.file.read_exact(&mut payload)?;
        Ok(frame.holds(&self.seal, &payload).then(|| (frame, payload.into())))
    }

    /// Record of a key. Drops a record that is not intact.
    pub(super) fn record(&mut self, key: &Key) -> io::Result<Option<Record>> {
        let Some(at) = self.live.place(key).map(|place| place.at) else { return Ok(None) };
        let found = self.at(at)?.filter(|(frame, _)| frame.act == Act::Put && frame.key == *key);
        if found.is_none() {
            self.live.remove(key);
        }
        Ok(found.map(|(frame, payload)| Record {
            kind: key.kind,
            key: key.key,
            scope: frame.scope,
            written: frame.written,
            expires: frame.expires,
            payload,
        }))
    }
}
