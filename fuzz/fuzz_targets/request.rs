//! Coverage-guided target of `protocol::request::fuzz_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::request::fuzz_request(bytes));
