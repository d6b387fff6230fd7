//! Coverage-guided target of `upstream::address::fuzz_address`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::upstream::address::fuzz_address(bytes));
