//! `signalbox calibrate`: shows where shares of tiers would split one's own prompts, and the expected quality.

mod prompts;

use std::{fmt::Write as _, io, ops::Range, path::PathBuf, process::ExitCode};

use serde_json::{Value, json};

use super::{output, share::share};
use signalbox_config::{Problem, Problems};
use signalbox_prompt::complexity::{Features, Weights, score};
use signalbox_types::{Complexity, Outline};

/// Large shares shown in addition to the requested ones.
const SHARES: [f64; 7] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0];
/// Prompts shown on each side of a threshold, and characters shown of each.
const EXAMPLES: usize = 3;
const SHOWN: usize = 70;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Prompts, one per line, gzip or plain: text, JSON strings, `{"prompt": …}`, or whole requests (`messages` or `input`); `-` for standard input
    #[arg(long, value_name = "FILE")]
    prompts: PathBuf,
    /// Shares of the tiers, the cheapest first
    #[arg(long, value_delimiter = ',', default_values = ["75%", "25%"], value_parser = share)]
    shares: Vec<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A prompt with its complexity.
struct Scored {
    shown: String,
    complexity: Complexity,
}

pub(super) fn calibrate(args: &Args) -> io::Result<ExitCode> {
    let name = args.prompts.display().to_string();
    let refuse = |problem| {
        output::complain(&output::report(&Problems::new(&name, "".into(), vec![problem])));
        Ok(ExitCode::FAILURE)
    };
    let sum: f64 = args.shares.iter().sum();
    if args.shares.len() < 2 || (sum - 1.0).abs() > 1e-6 {
        let message = format!("{} shares that add up to {:.1} %", args.shares.len(), sum * 100.0);
        let help = "give each tier its share, two tiers at least, and let them add up to 100 %: `--shares 75%,25%`";
        return refuse(Problem::whole(message).help(help));
    }
    let mut scored = match prompts::open(&args.prompts, scored) {
        Ok(scored) => scored,
        Err(problem) => return refuse(problem),
    };
    scored.sort_by(|one, other| one.complexity.score.total_cmp(&other.complexity.score));
    if args.json {
        output::json(&report(&scored, &args.shares)).map(|()| ExitCode::SUCCESS)
    } else {
        output::print(&text_of(&scored, &args.shares)).map(|()| ExitCode::SUCCESS)
    }
}

fn scored(outline: &Outline) -> Scored {
    let shown: String = outline.text.chars().take(SHOWN).map(|it| if it.is_control() { ' ' } else { it }).collect();
    Scored { shown, complexity: score(&Features::of(outline), Weights::built_in()) }
}

/// Index at which the share `large` of the sorted prompts begins.
fn cut(scored: &[Scored], large: f64) -> usize {
    ((scored.len() as f64 * (1.0 - large)).round() as usize).min(scored.len())
}

/// Expected mean quality if all prompts from `cut` on go to the larger model; equals at the threshold are chosen at random.
fn quality(scored: &[Scored], cut: usize) -> f64 {
    let gained = |it: &Scored| it.complexity.gap.min(1.0 - it.complexity.quality);
    let equals = equals(scored, cut);
    let drawn = (equals.end - cut) as f64 / equals.len().max(1) as f64;
    let sum = scored.iter().map(|it| it.complexity.quality).sum::<f64>()
        + scored[equals.end..].iter().map(gained).sum::<f64>()
        + drawn * scored[equals].iter().map(gained).sum::<f64>();
    sum / scored.len() as f64
}

/// Score of the first prompt for the larger model.
fn bar(scored: &[Scored], cut: usize) -> Option<f64> {
    scored.get(cut).map(|it| it.complexity.score)
}

/// Range of prompts with the score at `cut`. If some are before `cut`, no threshold alone separates the share.
fn equals(scored: &[Scored], cut: usize) -> Range<usize> {
    bar(scored, cut).map_or(cut..cut, |bar| {
        let start = scored.partition_point(|it| it.complexity.score < bar);
        start..scored.partition_point(|it| it.complexity.score <= bar)
    })
}

/// Share of the prompts from index `from` on.
fn part(scored: &[Scored], from: usize) -> f64 {
    (scored.len() - from) as f64 / scored.len() as f64
}

/// Shares above each threshold, the lowest threshold first.
fn above(shares: &[f64]) -> Vec<f64> {
    (1..shares.len()).map(|tier| shares[tier..].iter().sum()).collect()
}

fn report(scored: &[Scored], shares: &[f64]) -> Value {
    let row = |large: f64| {
        let cut = cut(scored, large);
        let equals = equals(scored, cut);
        json!({
            "large_share": large,
            "bar": bar(scored, cut),
            "share_at_or_above": part(scored, equals.start),
            "share_above": part(scored, equals.end),
            "expected_quality": quality(scored, cut),
        })
    };
    let confidence = scored.iter().map(|it| it.complexity.confidence).sum::<f64>() / scored.len() as f64;
    json!({
        "prompts": scored.len(),
        "weights": Weights::built_in().version,
        "mean_confidence": confidence,
        "bars": above(shares).into_iter().map(row).collect::<Vec<_>>(),
        "curve": SHARES.map(row),
    })
}

fn text_of(scored: &[Scored], shares: &[f64]) -> String {
    let report = report(scored, shares);
    let mut text = format!(
        "{} prompts, scored by {}; mean confidence {:.2} (1: like those that the weights were fitted on)\n\n",
        scored.len(),
        Weights::built_in().version,
        report["mean_confidence"].as_f64().unwrap_or_default()
    );
    for (tier, large) in above(shares).into_iter().enumerate() {
        let _ = writeln!(text, "tier {} and above, {} asked for: {}", tier + 1, percent(large), divided(scored, large));
        let cut = cut(scored, large);
        let equals = equals(scored, cut);
        // Equals that the threshold does not separate are not above it.
        let (at, above) = if equals.start < cut { (equals.clone(), equals.end) } else { (cut..cut, cut) };
        let mut show = |place: &str, it: &Scored| {
            let _ = writeln!(text, "   {place}  {:.3}  {}", it.complexity.score, it.shown);
        };
        scored[above..].iter().take(EXAMPLES).for_each(|it| show("just above", it));
        scored[at].iter().take(EXAMPLES).for_each(|it| show("at the bar", it));
        scored[..equals.start].iter().rev().take(EXAMPLES).for_each(|it| show("just below", it));
        text += "\n";
    }
    let rows = SHARES.map(|large| {
        let cut = cut(scored, large);
        let bar = bar(scored, cut).map_or_else(|| "-".to_owned(), |bar| format!("{bar:.3}"));
        let reached = percent(part(scored, equals(scored, cut).start));
        [format!("{:.0} %", large * 100.0), bar, reached, percent(quality(scored, cut))]
    });
    text + &output::numbers(["large share", "bar", "at or above", "expected quality"], rows)
}

/// Describes the prompts that go to the larger model for the share `large`.
fn divided(scored: &[Scored], large: f64) -> String {
    let cut = cut(scored, large);
    let Some(bar) = bar(scored, cut) else {
        let few = if large > 0.0 { ": they are too few for so small a share" } else { "" };
        return format!("not one of the {} prompts{few}", scored.len());
    };
    let equals = equals(scored, cut);
    let mut text = format!("{} of the prompts have a score of {bar:.3} or more", percent(part(scored, equals.start)));
    if equals.start < cut {
        let _ = write!(
            text,
            "\n   {} have just this score and {} a higher one: no bar alone gives {}, and the gateway draws lots among equals",
            percent(equals.len() as f64 / scored.len() as f64),
            percent(part(scored, equals.end)),
            percent(large)
        );
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prompts with these scores.
    fn prompts(scores: impl IntoIterator<Item = f64>) -> Vec<Scored> {
        let complexity = |score| Complexity { score, quality: 0.5, gap: 0.2, ..Complexity::default() };
        scores.into_iter().map(|score| Scored { shown: String::new(), complexity: complexity(score) }).collect()
    }

    #[test]
    fn bars_divide_prompts_by_their_shares() {
        let lines = prompts((0..100).map(|n| f64::from(n) / 100.0));
        assert_eq!(above(&[0.5, 0.3, 0.2]).iter().map(|share| cut(&lines, *share)).collect::<Vec<_>>(), [50, 80]);
        assert!((quality(&lines, 75) - 0.55).abs() < 1e-9);
        assert_eq!((bar(&lines, 75), bar(&lines, 100)), (Some(0.75), None));
        assert_eq!((equals(&lines, 75), equals(&lines, 100)), (75..76, 100..100));
        let text = text_of(&lines, &[0.75, 0.25]);
        assert!(
            text.contains("above, 25.0 % asked for: 25.0 % of the prompts have a score of 0.750 or more\n"),
            "{text}"
        );
        assert!(text.contains("just above  0.750") && text.contains("just below  0.740"), "{text}");
    }

    #[test]
    fn equals_at_the_threshold_are_reported() {
        let mut lines = prompts([0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3]);
        let text = text_of(&lines, &[0.5, 0.5]);
        for part in [
            "50.0 % asked for: 90.0 % of the prompts have a score of 0.200 or more\n",
            "80.0 % have just this score and 10.0 % a higher one: no bar alone gives 50.0 %",
            "just above  0.300",
            "at the bar  0.200",
            "just below  0.100",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let report = report(&lines, &[0.5, 0.5]);
        assert_eq!(
            (&report["bars"][0]["share_at_or_above"], &report["bars"][0]["share_above"]),
            (&json!(0.9), &json!(0.1))
        );
        // One of eight equals gains, and half of them are chosen.
        lines[1..9].iter_mut().for_each(|it| it.complexity.gap = 0.0);
        lines[8].complexity.gap = 0.4;
        assert!((quality(&lines, 5) - (5.0 + 0.2 + 0.2) / 10.0).abs() < 1e-9);
    }

    #[test]
    fn shares_of_none_or_all_have_no_threshold() {
        let lines = prompts([0.1, 0.2, 0.3]);
        assert_eq!(divided(&lines, 0.0), "not one of the 3 prompts");
        assert_eq!(divided(&lines, 0.1), "not one of the 3 prompts: they are too few for so small a share");
        assert_eq!(divided(&lines, 0.25), "33.3 % of the prompts have a score of 0.300 or more");
        assert_eq!(divided(&lines, 1.0), "100.0 % of the prompts have a score of 0.100 or more");
    }
}
