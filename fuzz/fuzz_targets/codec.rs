//! Coverage-guided target of `cache::codec::fuzz_codec`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::cache::codec::fuzz_codec(bytes));
