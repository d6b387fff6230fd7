//! Sizes of pictures, read from their heads, and the published formulas for the tokens that models take for them.

use super::base64::Base64;

/// The marker segments of a JPEG that are passed over in search of its size.
const SEGMENTS: usize = 64;

/// The way in which a family of models divides a picture.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Pictures {
    /// OpenAI: scaled into 2048 × 2048 and then to a short side of 768, in tiles of 512, beside a base
    /// (<https://platform.openai.com/docs/guides/images-vision>, "Calculating costs").
    Tiles { base: u64, tile: u64 },
    /// OpenAI's later small models: patches of 32 up to 1536, times a factor in hundredths (the same page).
    Patches { hundredths: u64 },
    /// Claude: a token for 750 pixels, after scaling to 1568 on the long side and about 1600 tokens
    /// (<https://docs.anthropic.com/en/docs/build-with-claude/vision>).
    Claude,
    /// Gemini: 258 up to 384 × 384, and 258 for each tile of 768 of larger ones
    /// (<https://ai.google.dev/gemini-api/docs/tokens>).
    Gemini,
    /// Qwen-VL: a token for a square of this side, with a mark at either end; at most 16384.
    Merged { side: u64 },
    /// The same for every picture.
    Fixed(u64),
}

impl Pictures {
    /// Tokens of a picture of this size, in pixels.
    pub(super) fn tokens(self, (width, height): (u64, u64), low: bool) -> u64 {
        let (width, height) = (width.clamp(1, 1 << 20), height.clamp(1, 1 << 20));
        match self {
            Self::Tiles { base, .. } if low => base,
            Self::Tiles { base, tile } => {
                let (width, height) = within((width, height), 2048.0);
                let (width, height) = scaled((width, height), (768.0 / width.min(height)).min(1.0));
                base + tile * (width / 512.0).ceil() as u64 * (height / 512.0).ceil() as u64
            }
            Self::Patches { hundredths } => {
                let size = if low { within((width, height), 512.0) } else { (width as f64, height as f64) };
                (patches(size) * hundredths).div_ceil(100)
            }
            Self::Claude => {
                let (width, height) = within((width, height), 1568.0);
                ((width * height / 750.0).ceil() as u64).clamp(1, 1600)
            }
            Self::Gemini if width.max(height) <= 384 => 258,
            Self::Gemini => 258 * width.div_ceil(768) * height.div_ceil(768),
            Self::Merged { side } => {
                let squares = |length: u64| ((length as f64 / side as f64).round() as u64).max(1);
                (squares(width) * squares(height)).clamp(4, 16_384) + 2
            }
            Self::Fixed(tokens) => tokens,
        }
    }
}

fn scaled((width, height): (f64, f64), by: f64) -> (f64, f64) {
    (width * by, height * by)
}

/// A size scaled down to a long side of `most`.
fn within((width, height): (u64, u64), most: f64) -> (f64, f64) {
    scaled((width as f64, height as f64), (most / width.max(height) as f64).min(1.0))
}

/// Patches of 32 × 32, after scaling to at most 1536 of them as OpenAI describes.
fn patches((width, height): (f64, f64)) -> u64 {
    const MOST: f64 = 1536.0;
    let count = |width: f64, height: f64| (width / 32.0).ceil() * (height / 32.0).ceil();
    if count(width, height) <= MOST {
        return count(width, height) as u64;
    }
    let shrunk = (32.0 * 32.0 * MOST / (width * height)).sqrt();
    let whole = |length: f64| (length * shrunk / 32.0).floor() / (length * shrunk / 32.0);
    let shrunk = shrunk * whole(width).min(whole(height));
    count(width * shrunk, height * shrunk).clamp(1.0, MOST) as u64
}

/// The width and height of a picture in pixels, from its head: PNG, GIF (its first frame's canvas), WebP, BMP and JPEG.
pub(super) fn size(picture: &Base64<'_>) -> Option<(u64, u64)> {
    let head = picture.read(0, 32);
    let size = match head.first_chunk::<4>()? {
        b"\x89PNG" => (big(head.get(16..)?, 4)?, big(head.get(20..)?, 4)?),
        b"GIF8" => (little(head.get(6..)?, 2)?, little(head.get(8..)?, 2)?),
        b"RIFF" => webp(&head)?,
        [b'B', b'M', ..] => (little(head.get(18..)?, 4)?, little(head.get(22..)?, 4)?),
        [0xFF, 0xD8, 0xFF, _] => jpeg(picture)?,
        _ => return None,
    };
    (size.0 > 0 && size.1 > 0).then_some(size)
}

fn webp(head: &[u8]) -> Option<(u64, u64)> {
    match head.get(12..16)? {
        b"VP8X" => Some((little(head.get(24..)?, 3)? + 1, little(head.get(27..)?, 3)? + 1)),
        b"VP8L" => {
            let bits = little(head.get(21..)?, 4)?;
            Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
        }
        b"VP8 " => Some((little(head.get(26..)?, 2)? & 0x3FFF, little(head.get(28..)?, 2)? & 0x3FFF)),
        _ => None,
    }
}

/// The size in the frame header, which comes after segments of metadata.
fn jpeg(picture: &Base64<'_>) -> Option<(u64, u64)> {
    let mut at = 2;
    for _ in 0..SEGMENTS {
        let segment = picture.read(at, 9);
        let [0xFF, marker, rest @ ..] = &segment[..] else { return None };
        match marker {
            // Padding before a marker.
            0xFF => at += 1,
            0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => {
                return Some((big(rest.get(5..)?, 2)?, big(rest.get(3..)?, 2)?));
            }
            _ => at += 2 + usize::try_from(big(rest, 2)?).ok()?.max(2),
        }
    }
    None
}

fn big(bytes: &[u8], count: usize) -> Option<u64> {
    Some(bytes.get(..count)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

pub(super) fn little(bytes: &[u8], count: usize) -> Option<u64> {
    Some(bytes.get(..count)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_formulas_give_the_published_numbers() {
        const TILES: Pictures = Pictures::Tiles { base: 85, tile: 170 };
        for (family, small, square, large) in [
            (TILES, (256, 256, 255), (1024, 1024, 765), (2048, 4096, 1105)),
            (Pictures::Tiles { base: 70, tile: 140 }, (256, 256, 210), (1024, 1024, 630), (2048, 4096, 910)),
            (Pictures::Tiles { base: 2833, tile: 5667 }, (512, 512, 8500), (1024, 1024, 25_501), (4096, 2048, 36_835)),
            (Pictures::Patches { hundredths: 100 }, (256, 256, 64), (1024, 1024, 1024), (1800, 2400, 1452)),
            (Pictures::Patches { hundredths: 162 }, (256, 256, 104), (1024, 1024, 1659), (1800, 2400, 2353)),
            (Pictures::Claude, (200, 200, 54), (1000, 1000, 1334), (1092, 1092, 1590)),
            (Pictures::Claude, (1, 1, 1), (1456, 819, 1590), (8000, 6000, 1600)),
            (Pictures::Gemini, (384, 384, 258), (1024, 1024, 4 * 258), (3000, 768, 4 * 258)),
            (Pictures::Merged { side: 28 }, (28, 28, 6), (1036, 1036, 37 * 37 + 2), (8000, 8000, 16_386)),
            (Pictures::Merged { side: 32 }, (320, 320, 102), (1024, 1024, 1026), (1920, 1088, 60 * 34 + 2)),
            (Pictures::Fixed(256), (1, 1, 256), (1024, 1024, 256), (4096, 4096, 256)),
        ] {
            for (width, height, tokens) in [small, square, large] {
                assert_eq!(family.tokens((width, height), false), tokens, "{family:?} {width} × {height}");
            }
        }
        assert_eq!(TILES.tokens((4000, 4000), true), 85);
        assert_eq!(Pictures::Patches { hundredths: 100 }.tokens((2000, 1000), true), 16 * 8);
    }
}
