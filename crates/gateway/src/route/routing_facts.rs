//! Facts of a request that the journal stores, so that future policies can be evaluated on it.

use super::facts::Known;
use signalbox_fleet::route_selection::RouteInput as _;
use signalbox_journal::{BlockHashes, ComplexityScore, Hash, RoutingFacts};
use signalbox_policy::condition::Facts as _;
use signalbox_prompt::complexity::Weights;

impl Known<'_> {
    /// Collects the cheap facts, and the expensive ones that were already computed. If the policy asks for all facts,
    /// computes the expensive ones too.
    pub(super) fn routing_facts(&self) -> RoutingFacts {
        let asking = self.asking;
        let all = asking.policy().journal.as_ref().is_some_and(|journal| journal.facts) && self.has_prompt();
        let (complexity, language) = if all {
            (Some(self.scored()), Some(self.language_code()))
        } else {
            (self.scored_already(), self.language_already())
        };
        let outline = self.outline();
        RoutingFacts {
            class: if asking.is_batch() { "batch" } else { "interactive" },
            max_tokens: asking.body.max_tokens,
            tools: outline.tools,
            images: asking.estimate.attachments.images,
            audio: asking.estimate.attachments.audio,
            video: asking.estimate.attachments.video,
            files: asking.estimate.attachments.files,
            schema: self.schema(),
            turns: outline.turns,
            tool_loop: outline.in_tool_loop,
            session: asking.estimate.session.map(Hash::keyed),
            said: asking.said(outline.said).map(Hash::keyed),
            said_before: asking.said(outline.said_before).map(Hash::keyed),
            language,
            complexity: complexity.map(|it| ComplexityScore::of(it, Weights::built_in().version.as_str().into())),
            blocks: all.then(|| BlockHashes::of(asking.estimate.blocks.prompt().blocks)),
        }
    }
}
