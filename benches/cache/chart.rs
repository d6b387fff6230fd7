//! Chart of stated budgets against measured rates of false hits.

use std::error::Error;

use plotters::{
    chart::ChartBuilder,
    drawing::IntoDrawingArea,
    element::{Circle, PathElement},
    prelude::SVGBackend,
    series::LineSeries,
    style::{RGBColor, ShapeStyle, WHITE},
};

/// Size in pixels.
const SIZE: (u32, u32) = (560, 440);
const INK: RGBColor = RGBColor(60, 60, 60);
const FAINT: RGBColor = RGBColor(225, 225, 225);
const OURS: RGBColor = RGBColor(0, 114, 178);

/// A budget, and the measured rate with its interval, as shares of hits.
pub(crate) struct Point {
    pub(crate) budget: f64,
    pub(crate) measured: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Draws the points as SVG. Below the diagonal a budget is met.
pub(crate) fn draw(points: &[Point]) -> Result<String, Box<dyn Error>> {
    let most = points.iter().map(|point| point.budget.max(point.high)).fold(0.0, f64::max) * 105.0;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption("False hits: stated and measured", ("sans-serif", 22))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..most, 0.0..most)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(FAINT)
            .axis_style(INK)
            .label_style(("sans-serif", 15))
            .x_desc("budget, stated (% of hits)")
            .y_desc("measured by reading, 95 % (% of hits)")
            .draw()?;
        chart.draw_series(LineSeries::new([(0.0, 0.0), (most, most)], INK))?;
        let bars = points.iter().map(|point| {
            let across = 100.0 * point.budget;
            PathElement::new(
                [(across, 100.0 * point.low), (across, 100.0 * point.high)],
                ShapeStyle::from(OURS).stroke_width(2),
            )
        });
        chart.draw_series(bars)?;
        let dots = points.iter().map(|point| {
            Circle::new((100.0 * point.budget, 100.0 * point.measured), 4, ShapeStyle::from(OURS).filled())
        });
        chart.draw_series(dots)?;
        root.present()?;
    }
    Ok(svg)
}
