//! Figures of the papers, in virtual time: curves, the numbers that the papers state, and rules of the curves' shapes.
//!
//! A figure is drawn as zsr does it, or *broken*: without the feature that the figure is about. Its rules have to hold in the first case,
//! and one of them has to fail in the second. So a rule that can't fail is found.

mod against;
mod batches;
mod draw;
mod elastic;
mod latency;
mod shares;
mod shuffles;
mod structures;

pub use draw::{csv, svg, table};

/// A figure of a paper.
pub struct Figure {
    /// The figure's number in its paper.
    pub name: &'static str,
    /// The figure's title.
    pub title: &'static str,
    /// The paper's statement about the figure, in our words.
    pub says: &'static str,
    /// The feature that is missing when the figure is drawn broken.
    pub broken: &'static str,
    /// The function that draws the figure; broken if so asked.
    pub draw: fn(bool) -> Drawn,
}

/// All figures.
pub const FIGURES: &[Figure] = &[
    batches::FIGURE,
    against::DFI,
    latency::FIGURE,
    shares::WEIGHTS,
    against::REPLICATE,
    elastic::FIGURE,
    shares::FAIRNESS,
    shares::STRAGGLER,
    structures::FIGURE,
    shuffles::SIZES,
    shuffles::NODES_FIGURE,
];

/// A figure's curves, and what is to be said of them.
pub struct Drawn {
    /// The quantity along the horizontal axis, with its unit.
    pub x: &'static str,
    /// The quantity along the vertical axis, with its unit.
    pub y: &'static str,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Numbers that the paper states.
    pub stated: Vec<Stated>,
    /// Rules of the curves' shapes.
    pub rules: Vec<Rule>,
}

/// A curve.
pub struct Curve {
    /// The curve's name.
    pub name: String,
    /// The curve's points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A number of a paper, and the model's.
pub struct Stated {
    /// The number's meaning, with its unit.
    pub what: &'static str,
    /// The paper's number.
    pub paper: f64,
    /// Our number.
    pub ours: f64,
}

/// A rule of a figure's shape.
pub struct Rule {
    /// The rule in words.
    pub text: String,
    /// Whether the curves follow it.
    pub holds: bool,
}

impl Curve {
    fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect() }
    }

    /// The values, from left to right.
    fn values(&self) -> impl DoubleEndedIterator<Item = f64> + Clone {
        self.points.iter().map(|point| point.1)
    }

    fn last(&self) -> f64 {
        self.values().next_back().unwrap_or(f64::NAN)
    }

    fn first(&self) -> f64 {
        self.values().next().unwrap_or(f64::NAN)
    }

    fn most(&self) -> f64 {
        self.values().fold(f64::NEG_INFINITY, f64::max)
    }

    fn least(&self) -> f64 {
        self.values().fold(f64::INFINITY, f64::min)
    }
}

/// A rule that holds if this number is at least `least`; the number is part of the text.
fn at_least(text: &str, number: f64, least: f64) -> Rule {
    Rule { text: format!("{text} is {number:.2}, at least {least}"), holds: number >= least }
}

/// A rule that holds if this number is at most `most`.
fn at_most(text: &str, number: f64, most: f64) -> Rule {
    Rule { text: format!("{text} is {number:.2}, at most {most}"), holds: number <= most }
}

/// Bytes per nanosecond are gigabytes per second.
fn gigabytes(bytes: u64, ns: u64) -> f64 {
    bytes as f64 / ns as f64
}
