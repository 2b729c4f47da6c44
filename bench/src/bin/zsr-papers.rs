//! Draws figures of the papers in virtual time, and says whether their curves have the papers' shapes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use zsr_bench::papers::{FIGURES, Figure, csv, svg, table};

/// Draws figures of the papers in virtual time, and checks rules of their shapes.
///
/// Exit code 0: all rules hold; 1: one fails; 2: there is no such figure, or no file can be written.
#[derive(Parser)]
struct Args {
    /// Figures, such as 12.7; all if none is named
    figures: Vec<String>,
    /// Write FIGURE.csv and FIGURE.svg to this folder, too
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Draw each figure without the feature that it is about. Exit code 0: a rule of each fails
    #[arg(long)]
    broken: bool,
    /// Only say which figures there are
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<bool, String> {
    let named = |name: &String| {
        let all = || FIGURES.iter().map(|figure| figure.name).collect::<Vec<_>>().join(", ");
        FIGURES
            .iter()
            .find(|figure| figure.name == name || figure.name.replace(' ', "-") == *name)
            .ok_or_else(|| format!("there is no figure '{name}' here: expected one of {}", all()))
    };
    let figures: Vec<&Figure> = match args.figures.is_empty() {
        true => FIGURES.iter().collect(),
        false => args.figures.iter().map(named).collect::<Result<_, _>>()?,
    };
    if args.list {
        figures.iter().for_each(|figure| println!("{:9} {}", figure.name, figure.title));
        return Ok(true);
    }
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let mut wrong = Vec::new();
    for figure in figures {
        let drawn = (figure.draw)(args.broken);
        println!("{}", table(figure, &drawn));
        if args.broken {
            println!("Drawn without {}.\n", figure.broken);
        }
        if let Some(folder) = &args.out {
            let name = figure.name.replace(' ', "-");
            for (suffix, text) in [("csv", csv(&drawn)), ("svg", svg(figure, &drawn)?)] {
                let path = folder.join(format!("{name}.{suffix}"));
                std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            }
        }
        if drawn.rules.iter().all(|rule| rule.holds) == args.broken {
            wrong.push(figure.name);
        }
    }
    match (wrong.is_empty(), args.broken) {
        (true, false) => println!("All rules hold."),
        (true, true) => println!("Of each figure a rule fails, as it should."),
        (false, false) => println!("Rules fail: figures {}.", wrong.join(", ")),
        (false, true) => println!("All rules hold without what figures {} are about.", wrong.join(", ")),
    }
    Ok(wrong.is_empty())
}
