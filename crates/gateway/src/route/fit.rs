//! Rejects a prompt that fits no pool.

use http::StatusCode;

use signalbox_types::{Fault, Tokens};

/// Builds the error for a prompt that fits no pool.
pub(super) fn too_long(
    model: &str,
    field: &'static str,
    tokens: Tokens,
    max_tokens: Option<u64>,
    largest: u64,
) -> Fault {
    let about = if tokens.is_exact() { "" } else { "about " };
    let answer = match max_tokens {
        Some(most) => format!(", and {most} more were asked for as the answer (max_tokens)"),
        None => String::new(),
    };
    let message = format!(
        "the prompt has {about}{} tokens{answer}, but the longest context behind the model '{model}' holds {largest}: shorten the \
         prompt or ask for a shorter answer",
        tokens.expected
    );
    Fault {
        param: Some(field.into()),
        ..Fault::client(StatusCode::BAD_REQUEST, "context_length_exceeded", message)
            .with_code("context_length_exceeded")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::estimator::{Counting, rendered};
    use signalbox_fleet::{
        Pool,
        route_selection::{Fit, fitting},
    };
    use signalbox_policy::Target;
    use signalbox_prompt::tokens::{Counter, TokenizerSlot};
    use signalbox_protocol::RequestBody;
    use signalbox_types::Endpoint;

    /// Returns the indices of the pools that can take a prompt of so many words, given their context lengths.
    fn left(contexts: &[Option<u64>], words: usize, max_tokens: Option<u64>) -> Result<Vec<usize>, u64> {
        let pools: Vec<_> = contexts.iter().map(|context| pool(*context)).collect();
        let targets: Vec<_> = (0..pools.len()).map(Target::whole).collect();
        let text = "lamp ".repeat(words);
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        let body = RequestBody::json(Endpoint::Chat, body.into()).unwrap();
        let counter = Arc::new(Counter::new(Arc::new(TokenizerSlot::learned())));
        let prompt = Counting::of(&body, counter.estimate(&rendered(&body)), &counter);
        let (exceeds, certain) = (|n| prompt.exceed(n), |n| prompt.surely_exceed(n));
        match fitting(&pools, &targets, max_tokens, &exceeds, &certain) {
            Fit::All => Ok((0..pools.len()).collect()),
            Fit::Some(targets) => Ok(targets.iter().map(|target| target.pool).collect()),
            Fit::None(largest) => Err(largest),
        }
    }

    fn pool(context: Option<u64>) -> Pool {
        let mut policy = signalbox_policy::simulated(&["http://h/v1".to_owned()], &[], &[]);
        policy.pools[0].context = context;
        let registry = signalbox_fleet::Registry::default();
        signalbox_fleet::Snapshot::new(policy, &registry).pools.remove(0)
    }

    #[test]
    fn a_prompt_goes_where_it_fits_with_its_answer() {
        let contexts = [Some(8_000), None, Some(32_000)];
        assert_eq!(left(&contexts, 7_000, None), Ok(vec![0, 1, 2]));
        assert_eq!(left(&contexts, 7_000, Some(2_000)), Ok(vec![1, 2]));
        assert_eq!(left(&contexts, 100_000, None), Ok(vec![1]));
    }

    #[test]
    fn only_a_prompt_that_surely_does_not_fit_is_rejected() {
        assert_eq!(left(&[Some(8_000), Some(4_000)], 9_000, None), Ok(vec![0]), "it may be fewer than it seems");
        assert_eq!(left(&[Some(8_000), Some(4_000)], 30_000, None), Err(8_000));
        assert_eq!(left(&[Some(8_000)], 100, Some(u64::MAX)), Err(8_000), "no sum overflows");
    }
}
