//! Chat events that differ in their text alone, which are read without being parsed.

/// The bytes around the text of an event that carries nothing else.
#[derive(Debug, Default)]
pub(super) struct PlainText {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl PlainText {
    /// The text of an event that is the learned one but for its text.
    pub(super) fn read<'a>(&self, data: &'a [u8]) -> Option<&'a str> {
        if self.before.is_empty() {
            return None;
        }
        let text = data.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        let plain = !text.is_empty() && text.iter().all(|byte| *byte >= 0x20 && *byte != b'"' && *byte != b'\\');
        std::str::from_utf8(text).ok().filter(|_| plain)
    }

    /// Learns an event whose only content is `text`, a part of `data`.
    pub(super) fn learn(&mut self, data: &[u8], text: &str) {
        let start = text.as_ptr() as usize - data.as_ptr() as usize;
        self.before.clear();
        self.before.extend_from_slice(&data[..start]);
        self.after.clear();
        self.after.extend_from_slice(&data[start + text.len()..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerTranslator, anthropic, messages, responses};

    #[test]
    fn only_plain_text_between_the_same_bytes_is_read() {
        let mut plain = PlainText::default();
        assert_eq!(plain.read(b"{\"t\":\"a\"}"), None);
        let data = r#"{"t":"a"}"#;
        plain.learn(data.as_bytes(), &data[6..7]);
        assert_eq!(plain.read("{\"t\":\"wörld\"}".as_bytes()), Some("wörld"));
        for other in [r#"{"t":""}"#, r#"{"t":"\n"}"#, r#"{"t":"a","b":"c"}"#, r#"{"t":"a"} "#, r#"{"u":"a"}"#] {
            assert_eq!(plain.read(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn half_a_character_is_replaced() {
        let chunk = b"{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xe4\xbdb\"}}]}";
        let body = b"{\"choices\":[{\"message\":{\"content\":\"a\xe4\xbdb\"},\"finish_reason\":\"stop\"}]}";
        let (_, echo) = responses::to_chat(br#"{"model":"m","input":"hi","stream":true}"#, &crate::NoStates).unwrap();
        let translators = || -> [Box<dyn AnswerTranslator>; 2] {
            [Box::new(messages::Answer::new(9)), Box::new(responses::Answer::new(echo.clone(), "1", || 1))]
        };
        for (mut streamed, mut whole) in translators().into_iter().zip(translators()) {
            let mut out = Vec::new();
            streamed.event(chunk, &mut out).unwrap();
            for out in [out, whole.whole(body).unwrap()] {
                assert!(String::from_utf8(out).unwrap().contains("a\u{fffd}b"));
            }
        }
        let delta = b"{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\xe4\xbdb\"}}";
        let (mut answer, mut out) = (anthropic::Answer::new(1, false), Vec::new());
        answer.event(br#"{"type":"message_start","message":{"id":"a"}}"#, &mut out).unwrap();
        answer
            .event(br#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#, &mut out)
            .unwrap();
        answer.event(delta, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("a\u{fffd}b"));
    }

    #[test]
    fn events_that_are_not_parsed_are_translated_as_if_they_were() {
        let chunk =
            |delta: &str, more: &str| format!(r#"{{"id":"c","model":"m","choices":[{{"delta":{delta}{more}}}]}}"#);
        let text = |text: &str| chunk(&format!(r#"{{"content":"{text}"}}"#), "");
        let call = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#;
        let scored = r#","logprobs":{"content":[{"token":"x"}]}"#;
        let events = [
            chunk(r#"{"role":"assistant","content":""}"#, ""),
            text(" "),
            text("one"),
            text(" two"),
            text("\\n"),
            text("é"),
            chunk(r#"{"reasoning_content":"hm"}"#, ""),
            text("three"),
            chunk(r#"{"content":"x"}"#, scored),
            chunk(r#"{"content":"y"}"#, scored),
            text("four"),
            chunk(call, ""),
            text("five"),
            text("six"),
            chunk("{}", r#","finish_reason":"stop""#),
            text("late"),
            "[DONE]".to_owned(),
        ];
        let (_, echo) = responses::to_chat(br#"{"model":"m","input":"hi","stream":true}"#, &crate::NoStates).unwrap();
        let translators = || -> [Box<dyn AnswerTranslator>; 2] {
            [Box::new(messages::Answer::new(9)), Box::new(responses::Answer::new(echo.clone(), "1", || 1))]
        };
        for (mut quick, mut slow) in translators().into_iter().zip(translators()) {
            for (at, event) in events.iter().enumerate() {
                // No two events have the same bytes around their text.
                let spaced = event.replacen('{', &format!("{{{}", " ".repeat(at)), 1);
                let (mut out, mut want) = (Vec::new(), Vec::new());
                let got = quick.event(event.as_bytes(), &mut out).map_err(|error| error.to_string());
                assert_eq!(got, slow.event(spaced.as_bytes(), &mut want).map_err(|error| error.to_string()), "{event}");
                assert_eq!(String::from_utf8(out), String::from_utf8(want), "{event}");
            }
        }
    }
}
