//! Coverage-guided target of `translation::messages::fuzz_messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::translation::messages::fuzz_messages(bytes));
