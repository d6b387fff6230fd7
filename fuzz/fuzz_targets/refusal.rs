//! Coverage-guided target of `engines::fuzz_refusal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::engines::fuzz_refusal(bytes));
