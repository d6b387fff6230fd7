//! The guard that rides in an answer's body: while it lives, its request counts as load on its engine.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{Engine, Load};

/// A request's place on an engine. Taken before the first await of an attempt and held until its answer ends, fails, or its
/// client leaves. Dropping it releases whatever it still holds; it knows no time and awaits nothing.
#[derive(Debug)]
pub struct Ticket {
    engine: Arc<Engine>,
    /// The part of the engine's load that its backend put there.
    backend: Arc<Load>,
    prompt_tokens: u64,
    decoding: bool,
}

impl Ticket {
    /// Counts a request with `prompt_tokens` to compute as in flight on `engine`, for the `backend` of it that was chosen.
    pub fn take(engine: Arc<Engine>, backend: Arc<Load>, prompt_tokens: u64) -> Self {
        let ticket = Self { engine, backend, prompt_tokens, decoding: false };
        for load in ticket.loads() {
            load.in_flight.fetch_add(1, Relaxed);
            load.queued_tokens.fetch_add(prompt_tokens, Relaxed);
        }
        ticket
    }

    fn loads(&self) -> [&Load; 2] {
        [&self.engine.load, &self.backend]
    }

    /// The first token came: the prompt is no longer queued, the request decodes. Later calls change nothing.
    pub fn first_token(&mut self) {
        if !std::mem::replace(&mut self.decoding, true) {
            for load in self.loads() {
                load.queued_tokens.fetch_sub(self.prompt_tokens, Relaxed);
                load.decoding.fetch_add(1, Relaxed);
                load.context_tokens.fetch_add(self.prompt_tokens, Relaxed);
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        for load in self.loads() {
            if self.decoding {
                load.decoding.fetch_sub(1, Relaxed);
                load.context_tokens.fetch_sub(self.prompt_tokens, Relaxed);
            } else {
                load.queued_tokens.fetch_sub(self.prompt_tokens, Relaxed);
            }
            load.in_flight.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counters(load: &Load) -> (u32, u64, u32, u64) {
        (load.in_flight(), load.queued_tokens(), load.decoding(), load.context_tokens())
    }

    #[test]
    fn a_request_moves_from_queued_to_decoding() {
        let engine = Arc::new(Engine::new("e".into(), String::new()));
        let mut ticket = Ticket::take(engine.clone(), Arc::default(), 100);
        assert_eq!(counters(&engine.load), (1, 100, 0, 0));
        ticket.first_token();
        ticket.first_token();
        assert_eq!(counters(&engine.load), (1, 0, 1, 100));
        drop(ticket);
        assert_eq!(counters(&engine.load), (0, 0, 0, 0));
    }

    proptest! {
        #[test]
        fn counters_return_to_zero(steps in proptest::collection::vec((0u8..3, 0usize..8, 0u64..10_000), 0..200)) {
            let engine = Arc::new(Engine::new("e".into(), String::new()));
            let backends = [Arc::new(Load::default()), Arc::default()];
            let mut held: Vec<Ticket> = Vec::new();
            for (step, which, tokens) in steps {
                match step {
                    0 => held.push(Ticket::take(engine.clone(), backends[which % 2].clone(), tokens)),
                    1 => if let Some(ticket) = held.get_mut(which) { ticket.first_token() },
                    _ => if which < held.len() { held.swap_remove(which); },
                }
                prop_assert_eq!(engine.load.in_flight() as usize, held.len());
                prop_assert_eq!(backends[0].in_flight() + backends[1].in_flight(), engine.load.in_flight());
            }
            held.clear();
            for load in [&engine.load, &*backends[0], &*backends[1]] {
                prop_assert_eq!(counters(load), (0, 0, 0, 0));
            }
        }
    }
}
