//! Coverage-guided target of `protocol::canonical::fuzz_canonical`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::canonical::fuzz_canonical(bytes));
