//! Input and output of an engine: jobs, their ids, events and gauges.

use std::sync::Arc;

use signalbox_types::Moment;

/// Work that a request asks of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Tokens of the prompt; zero counts as one.
    pub prompt_tokens: u32,
    /// Chained hashes of the prompt's blocks of [`Profile::block_tokens`](super::Profile::block_tokens) tokens each, from its start. May be
    /// shorter than the prompt: blocks without a hash are not shared.
    pub blocks: Arc<[u64]>,
    /// Tokens from the prompt's start that count as cached on any engine. Used where recorded traffic has the number of cached tokens, but
    /// not the prompts they belong to.
    pub warm_tokens: u32,
    /// Tokens of the answer. At zero the job ends with its prompt (an embedding).
    pub output_tokens: u32,
}

/// Id of a job within its engine; never reused.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(u64);

impl JobId {
    pub(super) const fn new(slot: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | slot as u64)
    }

    pub(super) const fn slot(self) -> usize {
        (self.0 & 0xFFFF_FFFF) as usize
    }

    pub(super) const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Reasons for which an engine rejects a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The job is larger than the engine, even alone.
    #[error("prompt and answer of {tokens} tokens exceed the engine's limit of {limit}")]
    TooLong {
        /// Tokens that the job needs.
        tokens: u64,
        /// Tokens the engine can hold.
        limit: u64,
    },
}

/// An event of a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A token of its answer was computed.
    Token {
        /// The job.
        job: JobId,
        /// Index of the token in the answer.
        index: u32,
        /// Time of the event.
        at: Moment,
    },
    /// The job is complete.
    Finished {
        /// The job.
        job: JobId,
        /// Prompt tokens found in the prefix cache.
        cached_tokens: u32,
        /// Time of the event.
        at: Moment,
    },
    /// It was preempted: it lost its memory and waits again, and keeps its tokens.
    Preempted {
        /// The job.
        job: JobId,
        /// Time of the event.
        at: Moment,
    },
}

impl Event {
    /// The job.
    pub const fn job(self) -> JobId {
        match self {
            Self::Token { job, .. } | Self::Finished { job, .. } | Self::Preempted { job, .. } => job,
        }
    }

    /// Time of the event.
    pub const fn at(self) -> Moment {
        match self {
            Self::Token { at, .. } | Self::Finished { at, .. } | Self::Preempted { at, .. } => at,
        }
    }
}

/// Gauges of an engine.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Sequences that hold memory.
    pub running: u32,
    /// Queued jobs, including preempted ones.
    pub waiting: u32,
    /// Share of the KV cache that running sequences hold, 0 to 1.
    pub kv_usage: f64,
    /// Prompt tokens looked up in the prefix cache, since the start.
    pub prefix_queries: u64,
    /// Prompt tokens found in the prefix cache, since the start.
    pub prefix_hits: u64,
    /// Preemptions since the start.
    pub preemptions: u64,
}
