//! Prompts of a given length that share the prefixes of the recorded ones.

use super::Ask;
use signalbox_sim::replay::hash;

/// Words that are one token with a leading space in the vocabularies of OpenAI, Llama and Qwen, and four bytes, which servers without a
/// tokenizer take for a token. So a prompt of them has the same length everywhere.
const WORDS: [&str; 64] = [
    "the", "and", "for", "are", "but", "not", "you", "all", "any", "can", "had", "her", "was", "one", "our", "out",
    "day", "get", "has", "him", "his", "how", "man", "new", "now", "old", "see", "two", "way", "who", "did", "its",
    "let", "put", "say", "she", "too", "use", "big", "car", "cut", "end", "far", "few", "got", "job", "key", "low",
    "may", "men", "own", "run", "set", "sit", "six", "ten", "top", "try", "war", "why", "yes", "yet", "add", "age",
];

/// Words per hash: six bits each.
const PER_HASH: u32 = 10;

/// Family of unique text, distinct from every block of a trace.
const UNSHARED: u64 = 1 << 40;

/// Prompt of `ask`, with as many words as it has tokens. Equal block ids give equal text; the rest is unique to the request and `seed`.
pub(super) fn prompt(ask: &Ask, seed: u64) -> String {
    let tokens = ask.prompt_tokens;
    let mut text = String::with_capacity(tokens as usize * 4);
    for block in &*ask.blocks {
        let left = tokens.saturating_sub(words(&text));
        // Blocks belong to the trace and not to a seed: two plays share their prompts.
        say(&mut text, hash(0, *block), left.min(ask.block_tokens));
    }
    let left = tokens.saturating_sub(words(&text));
    say(&mut text, hash(UNSHARED | seed, ask.number), left);
    text
}

/// Words of a text from this file.
fn words(text: &str) -> u32 {
    (text.len() / 4) as u32
}

/// Appends `count` words that derive from `family`.
fn say(text: &mut String, family: u64, count: u32) {
    let mut bits = 0;
    for at in 0..count {
        if at % PER_HASH == 0 {
            bits = hash(family, u64::from(at / PER_HASH));
        }
        text.push(' ');
        text.push_str(WORDS[(bits & 63) as usize]);
        bits >>= 6;
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use signalbox_prompt::tokens::{Counter, Rendered, TokenizerSlot};
    use signalbox_types::Encoding;

    fn ask(number: u64, prompt_tokens: u32, blocks: &[u64]) -> Ask {
        Ask {
            at: Duration::ZERO,
            number,
            prompt_tokens,
            output_tokens: 1,
            whole: false,
            blocks: Arc::from(blocks),
            block_tokens: 16,
        }
    }

    #[test]
    fn a_prompt_has_as_many_tokens_as_were_asked_for() {
        for tokens in [1, 7, 512, 3_000] {
            let text = prompt(&ask(1, tokens, &[]), 1);
            assert_eq!(text.len(), tokens as usize * 4);
            for encoding in [Encoding::Cl100k, Encoding::O200k] {
                let counter = Counter::new(Arc::new(TokenizerSlot::open_ai(encoding)));
                let quoted = format!("\"{text}\"");
                let count = counter.count(&Rendered { prompt: &quoted, ..Rendered::default() });
                assert_eq!(count.tokens, u64::from(tokens));
            }
        }
    }

    #[test]
    fn equal_blocks_are_equal_prefixes() {
        let [one, other] = [ask(1, 60, &[7, 8, 9]), ask(2, 60, &[7, 8, 10])].map(|ask| prompt(&ask, 1));
        assert_eq!(one[..128], other[..128]);
        assert_ne!(one[128..], other[128..]);
        assert_eq!(prompt(&ask(3, 32, &[7, 8]), 5), one[..128], "whatever the seed and the number");
        assert_eq!(prompt(&ask(3, 20, &[7, 8]), 1), one[..80], "a last block may be cut short");
    }

    #[test]
    fn without_blocks_no_prompt_is_like_another() {
        let [one, other] = [1, 2].map(|number| prompt(&ask(number, 40, &[]), 1));
        assert_ne!(one[..40], other[..40]);
        assert_ne!(one, prompt(&ask(1, 40, &[]), 2));
        assert_eq!(one, prompt(&ask(1, 40, &[]), 1));
    }
}
