//! Coverage-guided target of `translation::fuzz_call_ids`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::translation::fuzz_call_ids(bytes));
