//! Distinguishes braces of LaTeX from those of program code.

/// The open LaTeX groups of one line.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Groups {
    /// Number of open groups.
    open: u32,
    /// The position after the last closed group, if any.
    closed: Option<usize>,
}

impl Groups {
    /// True if the brace at `at` of `line` belongs to a LaTeX group, or is an escaped brace in a formula or a pattern.
    /// Must be called for each brace of the line in order.
    pub(super) fn take(&mut self, line: &[u8], at: usize) -> bool {
        let before = &line[..at];
        match line[at] {
            _ if before.ends_with(b"\\") => {}
            b'{' if self.open > 0 || opens(before, self.closed) => self.open += 1,
            b'}' if self.open > 0 => (self.open, self.closed) = (self.open - 1, Some(at + 1)),
            _ => return false,
        }
        true
    }
}

/// The longest option of a LaTeX command before its group, in bytes.
const OPTION: usize = 16;

/// True if a brace after `before` opens a LaTeX group rather than a code block: it follows a command, `^` or `_`, or a
/// group that ended at `closed`.
fn opens(before: &[u8], closed: Option<usize>) -> bool {
    match before {
        [.., b'^'] => true,
        [.., b'}'] => closed == Some(before.len()),
        [base @ .., b'_'] => {
            is_command(base)
                || letters(base) == 1
                || closed == Some(base.len())
                || matches!(base, [.., b'0'..=b'9' | b')'])
        }
        [rest @ .., b']'] => {
            let option = rest.iter().rev().take(OPTION).position(|byte| *byte == b'[');
            option.is_some_and(|length| is_command(&rest[..rest.len() - length - 1]))
        }
        [name @ .., b'*'] | name => is_command(name),
    }
}

/// True if a text ends in a LaTeX command. One-letter commands are mostly other escapes: `
/// `, `\d`, `\u`.
fn is_command(text: &[u8]) -> bool {
    let name = letters(text);
    name > 1 && text[..text.len() - name].ends_with(b"\\")
}

/// Number of letters at the end of a text.
fn letters(text: &[u8]) -> usize {
    text.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of program braces in a line.
    fn programs(line: &str) -> usize {
        let line = line.as_bytes();
        let mut groups = Groups::default();
        let braces = (0..line.len()).filter(|at| matches!(line[*at], b'{' | b'}'));
        braces.filter(|at| !groups.take(line, *at)).count()
    }

    #[test]
    fn braces_of_formulas_are_distinguished_from_those_of_programs() {
        let all_braces = [
            "[&]{ if{a;} else {b;} }",
            "new int[]{1,2}",
            "map[string]interface{}{1,2}",
            "\"{}{}\"",
            "{{x}}{{y}}",
            "{1}{2}",
            "f\"user_{id}_{n}\"",
            r"^\d{3}-\d{4}$",
            r"\p{L}\u{1F600}",
            r"a\n{b}\t{c}",
            "${A}_${B}",
        ];
        for code in all_braces {
            let braces = code.bytes().filter(|byte| matches!(byte, b'{' | b'}')).count();
            assert_eq!(programs(code), braces, "{code}");
        }
        let none = [
            r"\frac{1}{2}",
            r"x^{2}_{i}",
            r"\sqrt[n+1]{x}",
            r"\operatorname*{max}",
            r"(a)_{1}",
            r"\pi_{k}",
            r"\{1\}",
            r"\{\d",
        ];
        for formula in none {
            assert_eq!(programs(formula), 0, "{formula}");
        }
    }
}
