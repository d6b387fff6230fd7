//! Coverage-guided target of `policy::condition::fuzz_condition`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::policy::condition::fuzz_condition(bytes));
