//! `protocol::answer::fuzz_answer`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::answer::fuzz_answer(bytes));
