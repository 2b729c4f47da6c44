//! Figures as files and tables.

use std::fmt::Write;

use plotters::prelude::*;

use super::{Drawn, Figure};

/// A line per point: curve, x, y.
pub fn csv(drawn: &Drawn) -> String {
    let mut out = format!("curve,\"{}\",\"{}\"\n", drawn.x, drawn.y);
    for curve in &drawn.curves {
        for (x, y) in &curve.points {
            writeln!(out, "\"{}\",{x},{y}", curve.name).expect("a string has room");
        }
    }
    out
}

/// The curves as a table, then the paper's numbers, then the rules.
pub fn table(figure: &Figure, drawn: &Drawn) -> String {
    let mut out = format!("## {}: {}\n\n{}\n\n| {} |", figure.name, figure.title, figure.says, drawn.x);
    let mut xs: Vec<f64> = drawn.curves.iter().flat_map(|c| c.points.iter().map(|p| p.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    for curve in &drawn.curves {
        write!(out, " {}, {} |", curve.name, drawn.y).expect("a string has room");
    }
    out += "\n| --- |";
    out += &" --- |".repeat(drawn.curves.len());
    for x in xs {
        write!(out, "\n| {x} |").expect("a string has room");
        for curve in &drawn.curves {
            let y = curve.points.iter().find(|point| point.0 == x);
            let y = y.map_or(String::new(), |(_, y)| format!("{y:.2}"));
            write!(out, " {y} |").expect("a string has room");
        }
    }
    out.push('\n');
    if !drawn.stated.is_empty() {
        out += "\n| stated | paper | here | ratio |\n| --- | --- | --- | --- |\n";
        for stated in &drawn.stated {
            let (paper, ours) = (stated.paper, stated.ours);
            writeln!(out, "| {} | {paper} | {ours:.2} | {:.2} |", stated.what, ours / paper)
                .expect("a string has room");
        }
    }
    out.push('\n');
    for rule in &drawn.rules {
        let sign = if rule.holds { "holds" } else { "FAILS" };
        writeln!(out, "- {sign}: {}", rule.text).expect("a string has room");
    }
    out
}

/// The curves as a picture.
///
/// # Errors
/// What the drawing library says.
pub fn svg(figure: &Figure, drawn: &Drawn) -> Result<String, String> {
    let mut out = String::new();
    draw(figure, drawn, &mut out).map_err(|e| e.to_string())?;
    Ok(out)
}

fn draw(figure: &Figure, drawn: &Drawn, out: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(out, (720, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let points = || drawn.curves.iter().flat_map(|curve| &curve.points);
    let (low, high) =
        points().fold((f64::INFINITY, 0.0_f64), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
    let top = points().fold(0.0_f64, |top, (_, y)| top.max(*y)) * 1.1;
    let title = format!("{}: {}", figure.name, figure.title);
    let mut chart = ChartBuilder::on(&area);
    chart.caption(title, ("sans-serif", 16)).margin(12).x_label_area_size(44).y_label_area_size(64);
    macro_rules! curves {
        ($x:expr) => {
            let mut chart = chart.build_cartesian_2d($x, 0.0..top)?;
            chart.configure_mesh().x_desc(drawn.x).y_desc(drawn.y).draw()?;
            for (number, curve) in drawn.curves.iter().enumerate() {
                let color = Palette99::pick(number).stroke_width(2);
                chart
                    .draw_series(LineSeries::new(curve.points.iter().copied(), color))?
                    .label(curve.name.as_str())
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
            }
            chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
        };
    }
    if drawn.log_x {
        curves!((low..high).log_scale());
    } else {
        curves!(low..high);
    }
    area.present()?;
    Ok(())
}
