//! Coverage-guided target of `protocol::outline::fuzz_outline`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::outline::fuzz_outline(bytes));
