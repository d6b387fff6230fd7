//! Coverage-guided target of `coordination::fuzz_placement`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::coordination::fuzz_placement(bytes));
