//! `strip` of a model: a prefix of the requested name that its pools' backends remove, as if each of them named it.

use super::reader::Reader;
use crate::{Backend, Pool};
use signalbox_config::{Field, Problem, Word, raw};
use signalbox_types::Name;

impl Reader<'_> {
    /// Gives the prefixes of `models` to the backends that pass the requested name on.
    pub(super) fn strips(&mut self, document: &raw::Document, pools: &mut [Pool]) {
        for (_, model) in document.models.iter().flat_map(|models| &models.entries) {
            let Some(field) = &model.strip else { continue };
            let Some(prefix) = self.word(Some(field)) else { continue };
            let Some(to) = &model.to else {
                self.report(
                    Problem::at(field.at(), "`strip` without `to`")
                        .help("a model that goes to one pool has it: elsewhere give `strip` to the backends"),
                );
                continue;
            };
            for target in std::iter::once(to).chain(model.fallback.iter().flatten()) {
                // An unknown pool is reported with the routes.
                if let Some(pool) = pools.iter_mut().find(|pool| *pool.name == *target.text()) {
                    self.strip(field, &prefix, pool);
                }
            }
        }
    }

    fn strip(&mut self, field: &Field<Word>, prefix: &Name, pool: &mut Pool) {
        let name = pool.name.clone();
        let passes_on = |backend: &&mut Backend| backend.model.is_none() && backend.follows.is_none();
        let sources = pool.sources.iter_mut().map(|source| &mut source.backend);
        let (mut found, mut other) = (false, None);
        for backend in pool.backends.iter_mut().chain(sources).filter(passes_on) {
            found = true;
            match &backend.strip {
                Some(own) if own != prefix => other = Some(own.clone()),
                _ => backend.strip = Some(prefix.clone()),
            }
        }
        if let Some(other) = other {
            self.report(
                Problem::at(field.at(), format!("pool `{name}` strips `{other}` already"))
                    .help("give this model a pool of its own"),
            );
        } else if !found {
            self.report(
                Problem::at(field.at(), format!("the backends of pool `{name}` have models of their own"))
                    .help("remove `strip`, or the `model` of the pool"),
            );
        }
    }
}
