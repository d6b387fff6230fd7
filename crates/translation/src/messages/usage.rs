//! Token counts: chat counts cached tokens within the prompt, Messages beside it.

use crate::{chat_answer::Usage, json::number};

impl Usage {
    /// Appends the `usage` object of a message. The API's schema requires members of which a chat answer says nothing.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.write_counts(out);
        out.extend_from_slice(br#","cache_creation":null,"inference_geo":null,"service_tier":null}"#);
    }

    /// Appends the `usage` object of the end of a stream.
    pub(super) fn write_end(&self, out: &mut Vec<u8>) {
        self.write_counts(out);
        out.push(b'}');
    }

    fn write_counts(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"input_tokens":"#);
        let cached = self.cached.min(self.prompt);
        let written = self.written.min(self.prompt - cached);
        number(out, self.prompt - cached - written);
        out.extend_from_slice(br#","cache_creation_input_tokens":"#);
        number(out, written);
        out.extend_from_slice(br#","cache_read_input_tokens":"#);
        number(out, cached);
        out.extend_from_slice(br#","output_tokens":"#);
        number(out, self.completion);
        out.extend_from_slice(br#","server_tool_use":null,"output_tokens_details":"#);
        match self.reasoning {
            Some(reasoning) => {
                out.extend_from_slice(br#"{"thinking_tokens":"#);
                number(out, reasoning);
                out.push(b'}');
            }
            None => out.extend_from_slice(b"null"),
        }
    }
}
