//! Sentence models in ONNX form, run by fastembed on an ONNX Runtime that is on the machine.
//!
//! The runtime is a shared library that is loaded when the first such model is made. It is looked for before, because its bindings
//! panic where it is missing.

use std::{
    borrow::Cow,
    env, fmt, fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use fastembed::{
    InitOptionsUserDefined, Pooling, QuantizationMode, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel,
};

use super::unit::normalise;
use crate::cache::{EmbedError, Embedder};

/// How to get the library; one command and one variable.
const HELP: &str = "get it by `pip install onnxruntime` and set ORT_DYLIB_PATH to the file libonnxruntime.so.* in its folder \
                    onnxruntime/capi";
const FOLDERS: [&str; 4] = ["/usr/lib", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];

/// A model of a folder.
pub struct Onnx {
    id: String,
    // The runtime's session wants to be alone; a worker has one thread for each text anyway.
    model: Mutex<TextEmbedding>,
    dimensions: usize,
    max_tokens: usize,
}

/// A model cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// There is no ONNX Runtime.
    #[error("ONNX Runtime is not in any of {searched}: {HELP}")]
    NoLibrary {
        /// Where it was looked for.
        searched: String,
    },
    /// What was found is no ONNX Runtime that can be used.
    #[error("{path} is no ONNX Runtime that can be used ({problem}): {HELP}", path = path.display())]
    Library {
        /// What was found.
        path: PathBuf,
        /// What the loader says.
        problem: String,
    },
    /// A file of the model cannot be read.
    #[error("{path}: {problem}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        problem: std::io::Error,
    },
    /// The model does not embed.
    #[error("{folder} has no model that embeds texts: {problem}", folder = folder.display())]
    Model {
        /// Its folder.
        folder: PathBuf,
        /// What the runtime says.
        problem: String,
    },
}

/// The runtime's library: the file or in the folder `named`, else what `ORT_DYLIB_PATH` says, else in the usual places.
///
/// # Errors
/// [`OnnxError::NoLibrary`], with what would mend it.
pub fn library(named: Option<&Path>) -> Result<PathBuf, OnnxError> {
    let variable = env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty()).map(PathBuf::from);
    let places = match named.map(Path::to_owned).or(variable) {
        Some(place) => vec![place],
        None => FOLDERS.map(PathBuf::from).to_vec(),
    };
    places.iter().find_map(|place| library_at(place)).ok_or_else(|| {
        let searched: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        OnnxError::NoLibrary { searched: searched.join(", ") }
    })
}

fn library_at(place: &Path) -> Option<PathBuf> {
    if place.is_file() {
        return Some(place.to_owned());
    }
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ["libonnxruntime.so", "libonnxruntime.dylib", "onnxruntime.dll"].contains(&name)
            || name.strip_prefix("libonnxruntime.").is_some_and(|rest| {
                rest.starts_with("so.") || (rest.starts_with(|c: char| c.is_ascii_digit()) && rest.ends_with(".dylib"))
            })
    };
    // Of several versions the last by name; the plain name, if there is one, is a link to it.
    fs::read_dir(place).ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_library).max()
}

impl Onnx {
    /// The model in `folder`: `model.onnx`, `tokenizer.json`, `config.json`, `special_tokens_map.json` and `tokenizer_config.json`, as
    /// they are on the hub; its vectors are means over tokens. It reads at most `max_tokens` of a text, on `threads` threads.
    ///
    /// # Errors
    /// [`OnnxError`], with what would mend it. The built-in embedders need none of this.
    pub fn load(folder: &Path, max_tokens: usize, threads: usize, named: Option<&Path>) -> Result<Self, OnnxError> {
        let library = library(named)?;
        let environment = ort::init_from(&library);
        let environment =
            environment.map_err(|error| OnnxError::Library { path: library, problem: error.to_string() })?;
        // Once there is one environment in the process, it serves.
        let _ = environment.commit();
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|problem| OnnxError::File { path, problem })
        };
        let model = read("model.onnx")?;
        let tokenizer = TokenizerFiles {
            tokenizer_file: read("tokenizer.json")?,
            config_file: read("config.json")?,
            special_tokens_map_file: read("special_tokens_map.json")?,
            tokenizer_config_file: read("tokenizer_config.json")?,
        };
        let hash = blake3::Hasher::new().update(&model).update(&tokenizer.tokenizer_file).finalize().to_hex();
        let name = folder.file_name().map_or_else(Default::default, |name| name.to_string_lossy());
        let failed = |problem: String| OnnxError::Model { folder: folder.to_owned(), problem };
        // Texts of a batch may influence one another where numbers are put on a grid at run time: one by one then.
        let model = UserDefinedEmbeddingModel::new(model, tokenizer)
            .with_pooling(Pooling::Mean)
            .with_quantization(QuantizationMode::None);
        let options = InitOptionsUserDefined::new().with_max_length(max_tokens).with_intra_threads(threads);
        let mut model =
            TextEmbedding::try_new_from_user_defined(model, options).map_err(|error| failed(error.to_string()))?;
        let probe = model.embed(["probe"], Some(1)).map_err(|error| failed(error.to_string()))?;
        let dimensions = probe.first().map_or(0, Vec::len);
        if dimensions == 0 {
            return Err(failed("its vector of a word has no dimensions".to_owned()));
        }
        Ok(Self { id: format!("{name}@{}", &hash[..12]), model: Mutex::new(model), dimensions, max_tokens })
    }
}

impl Embedder for Onnx {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let problem = |problem: Cow<'static, str>| EmbedError { embedder: self.id.clone(), problem };
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |text: &&str| {
            let vectors = model.embed([*text], Some(1)).map_err(|error| problem(error.to_string().into()))?;
            let mut vector = vectors.into_iter().next().ok_or_else(|| problem("it gave no vector".into()))?;
            if vector.len() == self.dimensions && normalise(&mut vector) {
                Ok(vector)
            } else {
                Err(problem("a vector has no direction, or another length than before".into()))
            }
        };
        texts.iter().map(one).collect()
    }
}

impl fmt::Debug for Onnx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Onnx").field("id", &self.id).field("dimensions", &self.dimensions).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_says_how_to_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let told = library(Some(folder.path())).unwrap_err().to_string();
        assert!(told.contains("pip install onnxruntime") && told.contains(&*folder.path().to_string_lossy()), "{told}");
        let file = folder.path().join("libonnxruntime.so.1.24.1");
        fs::write(&file, "no library").unwrap();
        assert_eq!(library(Some(folder.path())).unwrap(), file);
        let told = Onnx::load(folder.path(), 256, 1, Some(folder.path())).unwrap_err().to_string();
        assert!(told.contains("is no ONNX Runtime that can be used"), "{told}");
    }

    #[test]
    fn a_real_runtime_embeds_where_there_is_one() {
        let Some(folder) = env::var_os("SIGNALBOX_ONNX").map(PathBuf::from) else {
            eprintln!("no ONNX model: set SIGNALBOX_ONNX to a folder with model.onnx and its tokenizer's files");
            return;
        };
        let model = match Onnx::load(&folder, 256, 1, None) {
            Err(error @ OnnxError::NoLibrary { .. }) => return eprintln!("{error}"),
            other => other.unwrap(),
        };
        let vectors =
            model.embed(&["How do I return an item?", "What is the return policy?", "How do I bake bread?"]).unwrap();
        let cosine = |other: usize| vectors[0].iter().zip(&vectors[other]).map(|(a, b)| a * b).sum::<f32>();
        assert!(cosine(1) > cosine(2) + 0.2, "{} {}", cosine(1), cosine(2));
    }
}
