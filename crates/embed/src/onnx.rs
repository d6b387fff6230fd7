//! Sentence models in ONNX form, run by fastembed on an installed ONNX Runtime.
//!
//! The runtime is a shared library that is loaded with the first such model and stays until the process ends. Its
//! bindings panic if they have to locate it themselves, so it is loaded here, where a missing, invalid or outdated
//! library is an error that names the remedy.

use std::{
    borrow::Cow,
    env,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
    thread,
};

use parking_lot::Mutex;

use fastembed::{
    EmbeddingModel, InitOptionsUserDefined, Pooling, QuantizationMode, TextEmbedding, TextInitOptions, TokenizerFiles,
    UserDefinedEmbeddingModel,
};
use ort::environment::Environment;
use serde_json::Value;

use super::unit::normalise;
use signalbox_cache::{EmbedError, Embedder};
use signalbox_config::embedder::MODEL_FILES;

/// Instructions for getting the library: one command and one variable.
const HELP: &str = "get one by `pip install onnxruntime`, and set ORT_DYLIB_PATH to its folder `onnxruntime/capi`, or to the file \
                    libonnxruntime.so.* in it";
/// Folders searched without that variable, before the system's loader is asked for the library by name.
const FOLDERS: [&str; 6] = [
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/opt/homebrew/lib",
];
const NAMES: [&str; 3] = ["libonnxruntime.so", "libonnxruntime.dylib", "onnxruntime.dll"];
/// Most tokens of a text, if the model reads that many.
const MOST_TOKENS: usize = 512;
/// Tokens for unknown characters. Two texts that differ only in these would look equal.
const UNKNOWN: [&str; 2] = ["[UNK]", "<unk>"];

/// A loaded model.
pub struct Onnx {
    id: String,
    // The runtime's session is not shared between threads.
    model: Mutex<TextEmbedding>,
    dimensions: usize,
}

/// Reason why a model is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// No ONNX Runtime was found.
    #[error("there is no ONNX Runtime in {searched}: {HELP}")]
    NoLibrary {
        /// Places that were searched.
        searched: String,
    },
    /// The library found is not a usable ONNX Runtime.
    #[error("no ONNX Runtime that can be used ({problem}): {HELP}")]
    Library {
        /// Message of its bindings.
        problem: String,
    },
    /// A file of the model cannot be read.
    #[error("{path}: {problem}", path = path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The error.
        problem: std::io::Error,
    },
    /// The model is unusable.
    #[error("the model {model} cannot be used: {problem}")]
    Model {
        /// Its name, or its folder.
        model: String,
        /// Message of the runtime.
        problem: String,
    },
}

impl Onnx {
    /// Loads the model in `folder`, with the files in [`MODEL_FILES`], as on the hub. Its vectors are means over
    /// tokens, or the first token's, according to `1_Pooling/config.json` if it exists.
    ///
    /// # Errors
    ///
    /// [`OnnxError`], with the remedy.
    pub fn of_folder(folder: &Path) -> Result<Self, OnnxError> {
        let environment = environment()?;
        let name = folder.file_name().map_or_else(Default::default, |name| name.to_string_lossy());
        let failed = |problem: String| OnnxError::Model { model: folder.display().to_string(), problem };
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|problem| OnnxError::File { path, problem })
        };
        let [model, tokenizer, config, special, tokenizer_config] = MODEL_FILES.map(read);
        let (model, tokenizer) = (model?, tokenizer?);
        let pooling = pooling(folder).map_err(failed)?;
        let hash = blake3::Hasher::new()
            .update(&model)
            .update(&tokenizer)
            .update(format!("{pooling:?}").as_bytes())
            .finalize()
            .to_hex();
        let files = TokenizerFiles {
            tokenizer_file: tokenizer,
            config_file: config?,
            special_tokens_map_file: special?,
            tokenizer_config_file: tokenizer_config?,
        };
        let model = UserDefinedEmbeddingModel::new(model, files)
            .with_pooling(pooling)
            .with_quantization(QuantizationMode::None);
        let options = InitOptionsUserDefined::new()
            .with_environment(environment)
            .with_max_length(MOST_TOKENS)
            .with_intra_threads(threads());
        let model =
            TextEmbedding::try_new_from_user_defined(model, options).map_err(|error| failed(error.to_string()))?;
        Self::new(model, |_| format!("onnx:{name}@{}", &hash[..12])).map_err(failed)
    }

    /// Loads a model that fastembed knows by this name: from its cache (`HF_HOME`, else `FASTEMBED_CACHE_DIR`, else
    /// `~/.cache/fastembed`), or by downloading it, which may take minutes.
    ///
    /// # Errors
    ///
    /// [`OnnxError`], with the remedy.
    pub fn named(name: &str) -> Result<Self, OnnxError> {
        let failed = |problem: String| OnnxError::Model { model: name.to_owned(), problem };
        let known: EmbeddingModel = name.parse().map_err(failed)?;
        let environment = environment()?;
        let cache = env::var_os("FASTEMBED_CACHE_DIR")
            .filter(|folder| !folder.is_empty())
            .map_or_else(|| env::home_dir().unwrap_or_default().join(".cache").join("fastembed"), PathBuf::from);
        let options = TextInitOptions::new(known)
            .with_cache_dir(cache)
            .with_show_download_progress(false)
            .with_environment(environment)
            .with_max_length(MOST_TOKENS)
            .with_intra_threads(threads());
        let model = TextEmbedding::try_new(options).map_err(|error| failed(with_causes(&error)))?;
        // The vectors identify the revision that the hub returned.
        let revision = |probe: &[f32]| {
            let bytes: Vec<u8> = probe.iter().flat_map(|value| value.to_le_bytes()).collect();
            format!("fastembed:{name}@{}", &blake3::hash(&bytes).to_hex()[..12])
        };
        Self::new(model, revision).map_err(failed)
    }

    fn new(mut model: TextEmbedding, id: impl Fn(&[f32]) -> String) -> Result<Self, String> {
        let probe = model.embed(["probe"], Some(1)).map_err(|error| with_causes(&error))?;
        let probe = probe.first().filter(|vector| !vector.is_empty()).ok_or("its vector of a test word is empty")?;
        Ok(Self { id: id(probe), dimensions: probe.len(), model: Mutex::new(model) })
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
        MOST_TOKENS
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut model = self.model.lock();
        let one = |text: &&str| {
            let tokens = model.tokenizer.encode(*text, true).map_err(|error| Cow::Owned(error.to_string()))?;
            if !tokens.get_overflowing().is_empty() {
                return Err(Cow::Borrowed("a text is longer than its limit"));
            }
            if tokens.get_tokens().iter().any(|token| UNKNOWN.contains(&&**token)) {
                return Err(Cow::Borrowed("a text has characters that its tokenizer does not know"));
            }
            // Texts of a batch may influence one another under dynamic quantisation, so they are embedded one by one.
            let vectors = model.embed([*text], Some(1)).map_err(|error| Cow::Owned(with_causes(&error)))?;
            let mut vector = vectors.into_iter().next().ok_or(Cow::Borrowed("it returned no vector"))?;
            if vector.len() == self.dimensions && normalise(&mut vector) {
                Ok(vector)
            } else {
                Err(Cow::Borrowed("a vector is zero or not finite, or has another length than before"))
            }
        };
        let vectors: Result<_, Cow<'static, str>> = texts.iter().map(one).collect();
        vectors.map_err(|problem| EmbedError { embedder: self.id.clone(), problem })
    }
}

impl fmt::Debug for Onnx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Onnx").field("id", &self.id).field("dimensions", &self.dimensions).finish_non_exhaustive()
    }
}

/// An error with its causes: the reason of a failed download comes last.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut all = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        all = format!("{all}: {cause}");
        next = cause.source();
    }
    all
}

/// Threads for one text.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, |processors| (processors.get() / 4).max(1))
}

/// Pooling of the token vectors.
fn pooling(folder: &Path) -> Result<Pooling, String> {
    let Ok(file) = fs::read(folder.join("1_Pooling").join("config.json")) else { return Ok(Pooling::Mean) };
    let config: Value = serde_json::from_slice(&file).map_err(|error| format!("1_Pooling/config.json: {error}"))?;
    if config["pooling_mode_cls_token"] == true {
        Ok(Pooling::Cls)
    } else if config["pooling_mode_mean_tokens"] == true {
        Ok(Pooling::Mean)
    } else {
        Err("1_Pooling/config.json names neither the mean nor the first token, and no other pooling is supported"
            .to_owned())
    }
}

/// The runtime's environment, one per process. Loads the library on first use.
fn environment() -> Result<Environment, OnnxError> {
    static MADE: Mutex<Option<Environment>> = Mutex::new(None);
    let mut made = MADE.lock();
    if let Some(made) = &*made {
        return Ok(made.clone());
    }
    let variable = env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty());
    let unusable = |problem: String| OnnxError::Library { problem };
    let builder = first(&places(variable), |path| ort::init_from(path).map_err(|error| error.to_string()))?;
    let environment = builder.with_telemetry(false).build().map_err(|error| unusable(error.to_string()))?;
    *made = Some(environment.clone());
    Ok(environment)
}

/// Places of the library: `ORT_DYLIB_PATH`, or the usual folders.
fn places(variable: Option<OsString>) -> Vec<PathBuf> {
    match variable {
        Some(place) => vec![PathBuf::from(place)],
        None => FOLDERS.map(PathBuf::from).to_vec(),
    }
}

/// Loads the first loadable library in `places` with `load`.
fn first<T>(places: &[PathBuf], load: impl Fn(&Path) -> Result<T, String>) -> Result<T, OnnxError> {
    let mut problems = Vec::new();
    for path in places.iter().flat_map(|place| libraries(place)) {
        match load(&path) {
            Ok(loaded) => return Ok(loaded),
            Err(problem) => problems.push(problem),
        }
    }
    // The loader may know more places; its error otherwise adds nothing.
    if places.len() > 1
        && let Some(loaded) = NAMES.iter().find_map(|name| load(Path::new(name)).ok())
    {
        return Ok(loaded);
    }
    if problems.is_empty() {
        let searched: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(OnnxError::NoLibrary { searched: searched.join(", ") });
    }
    Err(OnnxError::Library { problem: problems.join("; ") })
}

/// Libraries at a place: the file itself, or those in a folder. The unversioned name is a link to one of several
/// versions, and is tried first.
fn libraries(place: &Path) -> Vec<PathBuf> {
    let place = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
    if place.is_file() {
        return vec![place];
    }
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        NAMES.contains(&name)
            || name.strip_prefix("libonnxruntime.").is_some_and(|rest| {
                rest.starts_with("so.")
                    || (rest.starts_with(|c: char| c.is_ascii_digit()) && rest.strip_suffix(".dylib").is_some())
            })
    };
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let mut found: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_library).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_missing_library_names_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(Some(folder.path().into()));
        let message = first::<()>(&places, |_| panic!("there is nothing to load")).unwrap_err().to_string();
        assert!(
            message.contains("pip install onnxruntime") && message.contains(&*folder.path().to_string_lossy()),
            "{message}"
        );
    }

    #[test]
    fn an_invalid_library_is_an_error_and_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libonnxruntime.so.1.24.1", "libonnxruntime_providers_shared.so", "notes.txt"] {
            fs::write(folder.path().join(name), "no library").unwrap();
        }
        assert_eq!(libraries(folder.path()), [folder.path().join("libonnxruntime.so.1.24.1")]);
        // Not `ort::init_from`: once another test has loaded a real library, it accepts any path.
        let load = |path: &Path| ort::util::probe(path).ok_or_else(|| format!("{} is none", path.display()));
        let message = first(&places(Some(folder.path().into())), load).unwrap_err().to_string();
        assert!(message.contains("no ONNX Runtime that can be used") && message.contains("pip install"), "{message}");
    }

    #[test]
    fn pooling_is_read_from_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(pooling(folder.path()), Ok(Pooling::Mean));
        fs::create_dir(folder.path().join("1_Pooling")).unwrap();
        let write = |text: &str| fs::write(folder.path().join("1_Pooling/config.json"), text).unwrap();
        write(r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#);
        assert_eq!(pooling(folder.path()), Ok(Pooling::Cls));
        write(r#"{"pooling_mode_max_tokens": true}"#);
        assert!(pooling(folder.path()).unwrap_err().contains("neither"));
    }

    /// Requires a runtime and a model: `SIGNALBOX_ONNX` names its folder.
    #[expect(clippy::print_stderr, reason = "reports skipped tests")]
    #[test]
    fn an_installed_runtime_embeds() {
        let Some(folder) = env::var_os("SIGNALBOX_ONNX").map(PathBuf::from) else {
            eprintln!("no ONNX model: set SIGNALBOX_ONNX to a folder with model.onnx and its tokenizer's files");
            return;
        };
        let model = match Onnx::of_folder(&folder) {
            Err(error @ OnnxError::NoLibrary { .. }) => return eprintln!("{error}"),
            other => other.unwrap(),
        };
        let vectors =
            model.embed(&["How do I return an item?", "What is the return policy?", "How do I bake bread?"]).unwrap();
        let cosine = |other: usize| vectors[0].iter().zip(&vectors[other]).map(|(a, b)| a * b).sum::<f32>();
        assert!(cosine(1) > cosine(2) + 0.2, "{} {}", cosine(1), cosine(2));
        assert!(model.id().starts_with("onnx:") && vectors[0].len() == model.dimensions());
        let long = "word ".repeat(600);
        assert!(model.embed(&[&long]).unwrap_err().to_string().contains("longer"));
    }
}
