//! Coverage-guided target of `protocol::verdict::fuzz_verdict`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::verdict::fuzz_verdict(bytes));
