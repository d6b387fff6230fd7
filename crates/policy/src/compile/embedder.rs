//! Compiles the embedder of the semantic cache.

use std::time::Duration;

use super::reader::Reader;
use crate::{EmbedderChoice, EmbeddingBackend};
use signalbox_config::{
    At, Either, Field, Problem, Url, Word,
    embedder::{self as raw, OtherEmbedder},
};

/// The default for the longest that a lookup waits for a vector.
const TIMEOUT: Duration = Duration::from_millis(250);
/// The longest vectors of any model.
const MAX_DIMENSIONS: u64 = 16_384;

impl Reader<'_> {
    pub(super) fn embedder(&mut self, raw: Option<&raw::Embedder>) -> EmbedderChoice {
        match raw {
            None => EmbedderChoice::default(),
            Some(Either::Short(word)) => {
                self.read(word);
                EmbedderChoice::BuiltIn
            }
            Some(Either::Long(other, at)) => self.other_embedder(other, *at),
        }
    }

    fn other_embedder(&mut self, raw: &OtherEmbedder, at: At) -> EmbedderChoice {
        let OtherEmbedder { backend, fastembed, onnx } = raw;
        let decider = match (backend, fastembed, onnx) {
            (Some(backend), None, None) => self.embedding_backend(&backend.value).map(EmbedderChoice::Backend),
            (None, Some(name), None) => self.fastembed(name),
            (None, None, Some(folder)) => self.onnx(folder),
            _ => {
                let message = if backend.is_none() && fastembed.is_none() && onnx.is_none() {
                    "an embedder without a kind"
                } else {
                    "more than one kind of embedder"
                };
                self.report(Problem::at(at, message).help("name one: `backend`, `fastembed` or `onnx`"));
                None
            }
        };
        decider.unwrap_or_default()
    }

    fn embedding_backend(&mut self, raw: &raw::EmbeddingBackend) -> Option<EmbeddingBackend> {
        let (url, model) = (self.read(&raw.url), self.read(&raw.model));
        let key = raw.key.as_ref().and_then(|source| self.secret(source));
        let dimensions = self.optional(raw.dimensions.as_ref());
        if let Some(field) =
            raw.dimensions.as_ref().filter(|_| dimensions.is_some_and(|it| !(2..=MAX_DIMENSIONS).contains(&it)))
        {
            self.report(
                Problem::at(field.at(), "a vector length that no model has")
                    .help(format!("write 2 to {MAX_DIMENSIONS}, or leave it to the model")),
            );
        }
        let timeout = self.or(raw.timeout.as_ref(), TIMEOUT);
        let (Url(url), Word(model)) = (url?, model?);
        Some(EmbeddingBackend { url, model, key, dimensions, timeout })
    }

    fn fastembed(&mut self, field: &Field<String>) -> Option<EmbedderChoice> {
        self.is_built_in(field);
        let name = self.read(field)?;
        #[cfg(feature = "fastembed")]
        if let Err(problem) = known(&name, field) {
            self.report(problem);
        }
        Some(EmbedderChoice::Fastembed(name))
    }

    fn onnx(&mut self, field: &Field<String>) -> Option<EmbedderChoice> {
        self.is_built_in(field);
        match self.config.model_folder(field) {
            Ok(folder) => Some(EmbedderChoice::Onnx(folder)),
            Err(problem) => {
                self.report(problem);
                None
            }
        }
    }

    /// Checks that this build can run such models.
    fn is_built_in(&mut self, field: &Field<String>) {
        if !cfg!(feature = "fastembed") {
            self.report(
                Problem::at(field.at(), "this signalbox was built without fastembed")
                    .help("build it with `cargo build --release --features fastembed`, or write `embedder: built-in`"),
            );
        }
    }
}

/// Checks that fastembed knows the model.
#[cfg(feature = "fastembed")]
fn known(name: &str, field: &Field<String>) -> Result<(), Problem> {
    if name.parse::<fastembed::EmbeddingModel>().is_ok() {
        return Ok(());
    }
    let models = fastembed::TextEmbedding::list_supported_models();
    let names: Vec<String> = models.iter().map(|model| format!("{:?}", model.model)).collect();
    let problem = Problem::at(field.at(), "a model that fastembed does not know");
    Err(match signalbox_config::nearest(name, names.iter().map(String::as_str)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("name one of fastembed's, such as `BGESmallENV15` or `AllMiniLML6V2`; a model of your own is `{ onnx: FOLDER }`"),
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{Policy, Secret, compile};
    use signalbox_config::Config;

    fn config(embedder: &str) -> Config {
        let text = format!(
            "pools: {{ p: {{ backends: [http://a:8000/v1] }} }}\ncache: {{ semantic: {{ scope: shared, embedder: {embedder} }} }}\n"
        );
        let var = |name: &str| (name == "K").then(|| "s3cret".to_owned());
        Config::parse("test.yaml", &text, &var, &|_| Err(io::ErrorKind::NotFound.into())).unwrap()
    }

    fn decider(embedder: &str) -> EmbedderChoice {
        let policy: Policy = compile(&config(embedder)).unwrap_or_else(|problems| panic!("{problems:?}"));
        policy.caching.unwrap().decider
    }

    fn refused(embedder: &str) -> String {
        format!("{:?}", compile(&config(embedder)).unwrap_err())
    }

    #[test]
    fn an_embedder_is_built_in_unless_the_policy_names_another() {
        assert_eq!(decider("built-in"), EmbedderChoice::BuiltIn);
        let backend = EmbeddingBackend {
            url: "http://e:1/v1".to_owned(),
            model: "bge".to_owned(),
            key: None,
            dimensions: None,
            timeout: TIMEOUT,
        };
        assert_eq!(
            decider("{ backend: { url: http://e:1/v1/, model: bge } }"),
            EmbedderChoice::Backend(backend.clone())
        );
        let all = "{ backend: { url: http://e:1/v1, model: bge, key: \"${K}\", dimensions: 512, timeout: 100ms } }";
        let wanted = EmbeddingBackend {
            key: Some(Secret("s3cret".into())),
            dimensions: Some(512),
            timeout: Duration::from_millis(100),
            ..backend
        };
        assert_eq!(decider(all), EmbedderChoice::Backend(wanted.clone()));
        assert!(!format!("{wanted:?}").contains("s3cret"));
    }

    #[test]
    fn invalid_embedders_are_reported() {
        assert!(refused("{}").contains("an embedder without a kind"));
        assert!(refused("{ onnx: a, fastembed: b }").contains("more than one kind"));
        assert!(refused("minilm").contains("not an embedder"));
    }

    #[cfg(not(feature = "fastembed"))]
    #[test]
    fn models_on_this_machine_need_the_feature() {
        for embedder in ["{ onnx: models/minilm }", "{ fastembed: BGESmallENV15 }"] {
            let found = refused(embedder);
            assert!(found.contains("built without fastembed") && found.contains("--features fastembed"), "{found}");
        }
    }

    #[cfg(feature = "fastembed")]
    #[test]
    fn models_on_this_machine_are_named() {
        assert_eq!(decider("{ fastembed: BGESmallENV15 }"), EmbedderChoice::Fastembed("BGESmallENV15".to_owned()));
        assert_eq!(decider("{ onnx: models/minilm }"), EmbedderChoice::Onnx("models/minilm".into()));
        assert!(refused("{ fastembed: BGESmalENV15 }").contains("did you mean `BGESmallENV15`?"));
        assert!(refused("{ fastembed: zzz }").contains("a model that fastembed does not know"));
    }
}
