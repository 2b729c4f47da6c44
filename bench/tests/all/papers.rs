//! The papers' figures: their rules hold, and each figure has one that fails without what the figure is about.

use zsr_bench::papers::{FIGURES, Figure, csv, svg, table};

#[test]
fn every_rule_holds() {
    for figure in FIGURES {
        let drawn = (figure.draw)(false);
        assert!(drawn.rules.iter().all(|rule| rule.holds), "{}", table(figure, &drawn));
        let points: usize = drawn.curves.iter().map(|curve| curve.points.len()).sum();
        assert_eq!(csv(&drawn).lines().count(), points + 1, "{}", figure.name);
        let picture = svg(figure, &drawn).expect("it can be drawn");
        assert!(picture.matches("<polyline").count() >= drawn.curves.len(), "{}", figure.name);
    }
}

#[test]
fn a_rule_of_every_figure_fails_without_what_the_figure_is_about() {
    let blind = |figure: &&Figure| (figure.draw)(true).rules.iter().all(|rule| rule.holds);
    let blind: Vec<&str> = FIGURES.iter().filter(blind).map(|figure| figure.name).collect();
    assert!(blind.is_empty(), "all rules hold all the same: {blind:?}");
}
