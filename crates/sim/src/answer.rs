//! Content of a simulated answer, fixed before the first token: text in pieces, kind and finish reason.

use super::{
    api_request::{ApiRequest, Kind, Prompt},
    job::Job,
    problem::Problem,
    profile::Profile,
    text::{Pieces, blocks, filler, hash, natural_length},
};

/// One choice of a response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// Its text, or the arguments of its tool call, in pieces of one token.
    pub(super) pieces: Pieces,
    /// The tool it calls.
    pub(super) tool: Option<String>,
    /// OpenAI's `finish_reason`.
    pub(super) finish: &'static str,
}

/// Plans every choice of `ask`: for each prompt in order its `n` answers, each with the job for the engine.
pub(super) fn plan(ask: &ApiRequest, profile: &Profile) -> Result<Vec<(Answer, Job)>, Problem> {
    let mut choices = Vec::with_capacity(ask.prompts.len() * ask.n);
    for prompt in &ask.prompts {
        let room = room(ask, prompt, profile)?;
        let blocks = blocks(&prompt.text, prompt.tokens, profile.block_tokens);
        let seed = hash(ask.seed, prompt.text.as_bytes());
        for choice in 0..ask.n as u64 {
            let answer = Answer::new(ask, room, hash(seed, &choice.to_le_bytes()));
            let output_tokens = answer.pieces.count();
            choices.push((
                answer,
                Job { prompt_tokens: prompt.tokens, blocks: blocks.clone(), output_tokens, ..Job::default() },
            ));
        }
    }
    Ok(choices)
}

/// Most tokens of an answer to `prompt`.
fn room(ask: &ApiRequest, prompt: &Prompt, profile: &Profile) -> Result<u32, Problem> {
    let longest = profile.longest();
    let least = ask.most.unwrap_or(1);
    match longest.checked_sub(prompt.tokens) {
        Some(room) if room >= least => Ok(ask.most.unwrap_or(room)),
        _ => Err(Problem::Context {
            limit: u64::from(longest),
            tokens: u64::from(prompt.tokens) + u64::from(least),
            prompt: u64::from(prompt.tokens),
            answer: u64::from(least),
            param: if ask.chat { "messages" } else { "prompt" },
        }),
    }
}

impl Answer {
    fn new(ask: &ApiRequest, room: u32, seed: u64) -> Self {
        let (mut pieces, tool) = match &ask.kind {
            Kind::Json(value) => (Pieces::of(&value.to_string()), None),
            Kind::Tool { name, arguments } => (Pieces::of(&arguments.to_string()), Some(name.clone())),
            Kind::Prose => {
                // A requested length is met to the token; a drawn one extends to the end of the sentence.
                // One more than fits is enough to detect the cut.
                let wanted = ask.exact.unwrap_or_else(|| natural_length(seed)).min(room.saturating_add(1));
                let mut pieces = filler(seed, &ask.model, wanted);
                pieces.keep(ask.exact.unwrap_or(u32::MAX));
                (pieces, None)
            }
        };
        let mut finish = if tool.is_some() { "tool_calls" } else { "stop" };
        // Truncate first: a stop sequence in the truncated part does not count.
        let cut = pieces.count() > room;
        pieces.keep(room);
        if tool.is_some() || !pieces.stop_at(&ask.stops) {
            finish = if cut { "length" } else { finish };
        }
        Self { pieces, tool, finish }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use serde_json::{Value, json};

    use super::*;

    fn answer(more: &Value, headers: &HeaderMap) -> Result<(Answer, Job), Problem> {
        let mut body = json!({"model": "sim", "messages": [{"role": "user", "content": "Tell me about trains."}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let ask = ApiRequest::chat(body.to_string().as_bytes(), headers)?;
        plan(&ask, &Profile::small()).map(|mut all| all.remove(0))
    }

    fn plain(more: &Value) -> Answer {
        answer(more, &HeaderMap::new()).unwrap().0
    }

    #[test]
    fn answers_are_repeatable_and_end_with_a_sentence() {
        let first = plain(&json!({}));
        assert_eq!(first, plain(&json!({})));
        assert_ne!(first, plain(&json!({"seed": 3})));
        assert!(first.pieces.text().ends_with('.') && first.finish == "stop");
    }

    #[test]
    fn max_tokens_and_stop_sequences_cut_and_say_so() {
        let cut = plain(&json!({"max_tokens": 4}));
        assert_eq!((cut.pieces.count(), cut.finish), (4, "length"));
        let stopped = plain(&json!({"stop": ["answer"], "max_tokens": 20}));
        assert_eq!((stopped.pieces.text(), stopped.finish), ("This is a simulated ", "stop"));
        assert_eq!(plain(&json!({"stop": ["answer"], "max_tokens": 4})).finish, "length");
    }

    #[test]
    fn a_header_gives_the_exact_length() {
        let headers =
            [(super::super::api_request::OUTPUT_TOKENS.parse().unwrap(), "777".parse().unwrap())].into_iter().collect();
        let (answer, job) = answer(&json!({}), &headers).unwrap();
        assert_eq!((answer.pieces.count(), job.output_tokens, answer.finish), (777, 777, "stop"));
    }

    #[test]
    fn structured_answers_are_whole_unless_they_do_not_fit() {
        let format = json!({"type": "json_schema", "json_schema": {"schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}});
        let whole = plain(&json!({"response_format": format}));
        assert_eq!((whole.pieces.text(), whole.finish), (r#"{"a":3}"#, "stop"));
        assert_eq!(plain(&json!({"response_format": format, "max_tokens": 1})).finish, "length");
    }

    #[test]
    fn a_prompt_larger_than_the_context_is_refused() {
        for (prompt, body) in [("40000", json!({})), ("32768", json!({})), ("30000", json!({"max_tokens": 5_000}))] {
            let headers = [(super::super::api_request::PROMPT_TOKENS.parse().unwrap(), prompt.parse().unwrap())]
                .into_iter()
                .collect();
            assert!(matches!(answer(&body, &headers), Err(Problem::Context { limit: 32_768, .. })), "{prompt} {body}");
        }
    }
}
