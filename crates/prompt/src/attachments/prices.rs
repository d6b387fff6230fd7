//! The prices of attachments in tokens, by the family of the model's name.

use super::pictures::Pictures;

/// The tokens that a family of models takes for attachments.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Prices {
    pub(super) pictures: Pictures,
    /// Tokens for a second of sound.
    pub(super) sound: f64,
    /// Tokens for a second of video.
    pub(super) video: f64,
    /// Tokens for a page of a document.
    pub(super) page: u64,
    /// True if the family is known.
    pub(super) known: bool,
}

/// Those of a model of no known family: OpenAI's price of pictures.
const UNKNOWN: Prices =
    Prices { pictures: Pictures::Tiles { base: 85, tile: 170 }, sound: 25.0, video: 300.0, page: 1000, known: false };

/// OpenAI's models: ten tokens for a second of sound.
const OPEN_AI: Prices = Prices { sound: 10.0, known: true, ..UNKNOWN };

/// Families by the words that a model's name contains, the first that applies first. A word that ends a name or is
/// followed by a letter or a digit is another's: `gpt-5` is not `gpt-50`.
const FAMILIES: [(&[&str], Prices); 22] = [
    (&["gpt-4o-mini"], tiles(2833, 5667)),
    (&["gpt-4.1-mini"], patches(162)),
    (&["gpt-4.1-nano"], patches(246)),
    (&["gpt-5", "mini"], patches(162)),
    (&["gpt-5", "nano"], patches(246)),
    (&["o4-mini"], patches(172)),
    (&["gpt-5"], tiles(70, 140)),
    (&["gpt-4o"], tiles(85, 170)),
    (&["gpt-4.1"], tiles(85, 170)),
    (&["gpt-4.5"], tiles(85, 170)),
    (&["gpt-4"], tiles(85, 170)),
    (&["o1"], tiles(75, 150)),
    (&["o3"], tiles(75, 150)),
    (&["computer-use-preview"], tiles(65, 129)),
    (&["claude"], Prices { pictures: Pictures::Claude, page: 2250, ..KNOWN }),
    (&["gemini"], Prices { pictures: Pictures::Gemini, sound: 32.0, video: 290.0, page: 258, ..KNOWN }),
    (&["gemma"], Prices { pictures: Pictures::Fixed(256), ..KNOWN }),
    (&["qwen3-vl"], Prices { pictures: Pictures::Merged { side: 32 }, ..KNOWN }),
    (&["qwen3-omni"], Prices { pictures: Pictures::Merged { side: 32 }, sound: 13.0, ..KNOWN }),
    (&["qwen2.5-omni"], Prices { pictures: Pictures::Merged { side: 28 }, ..KNOWN }),
    (&["qwen", "vl"], Prices { pictures: Pictures::Merged { side: 28 }, ..KNOWN }),
    (&["qvq"], Prices { pictures: Pictures::Merged { side: 28 }, ..KNOWN }),
];

const KNOWN: Prices = Prices { known: true, ..UNKNOWN };

const fn tiles(base: u64, tile: u64) -> Prices {
    Prices { pictures: Pictures::Tiles { base, tile }, ..OPEN_AI }
}

const fn patches(hundredths: u64) -> Prices {
    Prices { pictures: Pictures::Patches { hundredths }, ..OPEN_AI }
}

impl Prices {
    /// The prices of the model `name`: `gpt-4o`, `anthropic/claude-sonnet-4`, `Qwen/Qwen2.5-VL-7B-Instruct`.
    pub fn of_model(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let has = |word: &str| name.match_indices(word).any(|(at, _)| is_whole(&name, at, at + word.len()));
        let found = FAMILIES.iter().find(|(words, _)| words.iter().all(|word| has(word)));
        found.map_or(UNKNOWN, |(_, prices)| *prices)
    }
}

/// True if what stands between the places is not a part of a longer word or number.
fn is_whole(name: &str, start: usize, end: usize) -> bool {
    let before = name[..start].chars().next_back();
    let after = name[end..].chars().next();
    let last = name[..end].chars().next_back();
    let goes_on = match (last, after) {
        (Some(last), Some(after)) if last.is_ascii_digit() => after.is_ascii_digit(),
        // `qwen2.5` is a `qwen`.
        (_, Some(after)) => after.is_ascii_alphabetic(),
        _ => false,
    };
    !before.is_some_and(|before| before.is_ascii_alphanumeric()) && !goes_on
}

impl Default for Prices {
    fn default() -> Self {
        UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_recognised_by_name() {
        let of = |name| Prices::of_model(name).pictures;
        for (name, pictures) in [
            ("gpt-4o", Pictures::Tiles { base: 85, tile: 170 }),
            ("openai/gpt-4o-2024-11-20", Pictures::Tiles { base: 85, tile: 170 }),
            ("gpt-4o-mini", Pictures::Tiles { base: 2833, tile: 5667 }),
            ("ft:gpt-4.1-mini:acme", Pictures::Patches { hundredths: 162 }),
            ("gpt-5.1", Pictures::Tiles { base: 70, tile: 140 }),
            ("gpt-5-nano", Pictures::Patches { hundredths: 246 }),
            ("o3", Pictures::Tiles { base: 75, tile: 150 }),
            ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", Pictures::Claude),
            ("google/gemini-2.5-flash", Pictures::Gemini),
            ("gemma-3-27b-it", Pictures::Fixed(256)),
            ("Qwen/Qwen2.5-VL-7B-Instruct", Pictures::Merged { side: 28 }),
            ("qwen-vl-max", Pictures::Merged { side: 28 }),
            ("Qwen3-VL-8B", Pictures::Merged { side: 32 }),
        ] {
            assert_eq!(of(name), pictures, "{name}");
            assert!(Prices::of_model(name).known, "{name}");
        }
        for name in ["m", "", "llama-4", "gpt-50", "qwen3-32b", "solo1", "mo3"] {
            assert_eq!(Prices::of_model(name), UNKNOWN, "{name}");
        }
    }
}
