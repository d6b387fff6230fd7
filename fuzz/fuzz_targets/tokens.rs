//! Coverage-guided target of `prompt::tokens::fuzz_tokens`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::prompt::tokens::fuzz_tokens(bytes));
