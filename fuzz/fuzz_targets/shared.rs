//! Coverage-guided target of `gateway::fuzz_shared`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::answers::fuzz_shared(bytes));
