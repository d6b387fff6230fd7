//! Seconds of sound and video, from their heads and their lengths.

use super::{base64::Base64, pictures::little};

/// Bytes for a second of video of unknown length: a megabit.
const VIDEO_BYTES: f64 = 125_000.0;
/// Bytes of the head that are searched for the length of a video.
const HEAD: usize = 4 << 10;
/// Kilobits per second of MP3 (MPEG-1, layer 3), by the number in a frame's header.
const MP3: [u16; 16] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0];

/// Bytes for a second of sound, by format.
const FORMATS: [(&str, f64); 11] = [
    ("mp3", 16_000.0),
    ("mpeg", 16_000.0),
    ("pcm16", 48_000.0),
    ("wav", 32_000.0),
    ("g711", 8_000.0),
    ("flac", 80_000.0),
    ("opus", 4_000.0),
    ("ogg", 8_000.0),
    ("webm", 6_000.0),
    ("aac", 16_000.0),
    ("m4a", 16_000.0),
];

/// Seconds of a sound; `media` is its media type or its format.
pub(super) fn sound(sound: &Base64<'_>, media: &str) -> f64 {
    let head = sound.read(0, 44);
    let rate = match &head[..] {
        [b'R', b'I', b'F', b'F', ..] => little(head.get(28..).unwrap_or_default(), 4).map(|rate| rate as f64),
        [b'I', b'D', b'3', ..] => mp3(&sound.read(10 + tag(&head), 4)),
        [0xFF, second, ..] if second & 0xE0 == 0xE0 => mp3(&head),
        _ => None,
    };
    let media = media.to_ascii_lowercase();
    let usual = FORMATS.iter().find(|(format, _)| media.contains(format)).map_or(16_000.0, |(_, rate)| *rate);
    sound.len() as f64 / rate.filter(|rate| *rate >= 500.0).unwrap_or(usual)
}

/// The length of an ID3 tag, in four digits of seven bits.
fn tag(head: &[u8]) -> usize {
    head.get(6..10).unwrap_or_default().iter().fold(0, |length, byte| length << 7 | usize::from(byte & 0x7F))
}

/// Bytes per second by a frame's header.
fn mp3(header: &[u8]) -> Option<f64> {
    let [0xFF, second, third, ..] = header else { return None };
    // MPEG-1, layer 3; others are rare.
    (second & 0xFE == 0xFA).then(|| f64::from(MP3[usize::from(third >> 4)]) * 125.0)
}

/// Seconds of a video: the length in its movie header (ISO 14496-12) if its head has one, or by its bytes.
pub(super) fn video(video: &Base64<'_>) -> f64 {
    let head = video.read(0, HEAD);
    let header = memchr::memmem::find(&head, b"mvhd").map(|at| &head[at + 4..]);
    let big = |bytes: &[u8], at: usize| {
        let four = bytes.get(at..at + 4)?;
        Some(four.iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte)))
    };
    let length = header.and_then(|header| {
        // Version 1 has times of eight bytes.
        let (scale, length) = if header.first() == Some(&1) {
            (big(header, 20)?, big(header, 28)?)
        } else {
            (big(header, 12)?, big(header, 16)?)
        };
        (scale > 0 && length > 0).then(|| f64::from(length) / f64::from(scale))
    });
    length.unwrap_or(video.len() as f64 / VIDEO_BYTES)
}
