//! Charts: over a range of rates, SLO attainment and the slowest first tokens; at one rate, the distribution of TTFT.

use std::error::Error;

use plotters::chart::SeriesLabelPosition;

use super::results::{Played, Results};
use crate::cli::plot::{self, Axis, Line, Panel, mark};
use signalbox_sim::experiment::ENOUGH;

/// Draws the results as SVG.
pub(super) fn draw(results: &Results) -> Result<String, Box<dyn Error>> {
    if results.swept() { plot::draw(&[attainment(results), tails(results)]) } else { plot::draw(&[spread(results)]) }
}

/// Line of a figure over the rates, for each policy.
fn over_rates<'a>(results: &'a Results, of: impl Fn(&Played, usize) -> f64) -> Vec<Line<'a>> {
    let line = |played: &'a Played| {
        let points = results.rates.iter().enumerate().map(|(at, rate)| (*rate, of(played, at)));
        // Infinite values cannot be drawn.
        (&*played.name, points.filter(|(_, value)| value.is_finite()).collect())
    };
    results.policies.iter().map(line).collect()
}

fn rates(results: &Results) -> Axis {
    let (first, last) = (results.rates.first().copied().unwrap_or(0.0), results.rates.last().copied().unwrap_or(1.0));
    Axis::even(first..last)
}

fn attainment(results: &Results) -> Panel<'_> {
    Panel {
        title: "Requests within the SLO".to_owned(),
        across: ("rate (× recorded load)", rates(results)),
        up: ("share of requests (%)", Axis::even(0.0..100.0)),
        lines: over_rates(results, |played, at| played.attainment(at).mean),
        level: Some(ENOUGH * 100.0),
        dots: true,
        legend: SeriesLabelPosition::LowerLeft,
    }
}

fn tails(results: &Results) -> Panel<'_> {
    let lines = over_rates(results, |played, at| played.mean(at, |figures| figures.ttft(0.99)));
    let values = lines.iter().flat_map(|(_, points)| points).map(|(_, seconds)| *seconds);
    Panel {
        title: "Time to first token, p99".to_owned(),
        across: ("rate (× recorded load)", rates(results)),
        up: ("TTFT p99 (s)", Axis::decades(values)),
        lines,
        level: None,
        dots: true,
        legend: SeriesLabelPosition::UpperLeft,
    }
}

fn spread(results: &Results) -> Panel<'_> {
    let line = |played: &'_ Played| {
        let mut ttfts: Vec<f64> = played.figures[0].iter().flat_map(|figures| figures.ttfts.iter().copied()).collect();
        ttfts.sort_by(f64::total_cmp);
        plot::distribution(&ttfts)
    };
    let lines: Vec<Line<'_>> = results.policies.iter().map(|played| (&*played.name, line(played))).collect();
    let values = lines.iter().flat_map(|(_, points)| points).map(|(seconds, _)| *seconds);
    Panel {
        title: format!("Time to first token at {} × the recorded load", mark(results.rates[0])),
        across: ("TTFT (s)", Axis::decades(values)),
        up: ("requests answered by then (%)", Axis::even(0.0..100.0)),
        lines,
        level: None,
        dots: false,
        legend: SeriesLabelPosition::LowerRight,
    }
}
