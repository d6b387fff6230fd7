//! The bounded queue before the writer: records are dropped when it is full, deletions never.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc::SyncSender},
};

use super::{
    frame::FRAME,
    limits::SWEEP,
    record::{Key, Record},
};

/// Deletions that wait one by one. One more, and everything is deleted instead: that keeps their promise in bounded space.
const DELETIONS: usize = 16_384;

/// What the writer is to do.
#[derive(Debug)]
pub(super) enum Order {
    Put(Record),
    Remove(Key),
    RemoveScope([u8; 32]),
    Clear,
    /// Hand out the next recovered records.
    More(SyncSender<Vec<Record>>),
    /// Say when all before is on the disk.
    Flush(SyncSender<()>),
}

/// First in, first out.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    orders: VecDeque<Order>,
    bytes: usize,
    deletions: usize,
    closed: bool,
}

impl Queue {
    /// One that holds so many bytes of records.
    pub(super) fn new(most_bytes: usize) -> Self {
        // A frame tells the length of a payload in 32 bits.
        let most_bytes = most_bytes.min(u32::MAX as usize);
        Self { state: Mutex::default(), filled: Condvar::new(), most_bytes }
    }

    /// Adds an order; whether there was room for it, and a writer to come.
    pub(super) fn push(&self, order: Order) -> bool {
        let mut state = self.state();
        if state.closed {
            return false;
        }
        match &order {
            Order::Put(record) => {
                let bytes = FRAME + record.payload.len();
                if state.bytes + bytes > self.most_bytes {
                    return false;
                }
                state.bytes += bytes;
            }
            Order::Remove(_) | Order::RemoveScope(_) if state.deletions == DELETIONS => {
                // What deletes everything makes all that waits before it needless, but for those who wait for an answer.
                state.orders.retain(|order| matches!(order, Order::More(_) | Order::Flush(_)));
                (state.bytes, state.deletions) = (0, 0);
                state.orders.push_back(Order::Clear);
                self.filled.notify_one();
                return true;
            }
            Order::Remove(_) | Order::RemoveScope(_) | Order::Clear => state.deletions += 1,
            Order::More(_) | Order::Flush(_) => {}
        }
        state.orders.push_back(order);
        self.filled.notify_one();
        true
    }

    /// Takes all that waits, and waits a while for something if it may. `None` when the queue was closed and is empty.
    pub(super) fn take(&self, wait: bool) -> Option<VecDeque<Order>> {
        let mut state = self.state();
        if wait {
            let idle = |state: &mut State| state.orders.is_empty() && !state.closed;
            state = self.filled.wait_timeout_while(state, SWEEP, idle).unwrap_or_else(PoisonError::into_inner).0;
        }
        (state.bytes, state.deletions) = (0, 0);
        let orders = std::mem::take(&mut state.orders);
        (!orders.is_empty() || !state.closed).then_some(orders)
    }

    /// Takes no more orders. What waits is still done.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_one();
    }

    /// Takes no more orders, and drops those that wait: there is no writer any more.
    pub(super) fn abandon(&self) {
        let mut state = self.state();
        state.closed = true;
        state.orders.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
