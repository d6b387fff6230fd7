//! Mutations: a few small random changes of a valid input.

use std::ops::Range;

/// Maximum length of an input.
const LONGEST: usize = 64 * 1024;

/// Tokens with a special meaning in JSON, YAML, events, forms and metrics.
const WORDS: [&[u8]; 44] = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\r\r",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x9a\xa6",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud83d",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b": ",
    b",",
    b"null",
    b"true",
    b"-1",
    b"1e400",
    b"18446744073709551616",
    b"0.0000001",
    b"NaN",
    b"data:",
    b"event: ",
    b"[DONE]",
    b"\"model\":",
    b"\"usage\":",
    b"--x\r\n",
    b"--x--",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!str ",
    b"|\n ",
    b"${",
    b"}%",
    b"# ",
    b"\t",
];

/// Changes `input` one to eight times; splices in parts of `other`.
pub(crate) fn mutate(dice: &mut fastrand::Rng, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..dice.u32(1..=8) {
        step(dice, input, other);
        input.truncate(LONGEST);
    }
}

fn step(dice: &mut fastrand::Rng, input: &mut Vec<u8>, other: &[u8]) {
    let at = dice.usize(0..=input.len());
    let part = range(dice, input.len());
    match dice.u32(0..10) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << dice.u32(0..8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = dice.u8(..);
            }
        }
        2 | 3 => insert(input, at, WORDS[dice.usize(0..WORDS.len())]),
        4 => drop(input.drain(part)),
        5 => {
            let copy = input[part].to_vec();
            insert(input, at, &copy);
        }
        6 => insert(input, at, &other[range(dice, other.len())]),
        7 => drop(input.splice(part, other[range(dice, other.len())].iter().copied())),
        8 => input.truncate(at),
        // Depth and length: repeats one part many times.
        _ => {
            let word = WORDS[dice.usize(0..WORDS.len())];
            let times = 1 << dice.u32(0..12);
            insert(input, at, &word.repeat(times));
        }
    }
}

/// Returns a random range, more often short than long.
fn range(dice: &mut fastrand::Rng, length: usize) -> Range<usize> {
    let start = dice.usize(0..=length);
    let most = (length - start) >> dice.u32(0..6);
    start..start + dice.usize(0..=most)
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}
