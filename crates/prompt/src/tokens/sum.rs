//! Sums up the pieces of a prompt.

use std::ops::{ControlFlow, Range};

use super::{
    body::Rendered,
    piece::{Piece, Template},
    tally::Tally,
    walk::pieces,
};
use crate::attachments::{Attachment, Class, Prices, Weight};

/// The number of attachments by kind.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachments {
    /// Pictures.
    pub images: u32,
    /// Sounds.
    pub audio: u32,
    /// Videos.
    pub video: u32,
    /// Documents and other files.
    pub files: u32,
}

/// A passage that is no text: an attachment's data, or a value that no model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The addresses of its bytes, which tell its place in the body.
    pub at: Range<usize>,
    /// The tokens that it stands for.
    pub tokens: u64,
}

impl Attachments {
    /// The number of all of them.
    pub const fn count(&self) -> u32 {
        self.images + self.audio + self.video + self.files
    }

    const fn add(&mut self, class: Class) {
        match class {
            Class::Image => self.images += 1,
            Class::Audio => self.audio += 1,
            Class::Video => self.video += 1,
            Class::File => self.files += 1,
        }
    }
}

/// The composition of a prompt.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) tally: Tally,
    pub(super) template: u64,
    pub(super) media: Weight,
    pub(super) attachments: Attachments,
    pub(super) passages: Vec<Passage>,
    pub(super) escapes: u64,
}

impl Sum {
    pub(super) fn of(body: &Rendered<'_>, template: &Template, prices: &Prices) -> Self {
        let mut sum = Self::default();
        let _ = pieces(body, template, &mut |piece| {
            match piece {
                Piece::Text(text) => sum.tally.add(text),
                Piece::Tokens(tokens) => sum.template += tokens,
                Piece::Attachment(attachment) => sum.attach(&attachment, prices),
                Piece::Opaque(raw) => sum.pass(raw, 0),
                Piece::Escapes(bytes) => sum.escapes += bytes,
            }
            ControlFlow::Continue(())
        });
        sum
    }

    fn attach(&mut self, attachment: &Attachment<'_>, prices: &Prices) {
        let weight = attachment.weight(prices);
        self.media.least += weight.least;
        self.media.expected += weight.expected;
        self.media.most = self.media.most.saturating_add(weight.most);
        self.attachments.add(attachment.class());
        self.pass(attachment.data, weight.expected);
    }

    fn pass(&mut self, raw: &str, tokens: u64) {
        let start = raw.as_ptr() as usize;
        self.passages.push(Passage { at: start..start + raw.len(), tokens });
    }
}
