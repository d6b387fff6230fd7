//! Which braces of a text are LaTeX's, and not a program's.

/// The groups of LaTeX in one line.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Groups {
    /// How many are open.
    open: u32,
    /// Where the last one ended, if one did.
    closed: Option<usize>,
}

impl Groups {
    /// Whether the brace at `at` of `line` is of a group, or one that is meant as such, in a formula or a pattern. To be asked of each
    /// brace of the line, in turn.
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

/// Where the option of a LaTeX command may begin at the earliest, so many bytes before its group.
const OPTION: usize = 16;

/// Whether a brace after `before` opens a group of LaTeX, and no block of code: it follows a command, what is raised or lowered, or the
/// group before it, which `closed` there.
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

/// Whether a text ends in a command of LaTeX. Those of one letter are mostly escapes of something else: `\n`, `\d`, `\u`.
fn is_command(text: &[u8]) -> bool {
    let name = letters(text);
    name > 1 && text[..text.len() - name].ends_with(b"\\")
}

/// How many letters a text ends in.
fn letters(text: &[u8]) -> usize {
    text.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Braces of a line that are a program's.
    fn programs(line: &str) -> usize {
        let line = line.as_bytes();
        let mut groups = Groups::default();
        let braces = (0..line.len()).filter(|at| matches!(line[*at], b'{' | b'}'));
        braces.filter(|at| !groups.take(line, *at)).count()
    }

    #[test]
    fn braces_of_formulas_are_told_from_those_of_programs() {
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
