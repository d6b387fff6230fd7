//! Embedders: a small static table for recall and a sentence model to decide, both compiled in, and others by configuration.
