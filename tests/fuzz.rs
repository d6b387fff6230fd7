//! Fuzzes every reader of foreign bytes on stable Rust: each entry gets mutations of its corpus and must not panic.
//!
//! By default each entry gets a fixed number of inputs from a fixed seed. `SIGNALBOX_FUZZ_SECONDS=60` runs that long from a random seed,
//! which is printed; `SIGNALBOX_FUZZ_SEED` repeats a seed. `fuzz/` wraps the same entries for cargo-fuzz, which is guided by coverage.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "in a test a failed step is a failed test, and its details go to stderr"
)]

#[path = "fuzz/campaign.rs"]
mod campaign;
#[path = "fuzz/mutate.rs"]
mod mutate;

use campaign::Campaign;
use signalbox::{
    accounting::fuzz_usage,
    answers::fuzz_shared,
    cache::{codec::fuzz_codec, fuzz_directives, responses::fuzz_stored_responses},
    config::{fuzz_config, fuzz_endpoints},
    coordination::fuzz_placement,
    embed::fuzz_embed,
    engines::fuzz_refusal,
    gateway::fuzz_head,
    migration::fuzz_litellm,
    policy::condition::fuzz_condition,
    prompt::tokens::fuzz_tokens,
    protocol::{
        answer::fuzz_answer, canonical::fuzz_canonical, continuation::fuzz_rest, edits::fuzz_request,
        encoding::fuzz_encoding, engine_error::fuzz_engine_error, event_reader::fuzz_event_reader,
        multipart::fuzz_form, outline::fuzz_outline, sse::fuzz_sse, transcript::fuzz_convert, usage::fuzz_usage_report,
        verdict::fuzz_verdict,
    },
    store::fuzz_store,
    translation::{anthropic::fuzz_anthropic, fuzz_call_ids, messages::fuzz_messages, responses::fuzz_responses},
    types::base_path::fuzz_base_path,
    upstream::{address::fuzz_address, fuzz_http_answer, scrape::fuzz_scrape},
};

#[test]
fn refusals_of_any_shape_are_judged() {
    Campaign::new("refusal", fuzz_refusal).run(2_000);
}

#[test]
fn event_streams_are_split_without_losing_a_byte() {
    Campaign::new("sse", fuzz_sse).run(20_000);
}

#[test]
fn request_bodies_are_read_and_edited_without_harm() {
    Campaign::new("request", fuzz_request).run(5_000);
}

#[test]
fn prompts_of_any_body_are_counted() {
    Campaign::new("tokens", fuzz_tokens).run(5_000);
}

#[test]
fn outlines_of_any_body_are_bounded_and_reuse_a_buffer() {
    Campaign::new("outline", fuzz_outline).run(5_000);
}

#[test]
fn bodies_have_one_form_however_they_are_spelled() {
    Campaign::new("canonical", fuzz_canonical).run(5_000);
}

#[test]
fn answers_of_any_shape_are_read() {
    Campaign::new("answer", fuzz_answer).run(10_000);
}

#[test]
fn token_counts_of_any_shape_are_read() {
    Campaign::new("usage_report", fuzz_usage_report).run(20_000);
}

#[test]
fn compressed_bodies_are_decoded_alike_in_any_pieces() {
    Campaign::new("encoding", fuzz_encoding).run(1_000);
}

#[test]
fn the_events_of_a_stream_are_read_as_they_are_alone() {
    Campaign::new("event_reader", fuzz_event_reader).run(5_000);
}

#[test]
fn errors_of_any_shape_have_a_message() {
    Campaign::new("engine_error", fuzz_engine_error).run(5_000);
}

#[test]
fn answers_of_any_shape_are_converted_between_their_forms() {
    Campaign::new("convert", fuzz_convert).run(3_000);
}

#[test]
fn answers_of_any_shape_are_judged() {
    Campaign::new("verdict", fuzz_verdict).run(5_000);
}

#[test]
fn policy_files_of_any_shape_are_read_or_rejected() {
    Campaign::new("config", fuzz_config).seeds("policies", "yaml").seeds("tests/it/broken", "yaml").run(1_000);
}

#[test]
fn configurations_of_litellm_become_policies_that_can_be_read_or_are_rejected() {
    Campaign::new("litellm", fuzz_litellm).seeds("tests/it/litellm", "yaml").run(2_000);
}

#[test]
fn endpoint_files_of_any_shape_are_read_or_rejected() {
    Campaign::new("endpoints", fuzz_endpoints).run(2_000);
}

#[test]
fn conditions_of_any_shape_are_compiled_or_rejected() {
    Campaign::new("condition", fuzz_condition).run(5_000);
}

#[test]
fn models_of_any_shape_are_read_or_rejected() {
    Campaign::new("embed", fuzz_embed).run(5_000);
}

#[test]
fn metrics_of_any_engine_are_read() {
    Campaign::new("scrape", fuzz_scrape).run(5_000);
}

#[test]
fn logs_of_any_bytes_are_read_frame_by_frame() {
    Campaign::new("store", fuzz_store).run(5_000);
}

#[test]
fn cached_answers_of_any_bytes_are_read_or_rejected() {
    Campaign::new("codec", fuzz_codec).run(10_000);
}

#[test]
fn continuations_of_any_answer_fit_or_are_rejected() {
    Campaign::new("rest", fuzz_rest).run(10_000);
}

#[test]
fn records_of_a_shared_server_are_read_or_rejected() {
    Campaign::new("shared", fuzz_shared).run(5_000);
}

#[test]
fn messages_of_other_gateways_are_read_without_harm() {
    Campaign::new("placement", fuzz_placement).run(5_000);
}

#[test]
fn messages_are_translated_or_rejected() {
    Campaign::new("messages", fuzz_messages).run(2_000);
}

#[test]
fn responses_are_translated_or_rejected() {
    Campaign::new("responses", fuzz_responses).run(2_000);
}

#[test]
fn chats_are_translated_for_anthropic_or_rejected() {
    Campaign::new("anthropic", fuzz_anthropic).run(2_000);
}

#[test]
fn ids_of_calls_are_replaced_in_any_chat() {
    Campaign::new("call_ids", fuzz_call_ids).run(5_000);
}

#[test]
fn accepted_paths_have_one_reading() {
    Campaign::new("path", fuzz_base_path).run(20_000);
}

#[test]
fn accepted_forms_have_one_model_for_every_reader() {
    Campaign::new("form", fuzz_form).run(10_000);
}

#[test]
fn heads_of_any_answer_never_show_the_key() {
    Campaign::new("head", fuzz_head).run(5_000);
}

#[test]
fn cache_directives_are_never_weakened() {
    Campaign::new("directives", fuzz_directives).run(20_000);
}

#[test]
fn stored_responses_come_out_as_they_went_in() {
    Campaign::new("stored_responses", fuzz_stored_responses).run(10_000);
}

#[test]
fn usage_files_are_read_or_rejected() {
    Campaign::new("usage", fuzz_usage).run(10_000);
}

#[test]
fn requests_reach_the_engine_for_any_address() {
    Campaign::new("address", fuzz_address).run(20_000);
}

#[test]
fn http_answers_are_the_same_in_any_pieces() {
    Campaign::new("http_answer", fuzz_http_answer).run(10_000);
}

#[test]
fn a_panic_is_reported_with_a_minimal_input() {
    let picky = |input: &[u8]| assert!(!input.windows(2).any(|pair| pair == b"\r\r"), "two returns");
    let failure = Campaign::new("sse", picky).search(2_000).expect("the corpus has two returns");
    assert_eq!(failure.input, b"\r\r");
    assert!(failure.to_string().contains("0d0d"), "{failure}");
}
