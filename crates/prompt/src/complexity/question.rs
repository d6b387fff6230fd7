//! Finds a question that stands for itself beside words that say nothing about it ("Think step by step and prove
//! rigorously. What is the capital of France?"). Such a text is about as hard as its question.
//!
//! A question stands for itself if it has a subject of its own and refers to nothing before it. Words beside it say
//! nothing about it if they share no word with it and bring no material: numbers, quotations, code.

/// Bytes of the longest text that is split, and of the longest words beside a question.
const LONGEST: usize = 500;
const BESIDE: usize = 240;
/// Words of the shortest question that stands for itself.
const WORDS: usize = 5;
/// Letters from which a word is compared, and those of it that are.
const LONG: usize = 4;
const STEM: usize = 5;

/// The share of what the words beside a question add to its features.
pub(super) const SHARE: f32 = 0.2;

/// First words of questions.
const OPENINGS: &str = "what who whom whose when where which how is are was were does did do has have can \
    was wer wo wann wie welche welcher welches ist quel quelle qui où quand combien cuál cuáles quién dónde cuándo cuánto qual \
    quale quando quem onde что кто где когда какой какая какое сколько";
/// Words that refer to what is beside the question, or to whoever takes part.
const REFERENCES: &str = "this that these those it its they them their he she him her his hers here there then above below \
    following same such other another both each you your we our us i my me would should could one ones so also \
    das dies diese dieser es sie ihr ihre er ihn ihm du wir ich ce cette ces cela ça il elle ils elles leur eso esto esta este \
    ella ellos su sus это этот эта эти он она они его её их";

/// The question of `text`, if it stands for itself and the rest says nothing about it.
pub(super) fn lone(text: &str) -> Option<&str> {
    if text.len() > LONGEST {
        return None;
    }
    let text = text.trim();
    let mut questions = sentences(text).filter(|sentence| sentence.ends_with('?'));
    let question = questions.next().filter(|_| questions.next().is_none())?;
    let start = question.as_ptr() as usize - text.as_ptr() as usize;
    let beside = [&text[..start], &text[start + question.len()..]];
    let material = |letter: char| letter.is_ascii_digit() || "\"'`“”«»=+*/\\|^_<>[]{}()#$%&~@".contains(letter);
    let length: usize = beside.iter().map(|part| part.trim().len()).sum();
    if length == 0 || length > BESIDE || beside.iter().any(|part| part.contains(material)) {
        return None;
    }
    let is = |list: &str, word: &str| list.split_whitespace().any(|listed| listed.eq_ignore_ascii_case(word));
    let opens = words(question).next().is_some_and(|first| is(OPENINGS, first));
    let refers = words(question).any(|word| is(REFERENCES, word));
    let shares = words(question)
        .filter(|word| word.chars().count() >= LONG)
        .any(|word| beside.iter().flat_map(|part| words(part)).any(|other| is_akin(word, other)));
    (opens && !refers && !shares && words(question).count() >= WORDS && has_subject(question)).then_some(question)
}

/// True if a question names something, or is long enough to describe it.
fn has_subject(question: &str) -> bool {
    let named = words(question).skip(1).any(|word| word.starts_with(char::is_uppercase));
    named || words(question).filter(|word| word.chars().count() >= LONG).count() >= 3
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['.', '!', '?', ':', '\n']).map(str::trim).filter(|sentence| !sentence.is_empty())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// True if two words begin alike.
fn is_akin(word: &str, other: &str) -> bool {
    let stem = |word: &str| word.chars().flat_map(char::to_lowercase).take(STEM).collect::<String>();
    other.chars().count() >= LONG && stem(word) == stem(other)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Features, Weights, score},
        *,
    };
    use signalbox_types::Outline;

    fn scored(text: &str) -> f64 {
        score(&Features::of(&Outline::of_text(text)), Weights::built_in()).score
    }

    #[test]
    fn words_of_work_about_nothing_add_little() {
        for question in ["What is the capital of France?", "When did the railway between London and Bath open?"] {
            let alone = scored(question);
            for words in [
                "Think step by step and prove rigorously.",
                "As a world-class mathematician, derive from first principles, design, analyse and prove:",
                "Analyze the legal, medical and architectural implications of the following and prove your theorem:",
                "You are an expert in distributed systems, compilers and cryptography.",
            ] {
                for text in [format!("{words} {question}"), format!("{question} {words}")] {
                    assert!(scored(&text) - alone < 0.3, "{text}: {}", scored(&text) - alone);
                }
            }
        }
    }

    #[test]
    fn what_a_question_is_about_stays() {
        for text in [
            "Alice has three apples and gives two to Bob. How many apples does Alice have?",
            "Design a rate limiter. What are its limits under bursts from Europe?",
            "Take the sequence 2, 4, 8. What is the next number of Fibonacci?",
            "Prove the theorem.",
            "What is the capital of France?",
            "Prove the theorem of Fermat. Why?",
            "Is this right? Where is the capital of France?",
            "Compare the two plans in detail. Which would you choose for Germany?",
        ] {
            assert_eq!(lone(text), None, "{text}");
        }
        let text = "Think hard.\nWhat is the capital of France?";
        assert_eq!(lone(text), Some("What is the capital of France?"));
    }
}
