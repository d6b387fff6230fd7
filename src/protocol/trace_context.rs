//! Where a request belongs in a trace, as the W3C header `traceparent` tells it (Trace Context, level 1).

use std::fmt;

/// A span of a trace.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; not 0.
    pub trace: u128,
    /// The span; not 0.
    pub span: u64,
    /// Whether whoever began the trace has it recorded.
    pub sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent` header; `None` where it is none, as the standard has it: then a new trace begins.
    pub fn parse(header: &str) -> Option<Self> {
        let bytes = header.as_bytes();
        let hex = |from: usize, to: usize| {
            let digits = &bytes[from..to];
            let lower = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            lower.then(|| std::str::from_utf8(digits).ok()).flatten()
        };
        // Later versions may say more, after a dash.
        if bytes.len() < 55 || [2, 35, 52].iter().any(|at| bytes[*at] != b'-') {
            return None;
        }
        let version = u8::from_str_radix(hex(0, 2)?, 16).ok().filter(|version| *version != 0xff)?;
        if bytes.len() > 55 && (version == 0 || bytes[55] != b'-') {
            return None;
        }
        let trace = u128::from_str_radix(hex(3, 35)?, 16).ok().filter(|trace| *trace != 0)?;
        let span = u64::from_str_radix(hex(36, 52)?, 16).ok().filter(|span| *span != 0)?;
        let flags = u8::from_str_radix(hex(53, 55)?, 16).ok()?;
        Some(Self { trace, span, sampled: flags & 1 == 1 })
    }
}

/// As the header has it.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_standard_s_example() {
        let context = TraceContext::parse(HEADER).unwrap();
        assert_eq!(context.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span, context.sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), HEADER);
    }

    #[test]
    fn what_the_standard_calls_invalid_is_no_context() {
        let longer = format!("{HEADER}-more");
        assert!(TraceContext::parse(&longer).is_none(), "version 00 says no more");
        assert!(TraceContext::parse(&longer.replacen("00", "01", 1)).is_some());
        for wrong in [
            "",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(trace in 1u128.., span in 1u64.., sampled: bool) {
            let context = TraceContext { trace, span, sampled };
            prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        }

        #[test]
        fn nothing_makes_it_panic(header in "\\PC{0,70}") {
            let _ = TraceContext::parse(&header);
        }
    }
}
