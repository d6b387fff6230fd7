//! Coverage-guided target of `protocol::answer::fuzz_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::answer::fuzz_answer(bytes));
