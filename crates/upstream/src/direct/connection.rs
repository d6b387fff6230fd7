//! A plain connection that its user polls.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Buf, Bytes, BytesMut, buf::Chain};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
};
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::{
    broken::Broken,
    framing::{Framing, Step},
    head::{Head, Heads},
    place::Request,
};

/// Bytes of a block to read into: for the head of an answer, at least, and at most.
const FIRST_ROOM: usize = 4 << 10;
const LEAST_ROOM: usize = 1 << 10;
const MOST_ROOM: usize = 128 << 10;

/// A connection to an engine, and its request.
pub(super) struct Connection {
    stream: TcpStream,
    /// Bytes that were read and belong to nobody yet, and the rest of their block.
    read: BytesMut,
    /// Size of that block.
    block: usize,
    /// Size of the next block: it grows while the engine is faster than the reader, and shrinks while little comes at once.
    room: usize,
    /// Rest of the request.
    unsent: Option<Chain<Bytes, Bytes>>,
    /// True once a byte of the request was sent.
    begun: bool,
    head_only: bool,
    heads: Heads,
    /// The reason why the rest of the request cannot be sent.
    cannot_send: Option<io::Error>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            read: BytesMut::new(),
            block: 0,
            room: FIRST_ROOM,
            unsent: None,
            begun: false,
            head_only: false,
            heads: Heads::default(),
            cannot_send: None,
        }
    }

    /// Takes a request, which is sent while its answer is awaited.
    pub(super) fn ask(&mut self, request: Request) {
        let Request { head, body, head_only } = request;
        self.unsent = Some(head.chain(body));
        (self.begun, self.head_only, self.heads) = (false, head_only, Heads::default());
    }

    /// Gives the request back if nothing of it was sent.
    pub(super) fn take_unsent(&mut self) -> Option<Request> {
        let (head, body) = self.unsent.take().filter(|_| !self.begun)?.into_inner();
        Some(Request { head, body, head_only: self.head_only })
    }

    /// True if the engine has not closed it and it can take a request.
    pub(super) fn is_open(&mut self) -> bool {
        if self.unsent.is_some() || self.cannot_send.is_some() || !self.read.is_empty() {
            return false;
        }
        let (mut byte, mut nobody) = ([0], Context::from_waker(Waker::noop()));
        // An engine says nothing unasked: a byte is as bad as an end.
        Pin::new(&mut self.stream).poll_read(&mut nobody, &mut ReadBuf::new(&mut byte)).is_pending()
    }

    /// Releases what an idle connection does not need.
    pub(super) fn rest(&mut self) {
        (self.read, self.block, self.room) = (BytesMut::new(), 0, FIRST_ROOM);
    }

    /// Sends the request and reads the head of the answer, which may come before all is sent.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Broken>> {
        self.send(cx);
        loop {
            if let Some(head) = self.heads.take(&mut self.read)? {
                return Poll::Ready(Ok(head));
            }
            let read = ready!(self.poll_read(FIRST_ROOM, cx));
            if !matches!(read, Ok(1..)) {
                // Nothing more will come, so that the request's failure came first.
                let unsent = self.cannot_send.take().map(Broken::Unsent);
                let broken = unsent.unwrap_or_else(|| read.err().map_or(Broken::Closed, Broken::Io));
                return Poll::Ready(Err(broken));
            }
        }
    }

    /// Reads the next bytes of the body. `None` at its end.
    pub(super) fn poll_data(
        &mut self,
        framing: &mut Framing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Broken>> {
        self.send(cx);
        loop {
            match framing.step(&mut self.read)? {
                Step::Data(data) => return Poll::Ready(Ok(Some(data))),
                Step::End => return Poll::Ready(Ok(None)),
                Step::More => {}
            }
            if ready!(self.poll_read(LEAST_ROOM, cx))? == 0 {
                framing.close()?;
            }
        }
    }

    /// Sends as much of the request as the socket takes.
    fn send(&mut self, cx: &mut Context<'_>) {
        while let Some(unsent) = self.unsent.as_mut().filter(|_| self.cannot_send.is_none()) {
            let Poll::Ready(written) = poll_write_buf(Pin::new(&mut self.stream), cx, unsent) else { return };
            match written {
                Ok(0) => self.cannot_send = Some(io::ErrorKind::WriteZero.into()),
                Ok(_) => self.begun = true,
                // The engine may have answered before it closed: the answer is still read.
                Err(error) => self.cannot_send = Some(error),
            }
            if self.begun && (self.cannot_send.is_some() || !unsent.has_remaining()) {
                self.unsent = None;
            }
        }
    }

    /// Reads what has come, into a block of `least` bytes or more. 0 at the end of the connection.
    fn poll_read(&mut self, least: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.make_room();
        let spare = self.read.capacity() - self.read.len();
        let read = poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.read);
        match read {
            Poll::Ready(Ok(size)) if size == spare => self.room = (self.room * 2).min(MOST_ROOM),
            Poll::Ready(Ok(size)) if size < self.room / 4 => self.room = (self.room / 2).max(least),
            // A waiting stream does not hold a large block.
            Poll::Pending if self.read.is_empty() && self.block > self.room.min(FIRST_ROOM) => {
                (self.read, self.block) = (BytesMut::new(), 0);
            }
            _ => {}
        }
        read
    }

    fn make_room(&mut self) {
        let room = self.room;
        if self.read.capacity() - self.read.len() >= room / 4 {
            return;
        }
        // Growing in place would keep to the size of the largest block so far.
        if self.block != room || !self.read.try_reclaim(room) {
            let mut read = BytesMut::with_capacity(room + self.read.len());
            read.extend_from_slice(&self.read);
            (self.read, self.block) = (read, room);
        }
    }
}

// Its request holds keys.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}
