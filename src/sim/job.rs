//! What goes into an engine and what comes out of it: jobs, their names, events and gauges.

use std::sync::Arc;

use crate::types::Moment;

/// What a request asks of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Tokens of the prompt; zero counts as one.
    pub prompt_tokens: u32,
    /// Chained hashes of the prompt's blocks of [`Profile::block_tokens`](super::Profile::block_tokens) tokens each, from its start. May be shorter than
    /// the prompt: what has no hash is not shared.
    pub blocks: Arc<[u64]>,
    /// Tokens from the prompt's start that count as found in the prefix cache of any engine, whatever is there: where recorded traffic
    /// tells how much was found, and not of what.
    pub warm_tokens: u32,
    /// Tokens of the answer. At zero the job finishes with its prompt (an embedding).
    pub output_tokens: u32,
}

/// Names a job within its engine; never used twice.
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

/// Why an engine does not take a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It could never run, not even alone.
    #[error("prompt and answer of {tokens} tokens exceed the engine's limit of {limit}")]
    TooLong {
        /// Tokens asked for.
        tokens: u64,
        /// Tokens the engine can hold.
        limit: u64,
    },
}

/// Something that happened to a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A token of its answer was computed.
    Token {
        /// The job.
        job: JobId,
        /// The token's place in the answer, from 0.
        index: u32,
        /// When.
        at: Moment,
    },
    /// Its last token was computed; nothing follows.
    Finished {
        /// The job.
        job: JobId,
        /// Tokens of its prompt that were found in the prefix cache.
        cached_tokens: u32,
        /// When.
        at: Moment,
    },
    /// It lost its memory and waits again; its tokens so far stand.
    Preempted {
        /// The job.
        job: JobId,
        /// When.
        at: Moment,
    },
}

impl Event {
    /// The job it happened to.
    pub const fn job(self) -> JobId {
        match self {
            Self::Token { job, .. } | Self::Finished { job, .. } | Self::Preempted { job, .. } => job,
        }
    }

    /// When it happened.
    pub const fn at(self) -> Moment {
        match self {
            Self::Token { at, .. } | Self::Finished { at, .. } | Self::Preempted { at, .. } => at,
        }
    }
}

/// What an engine reports about itself.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Sequences that hold memory.
    pub running: u32,
    /// Jobs that do not yet, or no longer, hold memory.
    pub waiting: u32,
    /// The share of the KV cache that running sequences hold, 0 to 1.
    pub kv_usage: f64,
    /// Prompt tokens that were looked up in the prefix cache, ever.
    pub prefix_queries: u64,
    /// Prompt tokens that were found there, ever.
    pub prefix_hits: u64,
    /// Preemptions, ever.
    pub preemptions: u64,
}
