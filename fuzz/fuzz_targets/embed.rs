//! Coverage-guided target of `embed::fuzz_embed`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::embed::fuzz_embed(bytes));
