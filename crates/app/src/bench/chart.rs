//! Charts as SVG text: lines over labelled axes, readable in any viewer, without scripts or fonts of their own.
//!
//! Owns layout only; what is drawn comes as numbers. Linear axes start at zero, logarithmic ones at a power of ten.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 64.0;
const COLOURS: [&str; 8] = [
    "#2f6fde", "#d9602c", "#2a9d6f", "#a64ac9", "#b8860b", "#c2334d", "#4a7c8c", "#6b6b6b",
];

pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: Axis<'a>,
    pub(crate) y: Axis<'a>,
    pub(crate) series: Vec<Series>,
}

#[derive(Clone, Copy)]
pub(crate) struct Axis<'a> {
    pub(crate) name: &'a str,
    pub(crate) scale: Scale,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Log,
}

pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A value range with its marks, and the way from a value to 0..1.
struct Range {
    scale: Scale,
    low: f64,
    high: f64,
    marks: Vec<f64>,
}

impl Range {
    fn over(scale: Scale, values: impl Iterator<Item = f64>) -> Range {
        let usable =
            values.filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0));
        let (low, high) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
            (low.min(v), high.max(v))
        });
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        match scale {
            Scale::Linear if high > 0.0 => Range::linear(high),
            Scale::Linear => Range::linear(1.0),
            Scale::Log => Range::log(low, high),
        }
    }

    fn linear(high: f64) -> Range {
        let rough = high / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|multiple| multiple * power);
        let step = steps
            .into_iter()
            .find(|step| rough <= *step)
            .unwrap_or(power * 10.0);
        let count = (high / step).ceil().max(1.0) as usize;
        let marks: Vec<f64> = (0..=count).map(|i| i as f64 * step).collect();
        Range {
            scale: Scale::Linear,
            low: 0.0,
            high: count as f64 * step,
            marks,
        }
    }

    fn log(low: f64, high: f64) -> Range {
        let first = low.log10().floor() as i32;
        let last = (high.log10().ceil() as i32).max(first + 1);
        let marks = (first..=last).map(|power| 10f64.powi(power)).collect();
        Range {
            scale: Scale::Log,
            low: 10f64.powi(first),
            high: 10f64.powi(last),
            marks,
        }
    }

    fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        share.clamp(0.0, 1.0)
    }
}

impl Chart<'_> {
    pub(crate) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = Range::over(self.x.scale, points().map(|point| point.0));
        let y = Range::over(self.y.scale, points().map(|point| point.1));
        let at = |(px, py): (f64, f64)| {
            let left = LEFT + x.share(px) * (WIDTH - LEFT - RIGHT);
            (
                left,
                HEIGHT - BOTTOM - y.share(py) * (HEIGHT - TOP - BOTTOM),
            )
        };
        let mut out = String::new();
        self.frame(&mut out);
        for mark in &y.marks {
            let (_, top) = at((x.low, *mark));
            line(&mut out, (LEFT, top), (WIDTH - RIGHT, top));
            label(&mut out, (LEFT - 8.0, top + 4.0), "end", &number(*mark));
        }
        for mark in &x.marks {
            let (left, _) = at((*mark, y.low));
            line(
                &mut out,
                (left, HEIGHT - BOTTOM),
                (left, HEIGHT - BOTTOM + 5.0),
            );
            label(
                &mut out,
                (left, HEIGHT - BOTTOM + 20.0),
                "middle",
                &number(*mark),
            );
        }
        for (i, series) in self.series.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let drawn = series
                .points
                .iter()
                .copied()
                .filter(|(px, py)| px.is_finite() && py.is_finite());
            draw(&mut out, colour, &drawn.map(at).collect::<Vec<_>>());
            let top = TOP + 8.0 + 18.0 * i as f64;
            let left = WIDTH - RIGHT - 190.0;
            let _ = writeln!(
                out,
                r#"<rect x="{left}" y="{}" width="12" height="4" fill="{colour}"/>"#,
                top - 5.0
            );
            label(&mut out, (left + 18.0, top), "start", &series.name);
        }
        out.push_str("</svg>\n");
        out
    }

    fn frame(&self, out: &mut String) {
        let _ = writeln!(
            out,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="12">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>"##
        );
        let _ = writeln!(
            out,
            r##"<text x="{LEFT}" y="28" font-size="15" fill="#222222">{}</text>"##,
            escaped(self.title)
        );
        label(
            out,
            ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16.0),
            "middle",
            self.x.name,
        );
        let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
        let _ = writeln!(
            out,
            r##"<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle" fill="#444444">{}</text>"##,
            escaped(self.y.name)
        );
    }
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        r##"<path d="M{:.1} {:.1}L{:.1} {:.1}" stroke="#dddddd"/>"##,
        from.0, from.1, to.0, to.1
    );
}

fn label(out: &mut String, at: (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(
        out,
        r##"<text x="{:.1}" y="{:.1}" text-anchor="{anchor}" fill="#444444">{}</text>"##,
        at.0,
        at.1,
        escaped(text)
    );
}

fn draw(out: &mut String, colour: &str, path: &[(f64, f64)]) {
    let mut d = String::new();
    for (i, (left, top)) in path.iter().enumerate() {
        let _ = write!(d, "{}{left:.1} {top:.1}", if i == 0 { 'M' } else { 'L' });
    }
    let _ = writeln!(
        out,
        r#"<path d="{d}" fill="none" stroke="{colour}" stroke-width="2"/>"#
    );
    // Hundreds of dots would hide the line.
    if path.len() <= 40 {
        for (left, top) in path {
            let _ = writeln!(
                out,
                r#"<circle cx="{left:.1}" cy="{top:.1}" r="3" fill="{colour}"/>"#
            );
        }
    }
}

/// `1500000` as `1.5M`.
fn number(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.5}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, points: Vec<(f64, f64)>) -> String {
        let axis = Axis { name: "n", scale };
        Chart {
            title: "a < b & c",
            x: axis,
            y: axis,
            series: vec![Series {
                name: "s".into(),
                points,
            }],
        }
        .svg()
    }

    #[test]
    fn marks_cover_the_largest_value_with_round_numbers() {
        for (high, want) in [
            (7.0, 8.0),
            (100.0, 100.0),
            (940_521.0, 1_000_000.0),
            (1.1, 1.25),
        ] {
            let range = Range::linear(high);
            assert!(
                (range.high - want).abs() < want * 1e-9,
                "{high}: {}",
                range.high
            );
            assert!(range.marks.len() <= 7);
        }
        let range = Range::log(3.0, 2000.0);
        assert_eq!((range.low, range.high), (1.0, 10_000.0));
        assert_eq!(range.share(100.0), 0.5);
    }

    #[test]
    fn whatever_the_values_the_picture_holds_only_numbers() {
        for scale in [Scale::Linear, Scale::Log] {
            for points in [
                vec![],
                vec![(0.0, 0.0)],
                vec![(1.0, 5.0), (128.0, 1e9)],
                vec![(f64::NAN, 1.0), (-1.0, f64::INFINITY)],
            ] {
                let svg = chart(scale, points);
                assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
                assert!(!svg.contains("inf") && !svg.contains("NaN"), "{svg}");
            }
        }
    }

    #[test]
    fn text_is_escaped() {
        assert!(chart(Scale::Linear, vec![(1.0, 1.0)]).contains("a &lt; b &amp; c"));
    }

    #[test]
    fn numbers_on_axes_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (1000.0, "1k"),
            (1_500_000.0, "1.5M"),
            (128.0, "128"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
