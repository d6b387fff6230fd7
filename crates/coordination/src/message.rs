//! Messages as bytes: the sender, and either prompts with their backends or its load on engines. A prompt names the
//! blocks that it has beyond those it shares with the prompt before it, since conversations begin with the same
//! instructions.

use serde::{Deserialize, Serialize};

use signalbox_fleet::{BackendKey, ComputedPrompt, EngineKey, EngineLoad};
use signalbox_prompt::Blocks;
use signalbox_types::Layout;

/// Blocks from which on a message is full.
const FULL: usize = 8192;
/// Most blocks of a prompt.
const MOST_PROMPT_BLOCKS: usize = 4096;
/// Bytes of a prompt beside its blocks, as a number of blocks.
const PROMPT_HEAD: usize = 4;
/// Most blocks of a message, when all are written out.
const MOST_BLOCKS: usize = 65_536;
/// Most bytes of a message: full, with one more prompt.
pub(super) const MOST_BYTES: usize = 128 << 10;

/// Most engines of a message.
const MOST_ENGINES: usize = 1024;

/// A message.
#[derive(Debug, PartialEq)]
pub(super) struct Message {
    /// Number of the gateway that sends it.
    pub(super) gateway: u64,
    pub(super) content: Content,
}

/// Content of a message.
#[derive(Debug, PartialEq)]
pub(super) enum Content {
    Prompts(Vec<ComputedPrompt>),
    Loads(Vec<(EngineKey, EngineLoad)>),
}

#[derive(Serialize, Deserialize)]
struct Written {
    gateway: u64,
    content: WrittenContent,
}

#[derive(Serialize, Deserialize)]
enum WrittenContent {
    Prompts(Vec<WrittenPrompt>),
    Loads(Vec<(EngineKey, EngineLoad)>),
}

#[derive(Serialize, Deserialize)]
struct WrittenPrompt {
    /// As fixed bytes: the usual variable length would make hashes longer.
    backend: [u8; 8],
    bytes: u64,
    /// Number of blocks that it shares with the prompt before it.
    shared: usize,
    blocks: Vec<[u8; 8]>,
}

/// Writes `prompts` as messages of bounded size.
pub(super) fn write_prompts(gateway: u64, mut prompts: Vec<ComputedPrompt>) -> Vec<Vec<u8>> {
    // Those with a common beginning become neighbours.
    prompts.sort_by(|one, other| one.blocks.prompt().blocks.cmp(other.blocks.prompt().blocks));
    let mut messages = Vec::new();
    let mut written = Vec::new();
    let (mut count, mut before): (usize, &[u64]) = (0, &[]);
    for ComputedPrompt { backend, blocks } in &prompts {
        let prompt = blocks.prompt();
        let shared = before.iter().zip(prompt.blocks).take_while(|(one, other)| one == other).count();
        let own = prompt.blocks[shared..].iter().map(|block| block.to_le_bytes()).collect();
        written.push(WrittenPrompt { backend: backend.to_le_bytes(), bytes: prompt.bytes, shared, blocks: own });
        count += PROMPT_HEAD + prompt.blocks.len();
        before = prompt.blocks;
        if count >= FULL {
            messages.push(WrittenContent::Prompts(std::mem::take(&mut written)));
            (count, before) = (0, &[]);
        }
    }
    if !written.is_empty() {
        messages.push(WrittenContent::Prompts(written));
    }
    messages.into_iter().filter_map(|content| write(gateway, content)).collect()
}

/// Writes `loads` as messages of bounded size.
pub(super) fn write_loads(gateway: u64, loads: &[(EngineKey, EngineLoad)]) -> Vec<Vec<u8>> {
    let parts = loads.chunks(MOST_ENGINES);
    parts.filter_map(|loads| write(gateway, WrittenContent::Loads(loads.to_vec()))).collect()
}

fn write(gateway: u64, content: WrittenContent) -> Option<Vec<u8>> {
    postcard::to_allocvec(&Written { gateway, content }).ok()
}

/// Reads a message; `None` if it is damaged or too large.
pub(super) fn read(bytes: &[u8]) -> Option<Message> {
    if bytes.len() > MOST_BYTES {
        return None;
    }
    let Written { gateway, content } = postcard::from_bytes(bytes).ok()?;
    let content = match content {
        WrittenContent::Prompts(prompts) => Content::Prompts(read_prompts(prompts)?),
        WrittenContent::Loads(loads) => Content::Loads(loads),
    };
    Some(Message { gateway, content })
}

fn read_prompts(prompts: Vec<WrittenPrompt>) -> Option<Vec<ComputedPrompt>> {
    let mut read: Vec<ComputedPrompt> = Vec::with_capacity(prompts.len());
    let mut count = 0;
    for WrittenPrompt { backend, bytes, shared, blocks: own } in prompts {
        let before: &[u64] = read.last().map_or(&[], |before| before.blocks.prompt().blocks);
        let shared = before.get(..shared)?;
        let length = shared.len() + own.len();
        count += length;
        if length > MOST_PROMPT_BLOCKS || count > MOST_BLOCKS {
            return None;
        }
        let blocks = shared.iter().copied().chain(own.into_iter().map(u64::from_le_bytes)).collect();
        let blocks = Blocks::new(blocks, bytes, Layout::Growing);
        read.push(ComputedPrompt { backend: BackendKey::from_le_bytes(backend), blocks });
    }
    Some(read)
}

/// Reads arbitrary bytes as a message, and writes what it could read.
///
/// # Panics
/// If a message cannot be read as it was written.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_placement(bytes: &[u8]) {
    match read(bytes) {
        Some(Message { gateway, content: Content::Prompts(prompts) }) => {
            let again = write_prompts(gateway, prompts.clone());
            let again = again.iter().filter_map(|message| match read(message)?.content {
                Content::Prompts(prompts) => Some(prompts.len()),
                Content::Loads(_) => None,
            });
            assert_eq!(again.sum::<usize>(), prompts.len());
        }
        Some(Message { gateway, content: Content::Loads(loads) }) => {
            let again = write_loads(gateway, &loads);
            assert!(again.iter().all(|message| read(message).is_some()));
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(backend: u64, hashes: impl IntoIterator<Item = u64>) -> ComputedPrompt {
        let hashes: Vec<u64> = hashes.into_iter().collect();
        let bytes = Layout::Growing.bytes(hashes.len()) + 7;
        ComputedPrompt { backend, blocks: Blocks::new(hashes.into(), bytes, Layout::Growing) }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let family = |number: u64| (0..100).chain(number * 1000..number * 1000 + 20);
        let mut prompts: Vec<_> = (1..20).map(|number| computed(number % 3, family(number))).collect();
        let messages = write_prompts(7, prompts.clone());
        assert_eq!(messages.len(), 1);
        assert!(messages[0].len() < 100 * 8 + 19 * (20 * 8 + 16), "a common beginning is written once");
        prompts.sort_by(|one, other| one.blocks.prompt().blocks.cmp(other.blocks.prompt().blocks));
        assert_eq!(read(&messages[0]), Some(Message { gateway: 7, content: Content::Prompts(prompts) }));
        assert_eq!(write_prompts(7, Vec::new()), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn the_longest_prompts_fit() {
        let prompts: Vec<_> = (0..16).map(|number| computed(1, number << 32..(number << 32) + 4096)).collect();
        let messages = write_prompts(7, prompts);
        assert_eq!(messages.len(), 8);
        for message in &messages {
            let Content::Prompts(prompts) = read(message).unwrap().content else { panic!("they are prompts") };
            assert_eq!(prompts.len(), 2);
        }
    }

    #[test]
    fn loads_are_read_as_they_were_written() {
        let load = |engine: u64| EngineLoad { in_flight: 3, queued_tokens: engine << 40, ..EngineLoad::default() };
        let loads: Vec<_> = (0..1500).map(|engine| (engine << 50, load(engine))).collect();
        let messages = write_loads(7, &loads);
        assert_eq!(messages.len(), 2);
        assert!(messages.iter().all(|message| message.len() < MOST_BYTES));
        let read = messages.iter().flat_map(|message| match read(message).unwrap().content {
            Content::Loads(loads) => loads,
            Content::Prompts(_) => Vec::new(),
        });
        assert_eq!(read.collect::<Vec<_>>(), loads);
    }

    #[test]
    fn a_message_that_would_grow_too_large_is_refused() {
        let long = (0..4096_u64).map(u64::to_le_bytes).collect();
        let shared = |shared, blocks| WrittenPrompt { backend: [0; 8], bytes: 0, shared, blocks };
        let mut prompts = vec![shared(0, long)];
        prompts.extend((0..15).map(|_| shared(4096, Vec::new())));
        let bytes = |prompts| write(1, WrittenContent::Prompts(prompts)).unwrap();
        let fits = bytes(prompts);
        assert!(read(&fits).is_some());
        let mut more: Written = postcard::from_bytes(&fits).unwrap();
        let WrittenContent::Prompts(prompts) = &mut more.content else { panic!("they are prompts") };
        prompts.push(shared(4096, Vec::new()));
        assert_eq!(read(&write(1, more.content).unwrap()), None);
        assert_eq!(read(&bytes(vec![shared(1, Vec::new())])), None, "nothing is before the first");
        assert_eq!(read(&vec![0; MOST_BYTES + 1]), None);
    }
}
