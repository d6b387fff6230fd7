//! Bounded queue of the writer: drops records when it is full, never deletions.

use std::{collections::VecDeque, sync::mpsc::SyncSender};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    frame::FRAME,
    limits::SWEEP,
    record::{Key, Record},
};

/// Most deletions that wait individually. One more becomes a deletion of everything, which keeps the guarantee in
/// bounded space.
const DELETIONS: usize = 16_384;

/// Command for the writer.
#[derive(Debug)]
pub(super) enum Command {
    Put(Record),
    Remove(Key),
    RemoveScope([u8; 32]),
    Clear,
    /// Returns the next recovered records.
    More(SyncSender<Vec<Record>>),
    /// Replies when all earlier commands are on disk.
    Flush(SyncSender<()>),
}

/// A first-in, first-out queue.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    commands: VecDeque<Command>,
    bytes: usize,
    deletions: usize,
    closed: bool,
}

impl Queue {
    /// Creates a queue for `most_bytes` bytes of records.
    pub(super) fn new(most_bytes: usize) -> Self {
        // A frame stores the length of a payload in 32 bits.
        let most_bytes = most_bytes.min(u32::MAX as usize);
        Self { state: Mutex::default(), filled: Condvar::new(), most_bytes }
    }

    /// Adds a command. Returns false if there is no room or the writer is gone.
    pub(super) fn push(&self, command: Command) -> bool {
        let mut state = self.state();
        if state.closed {
            return false;
        }
        match &command {
            Command::Put(record) => {
                let bytes = FRAME + record.payload.len();
                if state.bytes + bytes > self.most_bytes {
                    return false;
                }
                state.bytes += bytes;
            }
            Command::Remove(_) | Command::RemoveScope(_) if state.deletions == DELETIONS => {
                // Deleting everything makes all earlier commands obsolete, except those that await a reply.
                state.commands.retain(|command| matches!(command, Command::More(_) | Command::Flush(_)));
                (state.bytes, state.deletions) = (0, 0);
                state.commands.push_back(Command::Clear);
                self.filled.notify_one();
                return true;
            }
            Command::Remove(_) | Command::RemoveScope(_) | Command::Clear => state.deletions += 1,
            Command::More(_) | Command::Flush(_) => {}
        }
        state.commands.push_back(command);
        self.filled.notify_one();
        true
    }

    /// Takes all waiting commands; waits a while for one if `wait` is true. `None` once the queue is closed and empty.
    pub(super) fn take(&self, wait: bool) -> Option<VecDeque<Command>> {
        let mut state = self.state();
        if wait {
            let idle = |state: &mut State| state.commands.is_empty() && !state.closed;
            self.filled.wait_while_for(&mut state, idle, SWEEP);
        }
        (state.bytes, state.deletions) = (0, 0);
        let commands = std::mem::take(&mut state.commands);
        (!commands.is_empty() || !state.closed).then_some(commands)
    }

    /// Closes the queue. Waiting commands are still executed.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_one();
    }

    /// Closes the queue and drops waiting commands, since the writer is gone.
    pub(super) fn abandon(&self) {
        let mut state = self.state();
        state.closed = true;
        state.commands.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
