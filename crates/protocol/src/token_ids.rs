//! Members of requests that mean something to one model only: ids of its vocabulary, vectors of its own space.

use super::{
    RequestBody,
    walk::{elements, is_nothing},
};

/// Members that make tokens likelier or less so. An answer without them is still an answer to what was asked.
const BIASES: [&[u8]; 5] =
    [b"logit_bias", b"bad_words_ids", b"bad_words_token_ids", b"suppress_tokens", b"begin_suppress_tokens"];
/// Other members with token ids, but for those whose names say it.
const IDS: [&[u8]; 2] = [b"input_ids", b"prompt_embeds"];
/// Ends of the names of members with token ids.
const ENDINGS: [&[u8]; 2] = [b"token_ids", b"_token_id"];
/// Members with a prompt, which may be given as token ids.
const PROMPTS: [&[u8]; 3] = [b"prompt", b"input", b"tokens"];

impl RequestBody {
    /// True if the request has token ids, or vectors in place of tokens, that it depends on: to a model with another
    /// vocabulary it would mean something else.
    pub fn has_token_ids(&self) -> bool {
        self.members().any(|(name, value)| {
            if PROMPTS.contains(&name) {
                return is_tokens(value);
            }
            let may_have =
                IDS.contains(&name) || ENDINGS.iter().any(|ending| name.ends_with(ending)) && !BIASES.contains(&name);
            // Flags of such names ask for the ids of the answer.
            may_have && !matches!(value, b"true" | b"false") && !is_nothing(value)
        })
    }

    /// Names of the members that make tokens of one vocabulary likelier or less so.
    pub fn token_biases(&self) -> impl Iterator<Item = &str> {
        let biases = self.members().filter(|(name, value)| BIASES.contains(name) && !is_nothing(value));
        biases.filter_map(|(name, _)| std::str::from_utf8(name).ok())
    }
}

/// True if a prompt, or one of several, has token ids. Lists of messages and of texts have none.
fn is_tokens(prompt: &[u8]) -> bool {
    elements(prompt).any(|part| match part.first() {
        Some(b'0'..=b'9') => true,
        Some(b'[') => elements(part).next().and_then(|first| first.first()).is_some_and(u8::is_ascii_digit),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Endpoint;

    #[test]
    fn biases_are_hints_in_token_ids() {
        let of = |members: &str| {
            let body = format!(r#"{{"model":"m","messages":[1],{members}}}"#);
            let body = RequestBody::json(Endpoint::Chat, body.into()).unwrap();
            (body.has_token_ids(), body.token_biases().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(of(r#""logit_bias":{"50256":-100}"#), (false, vec!["logit_bias".to_owned()]));
        assert_eq!(of(r#""logit_bias":[[15043,1.0]],"seed":1"#), (false, vec!["logit_bias".to_owned()]));
        let many =
            of(r#""bad_words_ids":[[7]],"bad_words_token_ids":[[7]],"suppress_tokens":[5],"stop_token_ids":[2]"#);
        assert_eq!((many.0, many.1.len()), (true, 3));
        assert_eq!(of(r#""logit_bias":{},"suppress_tokens":null"#), (false, vec![]));
    }

    #[test]
    fn token_ids_are_found_in_every_member_that_may_have_them() {
        let has = |endpoint, members: &str| {
            RequestBody::json(endpoint, format!(r#"{{"model":"m",{members}}}"#).into()).unwrap().has_token_ids()
        };
        for member in [r#""stop_token_ids":[128009]"#, r#""allowed_token_ids":[1, 2]"#, r#""eos_token_id":2"#] {
            assert!(has(Endpoint::Chat, &format!(r#""messages":[1],{member}"#)), "{member}");
        }
        for member in
            [r#""prompt":[1,2]"#, r#""prompt":[ [1],[2]]"#, r#""prompt":[12,"a"]"#, r#""prompt_embeds":"AAAA""#]
        {
            assert!(has(Endpoint::Completions, member), "{member}");
        }
        assert!(has(Endpoint::Embeddings, r#""input":[[1,2]]"#));
        for member in [
            r#""logit_bias":{}"#,
            r#""logit_bias":null"#,
            r#""stop_token_ids":[]"#,
            r#""return_token_ids":true"#,
            r#""return_tokens_as_token_ids":true"#,
            r#""logprobs":true"#,
            r#""stop":["1"]"#,
        ] {
            assert!(!has(Endpoint::Chat, &format!(r#""messages":[1],{member}"#)), "{member}");
        }
        assert!(
            !has(Endpoint::Completions, r#""prompt":["1","[2]"]"#) && !has(Endpoint::Completions, r#""prompt":"[1]""#)
        );
        assert!(!has(Endpoint::Responses, r#""input":[{"role":"user","content":"1"}]"#));
    }
}
