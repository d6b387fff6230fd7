//! Coverage-guided target of `translation::anthropic::fuzz_anthropic`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::translation::anthropic::fuzz_anthropic(bytes));
