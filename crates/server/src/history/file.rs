//! The history on disk: one file of JSON beside usage, replaced as a whole. What cannot be read is left out with a warning: a history that
//! is lost is no reason not to serve.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    events::{Event, Events},
    figures::Figures,
    table::Table,
};
use crate::private_file;

/// Name in the folder of usage.
pub(super) const NAME: &str = "history.json";
/// Version of the form.
const VERSION: u32 = 1;
/// Largest file that is read, in bytes: about twice that of [`MOST_COLUMNS`](super::table::MOST_COLUMNS).
const LARGEST: u64 = 128 << 20;

/// The content of the file.
#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    version: u32,
    fine: Table,
    coarse: Table,
    events: Vec<Event>,
}

impl Stored {
    pub(super) fn of(fine: Table, coarse: Table, events: Vec<Event>) -> Self {
        Self { version: VERSION, fine, coarse, events }
    }

    /// Reads the file, if there is one that can be read.
    pub(super) fn read(path: &Path) -> Option<Self> {
        match Self::read_whole(path) {
            Ok(stored) => Some(stored),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let file = path.display();
                tracing::warn!(%error, %file, "history: the file cannot be read, the history begins empty (usage.path)");
                None
            }
        }
    }

    fn read_whole(path: &Path) -> io::Result<Self> {
        let size = fs::metadata(path)?.len();
        if size > LARGEST {
            return Err(io::Error::other(format!("it has {size} bytes, at most {LARGEST} are read")));
        }
        let stored: Self = serde_json::from_slice(&fs::read(path)?)?;
        if stored.version != VERSION {
            return Err(io::Error::other(format!("its version is {}, expected {VERSION}", stored.version)));
        }
        Ok(stored)
    }

    /// Puts what was stored into `figures` and `events`.
    pub(super) fn restore(self, figures: &mut Figures, events: &Events) {
        let Figures { fine, coarse, .. } = Figures::new();
        let (Some(fine), Some(coarse)) = (fine.restored(self.fine), coarse.restored(self.coarse)) else {
            tracing::warn!("history: the file has tables of another shape, the history begins empty (usage.path)");
            return;
        };
        (figures.fine, figures.coarse) = (fine, coarse);
        events.put(self.events);
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        private_file::replace(path, &serde_json::to_vec(self)?)
    }
}
