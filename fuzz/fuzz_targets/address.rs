//! `upstream::address::fuzz_address`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::upstream::address::fuzz_address(bytes));
