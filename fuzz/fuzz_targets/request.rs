//! Coverage-guided target of `protocol::edits::fuzz_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::edits::fuzz_request(bytes));
