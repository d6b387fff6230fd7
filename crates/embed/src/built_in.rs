//! Built-in embedders, created at their first use and kept. Their data is compressed in `crates/minilm`.

use std::{
    borrow::Cow,
    io,
    sync::{Arc, OnceLock},
};

use signalbox_minilm::data;

use super::{
    minilm::{MiniLm, Weights},
    static_table::{Rows, StaticTable},
    wordpiece::WordPiece,
};
use signalbox_cache::{EmbedError, Embedder};

/// Longest text that the built-in embedders read, in tokens: the length at which the sentence model was evaluated.
const MAX_TOKENS: usize = 256;

type Made = OnceLock<Result<Arc<dyn Embedder>, EmbedError>>;

/// The recalling embedder: a static table, microseconds per text. The first call creates it, which takes tens of
/// milliseconds.
///
/// # Errors
///
/// If the built-in data is not an embedder.
pub fn recall() -> Result<Arc<dyn Embedder>, EmbedError> {
    static MADE: Made = OnceLock::new();
    MADE.get_or_init(|| {
        let name = "minilm-static";
        let make = || {
            let file = inflated(data::table)?;
            let revision = revision(name, &file);
            let rows = Rows::read(file).map_err(|error| error.to_string())?;
            StaticTable::new(revision, rows, wordpiece()?, MAX_TOKENS)
        };
        make().map(|made| Arc::new(made) as _).map_err(|problem| failed(name, problem))
    })
    .clone()
}

/// The deciding embedder: a sentence model, milliseconds per text. The first call creates it, which takes a fifth of a
/// second.
///
/// # Errors
///
/// If the built-in data is not an embedder.
pub fn decider() -> Result<Arc<dyn Embedder>, EmbedError> {
    static MADE: Made = OnceLock::new();
    MADE.get_or_init(|| {
        let name = "minilm-l6-w8";
        let make = || {
            let file = inflated(data::weights)?;
            let weights = Weights::read(&file).map_err(|error| error.to_string())?;
            MiniLm::new(revision(name, &file), weights, wordpiece()?, MAX_TOKENS)
        };
        make().map(|made| Arc::new(made) as _).map_err(|problem| failed(name, problem))
    })
    .clone()
}

/// True if the built-in embedders read the whole text. Of a longer text they see only the beginning, so that two with a
/// common beginning would look equal; so would two that differ only in unknown characters.
pub fn reads_whole(text: &str) -> bool {
    wordpiece().is_ok_and(|wordpiece| wordpiece.fits(text, MAX_TOKENS - 2))
}

fn wordpiece() -> Result<Arc<WordPiece>, String> {
    static MADE: OnceLock<Result<Arc<WordPiece>, String>> = OnceLock::new();
    MADE.get_or_init(|| WordPiece::read(&inflated(data::tokenizer)?).map(Arc::new)).clone()
}

fn inflated(file: fn() -> io::Result<Vec<u8>>) -> Result<Vec<u8>, String> {
    file().map_err(|error| error.to_string())
}

/// Name with a hash of the file, so that vectors of different files are never mixed.
fn revision(name: &str, file: &[u8]) -> String {
    format!("{name}@{}", &blake3::hash(file).to_hex()[..12])
}

fn failed(name: &str, problem: String) -> EmbedError {
    EmbedError { embedder: name.to_owned(), problem: Cow::Owned(problem) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(one: &[f32], other: &[f32]) -> f32 {
        one.iter().zip(other).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn the_deciding_embedder_reproduces_the_model() {
        let decider = decider().unwrap();
        let vectors = decider
            .embed(&[
                "This is an example sentence",
                "How do I return an item?",
                "What is the return policy?",
                "How do I bake bread?",
            ])
            .unwrap();
        for (found, wanted) in vectors[0].iter().zip([0.0677, 0.0635, 0.0487, 0.0793]) {
            assert!((found - wanted).abs() < 0.003, "{:?}", &vectors[0][..4]);
        }
        let near = cosine(&vectors[1], &vectors[2]);
        let far = cosine(&vectors[1], &vectors[3]);
        assert!((near - 0.54).abs() < 0.015, "{near}");
        assert!((far - 0.07).abs() < 0.015, "{far}");
        assert_eq!(vectors[0].len(), decider.dimensions());
    }

    #[test]
    fn the_recalling_embedder_places_similar_texts_close_together() {
        let recall = recall().unwrap();
        let vectors =
            recall.embed(&["How do I return an item?", "how can I return an item", "How do I bake bread?"]).unwrap();
        let (near, far) = (cosine(&vectors[0], &vectors[1]), cosine(&vectors[0], &vectors[2]));
        assert!(near > 0.9 && far < 0.5, "{near} {far}");
        assert_eq!(vectors[0].len(), recall.dimensions());
    }

    #[test]
    fn vectors_have_length_one_and_do_not_depend_on_the_batch() {
        for embedder in [recall().unwrap(), decider().unwrap()] {
            let texts = ["a", "What is the capital of France?", "Łódź, 東京 and \u{1f600}", "\u{0}\u{feff} x \r\n\t"];
            let together = embedder.embed(&texts).unwrap();
            assert!(together.iter().all(|vector| (cosine(vector, vector) - 1.0).abs() < 1e-4));
            assert_eq!(together[2..3], embedder.embed(&texts[2..3]).unwrap());
        }
    }

    #[test]
    fn only_the_window_of_a_long_text_counts() {
        let long = "word ".repeat(10_000);
        assert!(!reads_whole(&long) && !reads_whole(&"x ".repeat(255)));
        assert!(reads_whole(&"x ".repeat(254)) && reads_whole("") && reads_whole("a short question?"));
        let vectors = recall().unwrap().embed(&[&long, &format!("{long} and more")]).unwrap();
        assert_eq!(vectors[0], vectors[1]);
        let mut pieces = Vec::new();
        wordpiece().unwrap().pieces(&long, decider().unwrap().max_tokens() - 2, &mut pieces).unwrap();
        assert_eq!(pieces.len(), 254);
    }

    #[test]
    fn unknown_characters_are_not_read() {
        for text in ["What does 😀 mean?", "Explain the word ሀገር please", "ប្រទេសកម្ពុជា"]
        {
            assert!(!reads_whole(text), "{text}");
        }
        assert!(reads_whole("Łódź, 東京 and Что такое любовь?"));
    }

    #[test]
    fn texts_without_words_are_refused_or_embedded_but_never_zero() {
        assert!(recall().unwrap().embed(&[""]).unwrap_err().to_string().contains("no word"));
        assert_eq!(decider().unwrap().embed(&["", " \n"]).unwrap().len(), 2);
        assert!(decider().unwrap().embed(&[]).unwrap().is_empty());
    }
}
