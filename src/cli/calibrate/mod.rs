//! `signalbox calibrate`: what shares of tiers mean on one's own prompts: where the bars would stand, and what quality to expect.

mod prompts;

use std::{fmt::Write as _, io, path::PathBuf, process::ExitCode};

use serde_json::{Value, json};

use super::{output, share::share};
use crate::{
    config::{Problem, Problems},
    prompt::complexity::{Features, Weights, score},
    types::{Complexity, Outline},
};

/// Large shares that are shown beside those asked for.
const SHARES: [f64; 7] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0];
/// Prompts on each side of a bar that are shown, and how much of each.
const EXAMPLES: usize = 3;
const SHOWN: usize = 70;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Prompts, one a line, gzip or not: text, JSON strings, `{"prompt": …}`, or whole requests (`messages` or `input`); `-` for the standard input
    #[arg(long, value_name = "FILE")]
    prompts: PathBuf,
    /// The shares of the tiers, the cheapest first
    #[arg(long, value_delimiter = ',', default_values = ["75%", "25%"], value_parser = share)]
    shares: Vec<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A prompt and what is made of it.
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
        output::json(&told(&scored, &args.shares)).map(|()| ExitCode::SUCCESS)
    } else {
        output::print(&text_of(&scored, &args.shares)).map(|()| ExitCode::SUCCESS)
    }
}

fn scored(outline: &Outline) -> Scored {
    let shown: String = outline.text.chars().take(SHOWN).map(|it| if it.is_control() { ' ' } else { it }).collect();
    Scored { shown, complexity: score(&Features::of(outline), Weights::built_in()) }
}

/// Where the share `large` of the prompts begins, in their order.
fn cut(scored: &[Scored], large: f64) -> usize {
    ((scored.len() as f64 * (1.0 - large)).round() as usize).min(scored.len())
}

/// The mean quality to expect where all prompts from `cut` on go to the larger model.
fn quality(scored: &[Scored], cut: usize) -> f64 {
    let (small, large) = scored.split_at(cut);
    let sum: f64 = small.iter().map(|it| it.complexity.quality).sum::<f64>()
        + large.iter().map(|it| (it.complexity.quality + it.complexity.gap).min(1.0)).sum::<f64>();
    sum / scored.len() as f64
}

/// The score of the first prompt that goes up.
fn bar(scored: &[Scored], cut: usize) -> Option<f64> {
    scored.get(cut).map(|it| it.complexity.score)
}

/// The shares that go above each bar, the lowest bar first.
fn above(shares: &[f64]) -> Vec<f64> {
    (1..shares.len()).map(|tier| shares[tier..].iter().sum()).collect()
}

fn told(scored: &[Scored], shares: &[f64]) -> Value {
    let row = |large: f64| {
        let cut = cut(scored, large);
        json!({ "large_share": large, "bar": bar(scored, cut), "expected_quality": quality(scored, cut) })
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
    let told = told(scored, shares);
    let mut text = format!(
        "{} prompts, scored by {}; mean confidence {:.2} (1: like those that the weights were fitted on)\n\n",
        scored.len(),
        Weights::built_in().version,
        told["mean_confidence"].as_f64().unwrap_or_default()
    );
    for (tier, large) in above(shares).into_iter().enumerate() {
        let cut = cut(scored, large);
        let bar = bar(scored, cut).map_or_else(|| "none".to_owned(), |bar| format!("{bar:.3}"));
        let _ = writeln!(
            text,
            "tier {} and above: {:.1} % of the prompts, those with a score of {bar} or more",
            tier + 1,
            large * 100.0
        );
        for it in &scored[cut..scored.len().min(cut + EXAMPLES)] {
            let _ = writeln!(text, "   just above  {:.3}  {}", it.complexity.score, it.shown);
        }
        for it in scored[cut.saturating_sub(EXAMPLES)..cut].iter().rev() {
            let _ = writeln!(text, "   just below  {:.3}  {}", it.complexity.score, it.shown);
        }
        text += "\n";
    }
    let rows = SHARES.map(|large| {
        let cut = cut(scored, large);
        let bar = bar(scored, cut).map_or_else(|| "-".to_owned(), |bar| format!("{bar:.3}"));
        [format!("{:.0} %", large * 100.0), bar, format!("{:.1} %", quality(scored, cut) * 100.0)]
    });
    text + &output::numbers(["large share", "bar", "expected quality"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_divide_prompts_by_their_shares() {
        let lines: Vec<Scored> = (0..100)
            .map(|n| Scored {
                shown: String::new(),
                complexity: Complexity { score: f64::from(n) / 100.0, quality: 0.5, gap: 0.2, ..Complexity::default() },
            })
            .collect();
        assert_eq!(above(&[0.5, 0.3, 0.2]).iter().map(|share| cut(&lines, *share)).collect::<Vec<_>>(), [50, 80]);
        assert!((quality(&lines, 75) - 0.55).abs() < 1e-9);
        assert_eq!((bar(&lines, 75), bar(&lines, 100)), (Some(0.75), None));
    }
}
