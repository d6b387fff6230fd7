//! `store::fuzz_store`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::store::fuzz_store(bytes));
