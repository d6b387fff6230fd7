//! SVG charts: panels with axes, lines and a legend.

mod axis;

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

pub(super) use self::axis::{Axis, mark};

/// Size in pixels.
const SIZE: (u32, u32) = (960, 480);
/// Font size; the chart shows it about a fifth smaller in pixels.
const TITLE: u32 = 22;
const LETTERS: u32 = 17;
/// Colours of Okabe and Ito, which remain distinct with colour blindness.
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

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// A named line.
pub(super) type Line<'a> = (&'a str, Vec<(f64, f64)>);

/// A panel of the chart.
pub(super) struct Panel<'a> {
    pub(super) title: String,
    /// Name and unit.
    pub(super) across: (&'a str, Axis),
    pub(super) up: (&'a str, Axis),
    pub(super) lines: Vec<Line<'a>>,
    /// A level to draw across.
    pub(super) level: Option<f64>,
    /// True if the points were measured and the lines between them were not.
    pub(super) dots: bool,
    pub(super) legend: SeriesLabelPosition,
}

/// Steps of a cumulative distribution.
const STEPS: usize = 400;

/// Draws the panels side by side.
pub(super) fn draw(panels: &[Panel<'_>]) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, one) in root.split_evenly((1, panels.len().max(1))).iter().zip(panels) {
            panel(area, one)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// Cumulative distribution of sorted values, in percent. Infinite values keep it below 100 %.
pub(super) fn distribution(rising: &[f64]) -> Vec<(f64, f64)> {
    let point = |step: usize| {
        let value = rising.get((rising.len() * step / STEPS).min(rising.len().saturating_sub(1)))?;
        value.is_finite().then_some((*value, step as f64 * 100.0 / STEPS as f64))
    };
    (0..=STEPS).filter_map(point).collect()
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
