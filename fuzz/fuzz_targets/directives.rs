//! Coverage-guided target of `cache::fuzz_directives`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::cache::fuzz_directives(bytes));
