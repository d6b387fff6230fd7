//! Coverage-guided target of `migration::fuzz_litellm`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::migration::fuzz_litellm(bytes));
