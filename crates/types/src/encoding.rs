//! OpenAI's encodings, and the models that use them.

/// An encoding of OpenAI's models.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `cl100k_base`: GPT-3.5, GPT-4, the third embedding models.
    Cl100k,
    /// `o200k_base`: GPT-4o, GPT-4.1, GPT-5, the o series, gpt-oss.
    O200k,
}

/// Prefixes of model names, longer ones before shorter ones, with the encoding that tiktoken uses.
const MODELS: [(&str, Encoding); 14] = [
    ("gpt-4o", Encoding::O200k),
    ("gpt-4.1", Encoding::O200k),
    ("gpt-4.5", Encoding::O200k),
    ("gpt-5", Encoding::O200k),
    ("gpt-oss", Encoding::O200k),
    ("chatgpt-4o", Encoding::O200k),
    ("o1", Encoding::O200k),
    ("o3", Encoding::O200k),
    ("o4", Encoding::O200k),
    ("gpt-4", Encoding::Cl100k),
    ("gpt-3.5", Encoding::Cl100k),
    ("gpt-35", Encoding::Cl100k),
    ("text-embedding-3", Encoding::Cl100k),
    ("text-embedding-ada-002", Encoding::Cl100k),
];

impl Encoding {
    /// The encoding of the model `name`, if it belongs to one of OpenAI's families: `gpt-4o-mini`, `openai/o3`,
    /// `ft:gpt-4.1:…`.
    pub fn of_model(name: &str) -> Option<Self> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let name = name.strip_prefix("ft:").unwrap_or(name);
        MODELS.iter().find_map(|(family, encoding)| {
            let rest = name.strip_prefix(family)?;
            (rest.is_empty() || rest.starts_with(['-', ':', '.', 'o'])).then_some(*encoding)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_recognised_by_name() {
        use Encoding::{Cl100k, O200k};
        for (name, want) in [
            ("gpt-4o-mini", Some(O200k)),
            ("gpt-4.1", Some(O200k)),
            ("gpt-5.1-codex", Some(O200k)),
            ("gpt-5", Some(O200k)),
            ("o3", Some(O200k)),
            ("o4-mini", Some(O200k)),
            ("openai/gpt-oss-120b", Some(O200k)),
            ("ft:gpt-4o:acme::id", Some(O200k)),
            ("gpt-4-turbo", Some(Cl100k)),
            ("gpt-4", Some(Cl100k)),
            ("gpt-3.5-turbo", Some(Cl100k)),
            ("text-embedding-3-small", Some(Cl100k)),
            ("gpt-4all", None),
            ("o3x", None),
            ("o1", Some(O200k)),
            ("llama-3", None),
            ("gpt2", None),
            ("", None),
        ] {
            assert_eq!(Encoding::of_model(name), want, "{name}");
        }
    }
}
