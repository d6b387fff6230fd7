//! The recorded traces, and the multiples of their load that they are played at.

use std::{
    fs::File,
    io::{self, BufReader, ErrorKind},
    path::PathBuf,
    time::Duration,
};

use flate2::read::GzDecoder;
use signalbox::sim::trace::{self, Arrival};

/// A recorded trace.
pub(crate) struct Trace {
    pub(crate) name: &'static str,
    file: &'static str,
    pub(crate) loads: &'static [f64],
    /// Length of a play. Azure's are short, so that seeds use different parts of an hour.
    pub(crate) length: Duration,
}

const fn trace(name: &'static str, file: &'static str, loads: &'static [f64], minutes: u64) -> Trace {
    Trace { name, file, loads, length: Duration::from_secs(60 * minutes) }
}

/// All traces.
pub(crate) const TRACES: &[Trace] = &[
    trace("mooncake", "mooncake_synthetic.jsonl.gz", &[0.75, 1.0, 1.25, 1.5, 1.75], 10),
    trace("conversation", "mooncake_conversation_dev.jsonl.gz", &[0.75, 1.0, 1.25, 1.5, 1.75], 8),
    trace("azure conv", "azure_conv.csv.gz", &[5.0, 7.0, 9.0, 11.0], 3),
    trace("azure code", "azure_code.csv.gz", &[1.0, 2.0, 3.0, 4.0], 5),
];

impl Trace {
    /// Reads the trace. `None` if it is missing.
    pub(crate) fn read(&self) -> io::Result<Option<Vec<Arrival>>> {
        let data = std::env::var_os("SIGNALBOX_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
        let path = data.join("traces").join(self.file);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let reader = BufReader::new(GzDecoder::new(file));
        let rows: Result<Vec<Arrival>, _> = if self.file.contains("azure") {
            trace::azure(reader).collect()
        } else {
            trace::mooncake(reader).collect()
        };
        rows.map(Some).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
    }
}
