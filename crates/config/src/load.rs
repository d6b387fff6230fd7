//! Loads a policy file: the document, the variables it refers to, and its key files.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    io::{self, Read as _},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use super::{
    embedder::MODEL_FILES,
    env::Vars,
    key_source::KeySource,
    mask::{self, masked, masked_within},
    mistake::{At, Mistake},
    place::part,
    problem::{Problem, Problems},
    raw::Document,
    recover::{self, Recovered},
    scalar::{Field, Scalar, Token},
    secrets::{embedder, exposed, key_sources},
    shape::Either,
    shape_problems::Shape,
    tokenizer::Tokenizer,
    yaml::MAX_NODES,
};

/// Looks up a variable.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;
/// Reads a key file.
type Files<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Limits of a text.
#[derive(Copy, Clone)]
struct Largest {
    what: &'static str,
    bytes: usize,
    /// Values, lists and mappings.
    nodes: usize,
}

/// The largest policy file.
const POLICY: Largest = Largest { what: "policy file", bytes: 4 << 20, nodes: MAX_NODES };
/// The largest file of managed keys: ten thousand of them, with up to 1.6 KiB each.
const MANAGED_KEYS: Largest = Largest { what: "file of keys", bytes: 16 << 20, nodes: 1_000_000 };

/// A loaded policy file. Its values can be read without further access to the disk or the environment.
pub struct Config {
    name: String,
    document: Document,
    vars: Vars,
    files: HashMap<String, Result<String, Mistake>>,
    /// The text with its secrets masked, for display.
    shown: Arc<str>,
    hash: String,
    /// The folder that relative paths start from, and the tokenizer and model files that cannot be read.
    folder: PathBuf,
    missing: HashMap<String, Mistake>,
    exposed: Option<At>,
    /// The problems of entries that are not in `document` because they have the wrong shape.
    shape: Shape,
    allows_unset: bool,
    unset: OnceLock<BTreeSet<String>>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("name", &self.name).field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// True if `path` stands for the standard input, which can be read once.
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn input() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more, so that what is too large is noticed.
    io::stdin().lock().take(POLICY.bytes as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Config {
    /// Reads the file at `path`, with the environment variables of this process. `-` is the standard input, whose paths
    /// start from the current folder.
    pub fn load(path: &Path) -> Result<Self, Problems> {
        let is_input = is_standard_input(path);
        let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
        let whole = |problem| Problems::new(&name, "".into(), vec![problem]);
        let bytes = if is_input { input() } else { std::fs::read(path) }.map_err(|error| whole(unreadable(&error)))?;
        Self::load_bytes(path, bytes)
    }

    /// Reads `bytes` as the content of the file at `path`, with the environment variables of this process.
    pub fn load_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, Problems> {
        let is_input = is_standard_input(path);
        let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let text = masked(&String::from_utf8_lossy(error.as_bytes()));
            Problems::new(
                &name,
                (&*text).into(),
                vec![
                    Problem::at(At { start: valid, len: 1 }, "not UTF-8 text from here on")
                        .help("save the file as UTF-8"),
                ],
            )
        })?;
        let mut config = Self::here(&name, &text)?;
        config.exposed = if is_input { None } else { exposed(path, &config.document) };
        config.folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        config.check_tokenizers();
        config.check_models();
        Ok(config)
    }

    /// Reads `text` with the variables and files of this process.
    fn here(name: &str, text: &str) -> Result<Self, Problems> {
        Self::parse(name, text, &|var| std::env::var(var).ok(), &|path| std::fs::read_to_string(path))
    }

    /// Reads `text` as the file `name`; `var` looks up variables and `file` reads key files.
    pub fn parse(
        name: &str,
        text: &str,
        var: &dyn Fn(&str) -> Option<String>,
        file: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, Problems> {
        Self::parse_within(name, text, POLICY, (var, file))
    }

    /// Reads `text` as the file `name` of keys that the gateway itself keeps, with neither variables nor files.
    pub fn parse_managed_keys(name: &str, text: &str) -> Result<Self, Problems> {
        Self::parse_within(name, text, MANAGED_KEYS, (&|_| None, &|_| Err(io::ErrorKind::NotFound.into())))
    }

    fn parse_within(
        name: &str,
        text: &str,
        most: Largest,
        (var, file): (Variables<'_>, Files<'_>),
    ) -> Result<Self, Problems> {
        // A byte order mark would shift every position by its length.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.len() > most.bytes {
            let message = format!("larger than {} MiB: this is no {}", most.bytes >> 20, most.what);
            return Err(Problems::new(name, "".into(), vec![Problem::whole(message)]));
        }
        let shown: Arc<str> = masked_within(text, most.nodes).into();
        let Recovered { document, mut problems, left_out, .. } = recover::parse_within::<Document>(text, most.nodes);
        for problem in &mut problems {
            problem.message = mask::discreet(&problem.message, text, &shown).into();
        }
        let Some(document) = document else { return Err(Problems::new(name, shown, problems)) };
        let shape = Shape::new(&document, problems, left_out);
        let vars = Vars::of(text, var);
        let mut files = HashMap::new();
        for source in key_sources(&document) {
            if let Either::Long(key, _) = source
                && let Ok(path) = vars.fill(key.file.text())
            {
                let content = file(Path::new(&*path)).map_err(|error| {
                    Mistake::new(format!("this key file cannot be read: {}", plain(&error)))
                        .help("check the path, and that signalbox may read it")
                });
                files.insert(key.file.text().to_owned(), content);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            shown,
            hash: blake3::hash(text.as_bytes()).to_hex()[..12].to_owned(),
            document,
            vars,
            files,
            folder: PathBuf::new(),
            missing: HashMap::new(),
            exposed: None,
            shape,
            allows_unset: false,
            unset: OnceLock::new(),
        })
    }

    /// The parsed document with values not yet interpreted.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The line of the first literal secret, if the file is readable by everyone on this machine.
    pub fn exposed(&self) -> Option<usize> {
        let at = self.exposed?;
        Some(1 + self.shown.bytes().take(at.start).filter(|byte| *byte == b'\n').count())
    }

    /// The text with secrets masked.
    pub fn text(&self) -> &Arc<str> {
        &self.shown
    }

    /// First 12 hex digits of the BLAKE3 hash of the text.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The value of `field`, with its variables substituted.
    pub fn read<T: Scalar>(&self, field: &Field<T>) -> Result<T, Problem> {
        let problem = |mistake| Problem::mistake(field.at(), mistake);
        let text = self.vars.fill(field.text()).map_err(problem)?;
        T::read(&text).map_err(|mistake| problem(if *text == *field.text() { mistake } else { discreet(mistake) }))
    }

    /// The position of the bytes `range` of the text of `field`; the whole field if that cannot be determined.
    pub fn part<T>(&self, field: &Field<T>, range: Range<usize>) -> At {
        let At { start, len } = field.at();
        let raw = self.shown.get(start..start.saturating_add(len));
        match raw.and_then(|raw| part(raw, field.text(), &range)) {
            Some(range) => At { start: start + range.start, len: range.len() },
            None => field.at(),
        }
    }

    /// The text of an untyped value, with its variables substituted.
    pub fn fill<'a>(&self, text: &'a str, at: At) -> Result<Cow<'a, str>, Problem> {
        self.vars.fill(text).map_err(|mistake| Problem::mistake(at, mistake))
    }

    /// The files of secrets that this file names and that could be read, each with the BLAKE3 hash of its content.
    pub fn secret_files(&self) -> Vec<(PathBuf, [u8; 32])> {
        let files = self.files.iter().filter_map(|(name, content)| {
            let (path, content) = (self.vars.fill(name).ok()?, content.as_ref().ok()?);
            Some((PathBuf::from(&*path), *blake3::hash(content.as_bytes()).as_bytes()))
        });
        let mut files: Vec<_> = files.collect();
        files.sort_unstable();
        files
    }

    /// The provider key from `source`.
    pub fn secret(&self, source: &KeySource) -> Result<Token, Problem> {
        match source {
            Either::Short(field) => self.read(field),
            Either::Long(key, _) => {
                self.read(&key.file)?;
                let problem = |mistake| Problem::mistake(key.file.at(), discreet(mistake));
                match self.files.get(key.file.text()) {
                    Some(Ok(content)) => Token::read(content).map_err(problem),
                    Some(Err(mistake)) => Err(Problem::mistake(key.file.at(), mistake.clone())),
                    None => Err(problem(Mistake::new("this key file was not read"))),
                }
            }
        }
    }

    /// The tokenizer that `field` names, with an absolute path for a file.
    pub fn tokenizer(&self, field: &Field<Tokenizer>) -> Result<Tokenizer, Problem> {
        match self.read(field)? {
            Tokenizer::File(path) => match self.missing.get(field.text()) {
                Some(mistake) => Err(Problem::mistake(field.at(), mistake.clone())),
                None => Ok(Tokenizer::File(self.folder.join(path))),
            },
            other => Ok(other),
        }
    }

    /// The path in `field`, relative to this file's folder.
    pub fn path(&self, field: &Field<String>) -> Result<PathBuf, Problem> {
        self.read(field).map(|path: String| self.folder.join(path))
    }

    /// Checks that the tokenizers' files exist. Does not read them: large ones take seconds.
    fn check_tokenizers(&mut self) {
        let pools = self.document.pools.iter().flat_map(|named| &named.entries);
        for field in pools.filter_map(|(_, pool)| pool.tokenizer.as_ref()) {
            if let Ok(Tokenizer::File(path)) = self.read(field)
                && let Err(error) = std::fs::File::open(self.folder.join(path)).and_then(|file| readable(&file))
            {
                let mistake = Mistake::new(format!("this tokenizer cannot be read: {}", plain(&error))).help(
                    "paths start from this file's folder; models on the hub have a `tokenizer.json`, or write their name \
                     such as `Qwen/Qwen2.5-7B-Instruct`",
                );
                self.missing.insert(field.text().to_owned(), mistake);
            }
        }
    }

    /// The model folder in `field`, relative to this file's folder.
    pub fn model_folder(&self, field: &Field<String>) -> Result<PathBuf, Problem> {
        let folder = self.read(field)?;
        match self.missing.get(field.text()) {
            Some(mistake) => Err(Problem::mistake(field.at(), mistake.clone())),
            None => Ok(self.folder.join(folder)),
        }
    }

    /// Checks that the models' files exist, without reading them.
    fn check_models(&mut self) {
        let Some(field) = embedder(&self.document).and_then(|other| other.onnx.as_ref()) else { return };
        let Ok(folder) = self.read(field).map(|folder| self.folder.join(folder)) else { return };
        let absent = MODEL_FILES.iter().find_map(|name| {
            let opened = std::fs::File::open(folder.join(name)).and_then(|file| readable(&file));
            opened.err().map(|error| (name, error))
        });
        if let Some((name, error)) = absent {
            let mistake =
                Mistake::new(format!("`{name}` of this model cannot be read: {}", plain(&error))).help(format!(
                    "paths start from this file's folder; the model's folder has {}",
                    MODEL_FILES.map(|name| format!("`{name}`")).join(", ")
                ));
            self.missing.insert(field.text().to_owned(), mistake);
        }
    }

    /// This file, in which variables that are not set are no problem: what refers to them is not checked.
    #[must_use]
    pub fn allowing_unset(self) -> Self {
        Self { allows_unset: true, ..self }
    }

    /// The variables that are not set, after the file was compiled.
    pub fn unset(&self) -> impl Iterator<Item = &str> {
        self.unset.get().into_iter().flatten().map(|name| &**name)
    }

    /// All problems of this file, if there are any: those of its shape, and of `found` those that do not follow from them.
    pub fn all_problems(&self, found: Vec<Problem>) -> Option<Problems> {
        let (unset, found): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|problem| self.allows_unset && !problem.unset.is_empty());
        let all = self.shape.with(found, &unset, &self.shown);
        let names: BTreeSet<_> = unset.into_iter().flat_map(|problem| problem.unset).collect();
        let _ = self.unset.set(names);
        (!all.is_empty()).then(|| self.problems(all))
    }

    /// The problems together with this file's text.
    pub fn problems(&self, problems: Vec<Problem>) -> Problems {
        Problems::new(&self.name, Arc::clone(&self.shown), problems)
    }
}

/// A policy without a file, with the variables and files of this process.
impl std::str::FromStr for Config {
    type Err = Problems;

    fn from_str(text: &str) -> Result<Self, Problems> {
        Self::here("policy.yaml", text)
    }
}

/// A folder can be opened but not read.
fn readable(file: &std::fs::File) -> io::Result<()> {
    if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) }
}

/// Redacts a mistake about a value from the environment: only fixed texts are safe to repeat.
fn discreet(mistake: Mistake) -> Mistake {
    let fixed = |words: Cow<'static, str>| matches!(words, Cow::Borrowed(_)).then_some(words);
    Mistake {
        unset: mistake.unset,
        message: fixed(mistake.message).unwrap_or("not a valid value".into()),
        help: mistake.help.and_then(fixed).or(Some("the value comes from outside this file: check it there".into())),
    }
}

fn unreadable(error: &io::Error) -> Problem {
    let help = match error.kind() {
        io::ErrorKind::NotFound => "check the path; `policies/` has files to start from",
        io::ErrorKind::IsADirectory => "name a file in it",
        _ => "check that signalbox may read it",
    };
    Problem::whole(format!("this file cannot be read: {}", plain(error))).help(help)
}

/// The system's description of an error, without its number.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// Fuzz target: reads arbitrary bytes as a policy file, which may be rejected but must not panic.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let var = |name: &str| name.len().is_multiple_of(2).then(|| "value".to_owned());
    let file = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    match Config::parse("fuzz.yaml", &text, &var, &file) {
        Ok(config) => drop(config.problems(vec![Problem::whole("")])),
        Err(problems) => drop(problems.iter().count()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Problems> {
        let file = |path: &Path| match path.to_str() {
            Some("k") => Ok("from-file\n".to_owned()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        Config::parse("test.yaml", text, &|name| (name == "K").then(|| "s3cret-7s".to_owned()), &file)
    }

    #[test]
    fn values_are_read_with_their_variables_and_files() {
        let config = parse("accounts: { a: { keys: [\"${K}\", { file: k }, { file: gone }] } }").unwrap();
        let (_, account) = &config.document().accounts.as_ref().unwrap().entries[0];
        let keys: Vec<_> = account.keys.value.iter().map(|key| config.secret(key).map(|token| token.0)).collect();
        assert_eq!(keys[0].as_deref(), Ok("s3cret-7s"));
        assert_eq!(keys[1].as_deref(), Ok("from-file"));
        assert_eq!(keys[2].as_ref().unwrap_err().message, "this key file cannot be read: entity not found");
    }

    #[test]
    fn a_value_from_the_environment_is_never_repeated() {
        for (text, read) in [("limits: { header: \"${K}\" }", true), ("listen: \"${K}\"", false)] {
            let config = parse(text).unwrap();
            let document = config.document();
            let problem = if read {
                config.read(document.limits.as_ref().unwrap().header.as_ref().unwrap()).unwrap_err()
            } else {
                config.read(document.listen.as_ref().unwrap()).unwrap_err()
            };
            assert!(!format!("{problem:?}").contains("s3cret"), "{problem:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_ignored() {
        assert!(parse("\u{feff}listen: 127.0.0.1:1").unwrap().document().listen.is_some());
    }

    #[test]
    fn deep_nesting_does_not_exhaust_the_stack() {
        for (opening, closing) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")] {
            fuzz_config([opening.repeat(1900), closing.repeat(1900)].concat().as_bytes());
            fuzz_config(opening.repeat(20_000).as_bytes());
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in ".{0,200}") {
            fuzz_config(text.as_bytes());
        }

        #[test]
        fn near_policies_never_panic(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "pools", "models", "keys", ": ", "\n", "\n  ", "{", "}", "[", "]", ", ", "- ", "\"", "'", "${K}", "${", "}",
                    "&a ", "*a", "<<", "~", "é", "url", "backends", "hash", "|\n", "! ", "\t", "%", "#", "---\n", "to", "0", "5s",
                ]),
                0..40,
            ),
        ) {
            fuzz_config(parts.concat().as_bytes());
        }
    }
}
