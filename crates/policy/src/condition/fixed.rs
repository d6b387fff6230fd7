//! Facts with fixed values, for tests.

use super::Facts;
use signalbox_types::Name;

/// The facts of a made-up request; all pools are alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixedFacts {
    pub(crate) tokens: u64,
    pub(crate) complexity: f64,
    pub(crate) language: String,
    pub(crate) model: String,
    pub(crate) class: String,
    pub(crate) stream: bool,
    pub(crate) tools: u64,
    pub(crate) images: u64,
    pub(crate) audio: u64,
    pub(crate) video: u64,
    pub(crate) files: u64,
    pub(crate) schema: bool,
    pub(crate) max_tokens: u64,
    pub(crate) turns: u64,
    /// Names in lower case, and values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) key_id: String,
    pub(crate) key_team: String,
    pub(crate) key_tags: Vec<Name>,
    pub(crate) ttft_p95: f64,
    pub(crate) queue: u64,
    pub(crate) attainment: f64,
    pub(crate) burn: f64,
    pub(crate) slo: String,
    pub(crate) unix_time: i64,
}

impl Facts for FixedFacts {
    fn tokens(&self) -> u64 {
        self.tokens
    }

    fn complexity(&self) -> f64 {
        self.complexity
    }

    fn language(&self) -> &str {
        &self.language
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn class(&self) -> &str {
        &self.class
    }

    fn stream(&self) -> bool {
        self.stream
    }

    fn tools(&self) -> u64 {
        self.tools
    }

    fn images(&self) -> u64 {
        self.images
    }

    fn audio(&self) -> u64 {
        self.audio
    }

    fn video(&self) -> u64 {
        self.video
    }

    fn files(&self) -> u64 {
        self.files
    }

    fn schema(&self) -> bool {
        self.schema
    }

    fn max_tokens(&self) -> u64 {
        self.max_tokens
    }

    fn turns(&self) -> u64 {
        self.turns
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    fn key_id(&self) -> &str {
        &self.key_id
    }

    fn key_team(&self) -> &str {
        &self.key_team
    }

    fn key_tags(&self) -> &[Name] {
        &self.key_tags
    }

    fn ttft_p95(&self, _: usize) -> f64 {
        self.ttft_p95
    }

    fn queue(&self, _: usize) -> u64 {
        self.queue
    }

    fn attainment(&self, _: usize) -> f64 {
        self.attainment
    }

    fn burn(&self, _: usize) -> f64 {
        self.burn
    }

    fn slo(&self, _: usize) -> &str {
        &self.slo
    }

    fn route_burn(&self, _: &str) -> f64 {
        self.burn
    }

    fn route_slo(&self, _: &str) -> &str {
        &self.slo
    }

    fn unix_time(&self) -> i64 {
        self.unix_time
    }
}
