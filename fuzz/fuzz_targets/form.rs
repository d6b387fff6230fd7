//! `protocol::multipart::fuzz_form`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::multipart::fuzz_form(bytes));
