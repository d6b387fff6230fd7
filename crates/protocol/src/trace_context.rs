//! A request's position in a trace, from the W3C header `traceparent` (Trace Context, level 1).

use std::fmt;

/// A span of a trace.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace id; not 0.
    pub trace: u128,
    /// The span id; not 0.
    pub span: u64,
    /// True if the trace's originator records the trace.
    pub sampled: bool,
}

impl TraceContext {
    /// Parses a `traceparent` header. `None` for an invalid one: the standard then requires a new trace.
    pub fn parse(header: &str) -> Option<Self> {
        let bytes = header.as_bytes();
        let hex = |from: usize, to: usize| {
            let digits = &bytes[from..to];
            let lower = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            lower.then(|| std::str::from_utf8(digits).ok()).flatten()
        };
        // Later versions may add more after a dash.
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

/// Writes the header's value.
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
    fn invalid_headers_are_rejected() {
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
        fn a_written_context_is_read_back(trace in 1u128.., span in 1u64.., sampled: bool) {
            let context = TraceContext { trace, span, sampled };
            prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        }

        #[test]
        fn arbitrary_headers_do_not_panic(header in "\\PC{0,70}") {
            let _ = TraceContext::parse(&header);
        }
    }
}
