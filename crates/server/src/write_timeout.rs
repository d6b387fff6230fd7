//! A connection whose writes time out.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Fails with `TimedOut` if no write succeeds for `limit`, so that a client that stopped reading does not hold an engine for ever.
pub(super) struct WriteTimeout<S> {
    inner: S,
    limit: Duration,
    /// Runs while a write is pending.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit, waiting: None }
    }

    fn bound<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        waiting.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.bound(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.bound(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::Instant,
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_times_out() {
        let (near, far) = duplex(8);
        let mut near = WriteTimeout::new(near, LIMIT);
        let began = Instant::now();
        let error = near.write_all(&[0; 9]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_does_not_time_out() {
        let (near, mut far) = duplex(1);
        let writing = tokio::spawn(async move { WriteTimeout::new(near, LIMIT).write_all(&[0; 9]).await });
        let began = Instant::now();
        for _ in 0..9 {
            tokio::time::sleep(LIMIT / 2).await;
            far.read_u8().await.unwrap();
        }
        writing.await.unwrap().unwrap();
        assert!(began.elapsed() > LIMIT * 4);
    }
}
