//! The results as a drawing: over a range of rates what share was in time and the slowest first tokens; at one rate how first
//! tokens are spread.

use std::error::Error;

use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea},
    element::{Circle, PathElement},
    prelude::SVGBackend,
    series::LineSeries,
    style::{Color, RGBColor, WHITE},
};

use super::{
    axis::{Axis, mark},
    results::{Played, Results},
};
use crate::sim::study::ENOUGH;

/// In pixels.
const SIZE: (u32, u32) = (960, 480);
/// Of letters; the drawing has them about a fifth smaller in pixels.
const TITLE: u32 = 22;
const LETTERS: u32 = 17;
/// Okabe and Ito's colours, which the colour-blind can tell apart too.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];
const INK: RGBColor = RGBColor(60, 60, 60);
const FAINT: RGBColor = RGBColor(225, 225, 225);

/// Steps in which a distribution is drawn.
const STEPS: usize = 400;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// Points of a line, named.
type Line<'a> = (&'a str, Vec<(f64, f64)>);

/// What a panel shows.
struct Panel<'a> {
    title: String,
    /// Name and unit.
    across: (&'a str, Axis),
    up: (&'a str, Axis),
    lines: Vec<Line<'a>>,
    /// A value that matters, drawn across.
    level: Option<f64>,
    /// Whether the points were measured, and nothing between them.
    dots: bool,
    legend: SeriesLabelPosition,
}

/// The results as SVG.
pub(super) fn draw(results: &Results) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        if results.swept() {
            let (left, right) = root.split_horizontally(SIZE.0 / 2);
            panel(&left, &attainment(results))?;
            panel(&right, &tails(results))?;
        } else {
            panel(&root, &spread(results))?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// A line of a figure over the rates for each policy.
fn over_rates<'a>(results: &'a Results, of: impl Fn(&Played, usize) -> f64) -> Vec<Line<'a>> {
    let line = |played: &'a Played| {
        let points = results.rates.iter().enumerate().map(|(at, rate)| (*rate, of(played, at)));
        // What has no end cannot be drawn.
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
        let point = |step: usize| {
            let seconds = ttfts.get((ttfts.len() * step / STEPS).min(ttfts.len().saturating_sub(1)))?;
            // Where requests were refused, the line ends below 100 %.
            seconds.is_finite().then_some((*seconds, step as f64 * 100.0 / STEPS as f64))
        };
        (0..=STEPS).filter_map(point).collect::<Vec<_>>()
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

fn panel(area: &Area<'_>, panel: &Panel<'_>) -> Drawn {
    let Panel { title, across, up, lines, level, dots, legend } = panel;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", TITLE, &INK))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(46)
        .y_label_area_size(62)
        .build_cartesian_2d(across.1.clone(), up.1.clone())?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(FAINT)
        .label_style(("sans-serif", LETTERS, &INK))
        .axis_desc_style(("sans-serif", LETTERS, &INK))
        .x_desc(across.0)
        .y_desc(up.0)
        .x_label_formatter(&|value| mark(*value))
        .y_label_formatter(&|value| mark(*value))
        .draw()?;
    let within = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().map(|(x, y)| (across.1.within(*x), up.1.within(*y))).collect()
    };
    if let Some(level) = level {
        let ends = within(&[(f64::NEG_INFINITY, *level), (f64::INFINITY, *level)]);
        chart.draw_series(LineSeries::new(ends, INK.mix(0.5)))?;
    }
    for ((name, points), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points = within(points);
        let style = colour.stroke_width(2);
        let drawn = chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        drawn.label(*name).legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
        if *dots {
            chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
        }
    }
    chart
        .configure_series_labels()
        .position(legend.clone())
        .label_font(("sans-serif", LETTERS, &INK))
        .background_style(WHITE.mix(0.85))
        .border_style(FAINT)
        .margin(8)
        .draw()?;
    Ok(())
}
