use super::*;

/// Base64 of `bytes` in the usual alphabet.
fn encoded(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| char::from(DIGITS[(bits & 63) as usize]);
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        text.extend([digit(bits >> 18), digit(bits >> 12), digit(bits >> 6), digit(bits)]);
        text.truncate(text.len() - (3 - three.len()));
        text.extend(std::iter::repeat_n('=', 3 - three.len()));
    }
    text
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", &size[..], b"\x08\x02\0\0\0"].concat()
}

fn jpeg(width: u16, height: u16, metadata: u16) -> Vec<u8> {
    let segment = [&[0xFF, 0xE1][..], &(metadata + 2).to_be_bytes(), &vec![7; metadata.into()]].concat();
    let frame = [&[0xFF, 0xC2, 0, 17, 8][..], &height.to_be_bytes(), &width.to_be_bytes(), &[3; 9]].concat();
    [&[0xFF, 0xD8][..], &segment, &[0xFF, 0xFF, 0xDB, 0, 4, 0, 0], &frame].concat()
}

fn attachment(data: &str) -> Attachment<'_> {
    Attachment { class: Class::Image, media: "", detail: "", data }
}

#[test]
fn the_size_is_read_from_the_head_of_each_format() {
    let size = |bytes: &[u8]| pictures::size(&Base64::new(&encoded(bytes)));
    let webp = |kind: &[u8; 4], rest: &[u8]| [b"RIFF\0\0\0\0WEBP", &kind[..], b"\x0a\0\0\0", rest].concat();
    for (name, bytes, want) in [
        ("png", png(640, 480), (640, 480)),
        ("jpeg", jpeg(1920, 1080, 20), (1920, 1080)),
        ("jpeg with a preview", jpeg(3000, 2000, 60_000), (3000, 2000)),
        ("gif", b"GIF89a\x20\x03\x58\x02\0\0\0".to_vec(), (800, 600)),
        ("bmp", [&b"BM"[..], &[0; 16], &[0x20, 3, 0, 0, 0x58, 2, 0, 0]].concat(), (800, 600)),
        ("webp, extended", webp(b"VP8X", &[0, 0, 0, 0, 0x1F, 3, 0, 0x57, 2, 0]), (800, 600)),
        ("webp, lossy", webp(b"VP8 ", &[0, 0, 0, 0x9D, 1, 0x2A, 0x20, 3, 0x58, 2]), (800, 600)),
        ("webp, lossless", webp(b"VP8L", &[0x2F, 0x1F, 0xC3, 0x95, 0]), (800, 600)),
    ] {
        assert_eq!(size(&bytes), Some(want), "{name}");
    }
    for broken in [&b""[..], b"\x89PNG", b"GIF8", b"RIFF", b"BM", &[0xFF, 0xD8, 0xFF, 0xE0], b"<svg/>"] {
        assert_eq!(size(broken), None, "{broken:?}");
    }
}

#[test]
fn a_picture_is_read_however_it_is_written() {
    let plain = encoded(&png(512, 512));
    let tokens = |data: &str| attachment(data).weight(&Prices::of_model("gpt-4o"));
    let want = Weight::exactly(255);
    assert_eq!(tokens(&plain), want);
    for data in [
        format!("data:image/png;base64,{plain}"),
        format!("DATA:IMAGE/PNG;name=a.png;BASE64,{plain}"),
        format!("data:;base64,{plain}"),
        format!("data:image/png;base64,{}", plain.replace('+', "-").replace('/', "_")),
        format!("data:image/png;base64,{}", plain.replace("AAAA", "AA\\r\\nAA").replace('/', "\\/")),
        format!("data:image/png;base64,{}", plain.replace('/', "\\u002f")),
    ] {
        assert_eq!(tokens(&data), want, "{data}");
    }
    let low = |data| Attachment { detail: "low", ..attachment(data) }.weight(&Prices::of_model("gpt-4o")).expected;
    assert_eq!((low(&plain), low("https://pictures.example/a.png"), low("")), (85, 85, 85));
    let usual = tokens("https://pictures.example/a.png");
    assert_eq!(usual, Weight { least: 255, expected: 765, most: 1105 });
    assert_eq!((tokens("data:image/svg+xml;utf8,<svg/>"), tokens("")), (usual, usual));
}

#[test]
fn a_media_type_decides_the_kind() {
    let class = |data, media| Attachment { class: Class::File, media, ..attachment(data) }.class();
    assert_eq!(class("data:image/png;base64,AA", ""), Class::Image);
    assert_eq!(class("data:Audio/wav;base64,AA", "image/png"), Class::Audio);
    assert_eq!(class("AA", "video/mp4"), Class::Video);
    assert_eq!(class("data:;base64,AA", "image/png"), Class::Image);
    assert_eq!(class("data:application/pdf;base64,AA", ""), Class::File);
    assert_eq!(class("https://a.example/b", ""), Class::File);
}

#[test]
fn sound_is_counted_by_seconds() {
    let tokens = |bytes: &[u8], media| {
        let data = encoded(bytes);
        Attachment { class: Class::Audio, media, ..attachment(&data) }.weight(&Prices::of_model("gpt-4o-audio-preview"))
    };
    let wav = |rate: u32| {
        let head = [b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0", &(rate / 2).to_le_bytes()[..], &rate.to_le_bytes()];
        [head.concat(), vec![0; 5 * rate as usize]].concat()
    };
    for rate in [16_000, 48_000, 176_400] {
        assert!((50..=51).contains(&tokens(&wav(rate), "wav").expected), "{rate}");
    }
    let mp3 = |kilobits: u8| [&[0xFF, 0xFB, kilobits << 4, 0][..], &vec![0; 80_000]].concat();
    assert_eq!((tokens(&mp3(9), "mp3").expected, tokens(&mp3(5), "").expected), (51, 101));
    let tagged = [b"ID3\x04\0\0\0\0\x01\0", &[0; 128][..], &mp3(5)].concat();
    assert_eq!(tokens(&tagged, "mp3").expected, 101);
    assert_eq!(tokens(&vec![1; 96_000], "pcm16").expected, 20);
    assert_eq!(tokens(b"", "mp3").expected, 300, "one that is elsewhere");
}

#[test]
fn video_is_counted_by_seconds_and_files_by_pages() {
    let weigh = |class, bytes: &[u8], media| {
        let data = encoded(bytes);
        Attachment { class, media, ..attachment(&data) }.weight(&Prices::of_model("gemini-2.5-pro")).expected
    };
    let header =
        [&b"....moov....mvhd\0\0\0\0"[..], &[0; 8], &1000_u32.to_be_bytes(), &12_000_u32.to_be_bytes()].concat();
    assert_eq!(weigh(Class::Video, &header, "video/mp4"), 12 * 290);
    assert_eq!(weigh(Class::Video, &vec![0; 1_249_998], ""), 10 * 290);
    let pdf = |inside: &str, bytes| [b"%PDF-1.7\n", inside.as_bytes(), &vec![b' '; bytes]].concat();
    assert_eq!(weigh(Class::File, &pdf("<< /Linearized 1 /L 9 /N 12 >>", 9), ""), 12 * 258);
    assert_eq!(weigh(Class::File, &pdf("/Type /Pages /Count 3", 90_000), ""), 3 * 258);
    assert_eq!(weigh(Class::File, &pdf("", 190_000), "application/pdf"), 4 * 258);
    assert_eq!(weigh(Class::File, &[b'x'; 4_000], "text/plain"), 1000);
    assert_eq!(weigh(Class::File, b"", ""), 4 * 258, "one that is elsewhere");
}
