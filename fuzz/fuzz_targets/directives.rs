//! `cache::fuzz_directives`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::cache::fuzz_directives(bytes));
