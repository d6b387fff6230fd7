//! Coverage-guided target of `protocol::event_reader::fuzz_event_reader`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::event_reader::fuzz_event_reader(bytes));
