//! The response path: relays an answer to the client unchanged while a meter in its body measures it.

mod broadcast;
mod committed;
mod events;
mod gauges;
mod meter;
mod plain;
mod replay;
mod respond;
mod resume;
mod store;
mod stream;
mod subscriber;
mod timeouts;

pub(super) use self::{
    broadcast::broadcast,
    committed::{Answer, Committed, Decision},
    events::{Events, Held, cut, is_generation},
    gauges::Gauges,
    meter::Meter,
    replay::Replay,
    respond::reply,
    resume::{Broken, Rest, ResumeStream},
    store::{AnswerStore, KeptAs},
    subscriber::{Share, subscribe},
};
