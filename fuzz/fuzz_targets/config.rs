//! `config::fuzz_config`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::config::fuzz_config(bytes));
