//! Checks comparisons with constants: rejects those that are always or never true, and values that a variable never
//! has.

use std::ops::Range;

use super::{
    check::Checker,
    mistake::Mistake,
    node::Node,
    value::Comparison,
    variables::{CLASSES, STATES, Variable},
};
use signalbox_config::nearest;

type Side<'a> = (&'a Node, &'a Range<usize>);

impl Checker<'_> {
    /// Checks a comparison in which one side may be a constant.
    pub(super) fn compared(&mut self, comparison: Comparison, left: Side<'_>, right: Side<'_>) -> Option<()> {
        let (comparison, subject, value) = match (left.0.is_constant(), right.0.is_constant()) {
            (false, true) => (comparison, left, right),
            (true, false) => (comparison.turned(), right, left),
            _ => return Some(()),
        };
        let (Node::Fact(variable) | Node::Pool(variable, _) | Node::Route(variable, _)) = subject.0 else {
            return Some(());
        };
        let number = match value.0 {
            Node::Int(number) => *number as f64,
            Node::Double(number) => *number,
            Node::Text(text) => return self.word(*variable, text, value.1),
            _ => return Some(()),
        };
        self.number(*variable, comparison, number, subject.1, value.1)
    }

    fn number(
        &mut self,
        variable: Variable,
        comparison: Comparison,
        value: f64,
        subject: &Range<usize>,
        span: &Range<usize>,
    ) -> Option<()> {
        let (least, most) = variable.entry().range;
        let whole = subject.start.min(span.start)..subject.end.max(span.end);
        let (above, below) = (value > most, value < least);
        let outcome = match comparison {
            Comparison::More => {
                if value >= most {
                    Some(false)
                } else {
                    below.then_some(true)
                }
            }
            Comparison::AtLeast => {
                if above {
                    Some(false)
                } else {
                    (value <= least).then_some(true)
                }
            }
            Comparison::Less => {
                if value <= least {
                    Some(false)
                } else {
                    above.then_some(true)
                }
            }
            Comparison::AtMost => {
                if below {
                    Some(false)
                } else {
                    (value >= most).then_some(true)
                }
            }
            Comparison::Equal => (above || below).then_some(false),
            Comparison::NotEqual => (above || below).then_some(true),
        };
        let Some(always) = outcome else { return Some(()) };
        let always = if always { "always holds" } else { "never holds" };
        let shown = self.shown(subject);
        let bounds = if most.is_finite() {
            format!("`{shown}` lies between {least} and {most}")
        } else {
            format!("`{shown}` is never below {least}")
        };
        if above || below {
            let example = format!("write a number in these bounds, as in `{}`", variable.entry().example);
            return self.report(Mistake::new(span.clone(), format!("{always}: {bounds}")).help(example));
        }
        self.report(
            Mistake::new(whole, format!("{always}: {bounds}")).help("leave this part out, or correct the comparison"),
        )
    }

    fn word(&mut self, variable: Variable, text: &str, span: &Range<usize>) -> Option<()> {
        let names = self.names;
        let keys = || names.keys.iter().map(|key| &**key);
        let mistake = |message: String| Mistake::new(span.clone(), message);
        match variable {
            Variable::RequestClass if !CLASSES.contains(&text) => {
                let lower = text.to_lowercase();
                self.report(
                    mistake(format!("there is no class \"{text}\""))
                        .meant(nearest(&lower, CLASSES), "the classes are `interactive` and `batch`"),
                )
            }
            Variable::PoolSlo | Variable::RouteSlo if !STATES.contains(&text) => {
                let lower = text.to_lowercase();
                self.report(
                    mistake(format!("objectives are never in the state \"{text}\""))
                        .meant(nearest(&lower, STATES), "they are `ok`, `missing`, `burning` or `exhausted`"),
                )
            }
            Variable::PromptLanguage if !text.is_empty() && !is_language(text) => {
                let lower = text.to_ascii_lowercase();
                let code = lower.split(['-', '_']).next().filter(|code| is_language(code));
                self.report(
                    mistake(format!("\"{text}\" is no two-letter code of a language"))
                        .meant(code, "write it as ISO 639-1 does: `en`, `de`, `zh`"),
                )
            }
            Variable::KeyId if !names.keys.is_empty() && !text.is_empty() && keys().all(|key| key != text) => self
                .report(
                    mistake(format!("there is no key \"{text}\""))
                        .meant(nearest(text, keys()), "name the `id` of a key of this file"),
                ),
            _ => Some(()),
        }
    }
}

fn is_language(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_lowercase())
}
