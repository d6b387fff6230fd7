//! `embed::fuzz_embed`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::embed::fuzz_embed(bytes));
