//! Memory of request bodies in total. A limit keeps many large bodies from exhausting the machine's memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;

use signalbox_types::Fault;

/// Delay after which a client may resend a body that found no room.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Size of the largest small body, in bytes. An eighth of the room is reserved for small bodies, so that large ones
/// never shut them out.
const SMALL: usize = 64 << 10;

/// Number of bytes held by all bodies.
#[derive(Debug, Default)]
pub(super) struct BodyMemory(AtomicUsize);

/// Bytes that count as held until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    held: Arc<BodyMemory>,
    bytes: usize,
}

/// A body that counts as held until its last part is dropped.
struct Counted {
    bytes: Bytes,
    _share: Share,
}

impl Share {
    /// Creates an empty share.
    pub(super) fn new(held: Arc<BodyMemory>) -> Self {
        Self { held, bytes: 0 }
    }

    /// Counts `more` further bytes of this body.
    ///
    /// # Errors
    /// Fails if the bytes of all bodies would then exceed `most`, or seven eighths of it where this body is larger than [`SMALL`].
    pub(super) fn grow(&mut self, more: usize, most: usize) -> Result<(), Fault> {
        let room = if self.bytes.saturating_add(more) <= SMALL { most } else { most - most / 8 };
        let fits = |held: usize| held.checked_add(more).filter(|held| *held <= room);
        if self.held.0.fetch_update(Relaxed, Relaxed, fits).is_ok() {
            self.bytes += more;
            return Ok(());
        }
        let message = format!(
            "the gateway holds as many bytes of requests as it may ({most}): try again in a moment (limits.bodies in the policy)"
        );
        let fault = Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message).with_code("overloaded");
        Err(Fault { retry_after: Some(RETRY_DELAY), ..fault })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ties the share to `bytes`: it is released when their last part is dropped.
    pub(super) fn of(self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() { bytes } else { Bytes::from_owner(Counted { bytes, _share: self }) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes, Relaxed);
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back_with_its_last_part() {
        let held = Arc::new(BodyMemory::default());
        let mut share = Share::new(held.clone());
        share.grow(60, 100).unwrap();
        share.grow(20, 100).unwrap();
        let fault = share.grow(21, 100).unwrap_err();
        assert_eq!((fault.status, held.0.load(Relaxed)), (StatusCode::SERVICE_UNAVAILABLE, 80));
        let (mut large, mut small) = (Share::new(held.clone()), Share::new(held.clone()));
        assert!(large.grow(800_000, 800_080).is_err() && large.grow(600_000, 800_080).is_ok());
        assert!(large.grow(101_000, 800_080).is_err() && small.grow(SMALL, 800_080).is_ok());
        assert!(small.grow(100_000, 800_080).is_err(), "it is not small any more");
        drop((large, small));
        let body = share.of(Bytes::from(vec![7; 80]));
        let part = body.slice(10..20);
        drop(body);
        assert_eq!(held.0.load(Relaxed), 80, "the whole is there while a part of it is");
        assert_eq!(part, [7; 10][..]);
        drop(part);
        assert_eq!(held.0.load(Relaxed), 0);
        assert!(Share::new(held.clone()).grow(usize::MAX, 100).is_err() && Share::new(held).grow(100, 100).is_ok());
    }
}
