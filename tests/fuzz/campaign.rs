//! A campaign: runs mutations of seeds through one entry and minimises an input that makes it panic.

use std::{
    cell::Cell,
    env, fmt, fs,
    io::{Seek, Write},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::Once,
    time::{Duration, Instant},
};

use crate::mutate::mutate;

/// Attempts to shrink an input that causes a panic.
const SHRINKS: usize = 20_000;
/// Time limit for one input, which only superlinear growth exceeds even on a busy machine.
const SLOW: Duration = Duration::from_secs(10);
/// Default first seed.
const SEED: u64 = 1;

/// An entry and its seeds.
pub(crate) struct Campaign<F> {
    name: &'static str,
    entry: F,
    seeds: Vec<Vec<u8>>,
}

/// An input that made the entry panic.
pub(crate) struct Failure {
    name: &'static str,
    /// Seed of the generator; `None` if a file of the corpus causes the panic.
    seed: Option<u64>,
    /// Minimised input.
    pub(crate) input: Vec<u8>,
}

impl<F: Fn(&[u8])> Campaign<F> {
    /// Creates a campaign with the corpus `tests/corpus/{name}`.
    pub(crate) fn new(name: &'static str, entry: F) -> Self {
        let campaign = Self { name, entry, seeds: Vec::new() }.seeds(&format!("tests/corpus/{name}"), "");
        assert!(!campaign.seeds.is_empty(), "tests/corpus/{name} has no files");
        campaign
    }

    /// Adds files of a folder of the package whose names end in `ending`.
    pub(crate) fn seeds(mut self, folder: &str, ending: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let entries = fs::read_dir(folder).expect("a folder of seeds").map(|entry| entry.expect("an entry").path());
        let mut files: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
        files.sort();
        self.seeds.extend(files.iter().map(|file| fs::read(file).expect("a seed")));
        self
    }

    /// Runs this many inputs, or as many as `SIGNALBOX_FUZZ_SECONDS` allow; fails the test on a panic.
    pub(crate) fn run(self, inputs: u64) {
        if let Some(failure) = self.search(inputs) {
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", self.name));
            fs::write(&file, &failure.input).expect("the input is kept");
            panic!("{failure}  saved as {}: copy it into tests/corpus/{} and fix the code", file.display(), self.name);
        }
    }

    /// Returns the first input that makes the entry panic.
    pub(crate) fn search(&self, inputs: u64) -> Option<Failure> {
        let failure = |seed, input: &[u8]| Failure { name: self.name, seed, input: self.shrunk(input) };
        if let Some(input) = self.seeds.iter().find(|input| self.panics(input)) {
            return Some(failure(None, input));
        }
        let number = |name| env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")));
        let seconds: Option<u64> = number("SIGNALBOX_FUZZ_SECONDS");
        let first = number("SIGNALBOX_FUZZ_SEED").unwrap_or_else(|| seconds.map_or(SEED, |_| fastrand::u64(..)));
        let began = Instant::now();
        // After a stack overflow or out of memory nothing can be reported; this file holds the seed then.
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}-seed", self.name));
        let mut current = fs::File::create(path).expect("a file for the seed");
        for count in 0.. {
            if seconds.map_or(count >= inputs, |seconds| began.elapsed().as_secs() >= seconds) {
                eprintln!("{}: {count} inputs from seed {first} in {:?}", self.name, began.elapsed());
                break;
            }
            let seed = first.wrapping_add(count);
            current.rewind().and_then(|()| writeln!(current, "{seed:020}")).expect("the seed is kept");
            let input = self.input(seed);
            let started = Instant::now();
            if self.panics(&input) {
                return Some(failure(Some(seed), &input));
            }
            let took = started.elapsed();
            assert!(took < SLOW, "{}: seed {seed} ({} bytes) took {took:?}", self.name, input.len());
        }
        None
    }

    fn input(&self, seed: u64) -> Vec<u8> {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut input = self.seeds[dice.usize(0..self.seeds.len())].clone();
        let other = &self.seeds[dice.usize(0..self.seeds.len())];
        mutate(&mut dice, &mut input, other);
        input
    }

    fn panics(&self, input: &[u8]) -> bool {
        quietly(|| panic::catch_unwind(AssertUnwindSafe(|| (self.entry)(input))).is_err())
    }

    /// Removes pieces of decreasing size from `input` while the entry still panics.
    fn shrunk(&self, input: &[u8]) -> Vec<u8> {
        let mut input = input.to_vec();
        let (mut piece, mut left) = (input.len().div_ceil(2), SHRINKS);
        while piece > 0 && left > 0 {
            let (mut at, mut removed) = (0, false);
            while at < input.len() && left > 0 {
                let mut smaller = input.clone();
                smaller.drain(at..(at + piece).min(input.len()));
                left -= 1;
                if self.panics(&smaller) {
                    (input, removed) = (smaller, true);
                } else {
                    at += piece;
                }
            }
            if !removed || piece > 1 {
                piece /= 2;
            }
        }
        // Once more with the panic message, above the report.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| (self.entry)(&input)));
        input
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source =
            self.seed.map_or_else(|| "a file of its corpus".into(), |seed| format!("SIGNALBOX_FUZZ_SEED={seed}"));
        writeln!(f, "fuzz_{} panics ({source}); minimised:", self.name)?;
        writeln!(f, "  bytes  b\"{}\"", self.input.escape_ascii())?;
        write!(f, "  hex    ")?;
        self.input.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        writeln!(f)
    }
}

/// Runs `probe` with panic messages of this thread suppressed.
fn quietly<T>(probe: impl FnOnce() -> T) -> T {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = probe();
    QUIET.set(false);
    result
}
