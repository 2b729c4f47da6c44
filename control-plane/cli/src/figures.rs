//! Results of `zsr bw` and `zsr lat`: with the columns of perftest, as CSV, and as JSON.

use std::fmt::{Display, Write};
use std::time::Duration;

use serde_json::json;

use crate::report::Room;

/// The form in which results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Columns, as perftest has them, if there is room for them.
    Table(Room),
    /// CSV with a header line.
    Csv,
    /// An object per line.
    Json,
}

/// Results for messages of one size, pushed as fast as the ring takes them. Rates are in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bandwidth {
    pub size: u32,
    pub iterations: u64,
    pub average: f64,
    /// The best hundredth of the run.
    pub best: f64,
}

impl Bandwidth {
    pub(super) fn header(format: Format) -> String {
        match format {
            Format::Table(_) => {
                " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n".into()
            }
            Format::Csv => {
                "size,iterations,peak_bytes_per_second,average_bytes_per_second,messages_per_second\n".into()
            }
            Format::Json => String::new(),
        }
    }

    pub(super) fn row(&self, format: Format) -> String {
        let Bandwidth { size, iterations, average, best } = *self;
        let messages = average / f64::from(size);
        match format {
            // perftest's MB are 2^20 bytes.
            Format::Table(_) => format!(
                " {size:<10} {iterations:<14} {:<18.2} {:<20.2} {:.6}\n",
                best / 1_048_576.0,
                average / 1_048_576.0,
                messages / 1e6
            ),
            Format::Csv => format!("{size},{iterations},{best:.0},{average:.0},{messages:.0}\n"),
            Format::Json => format!(
                "{}\n",
                json!({"size": size, "iterations": iterations, "peak_bytes_per_second": best.round(),
                    "average_bytes_per_second": average.round(), "messages_per_second": messages.round()})
            ),
        }
    }
}

/// Results for messages of one size, pushed one at a time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Latency {
    size: u32,
    /// In microseconds, ascending; at least one.
    samples: Vec<f64>,
}

impl Latency {
    /// The results of these times from push to arrival.
    pub(super) fn of(size: u32, times: Vec<Duration>) -> Latency {
        let mut samples: Vec<f64> = times.iter().map(|t| t.as_nanos() as f64 / 1000.0).collect();
        samples.sort_by(f64::total_cmp);
        Latency { size, samples }
    }

    /// The time that `p` percent of the messages did not take longer than.
    fn percentile(&self, p: f64) -> f64 {
        let rank = (p / 100.0 * self.samples.len() as f64).ceil() as usize;
        self.samples.get(rank.max(1) - 1).or(self.samples.last()).copied().unwrap_or(0.0)
    }

    /// Least, most, median, mean and standard deviation.
    fn five(&self) -> [f64; 5] {
        let n = self.samples.len().max(1) as f64;
        let mean = self.samples.iter().sum::<f64>() / n;
        let variance = self.samples.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>() / n;
        [self.percentile(0.0), self.percentile(100.0), self.percentile(50.0), mean, variance.sqrt()]
    }

    /// The columns of perftest.
    fn wide_header(percentiles: &[f64]) -> String {
        let mut line = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]".to_owned();
        for p in percentiles {
            let _ = write!(line, "   {p}% percentile[usec]");
        }
        line
    }

    /// Columns for a table that is too narrow for those of perftest: their names, and their places among all times.
    fn that_fit(room: Room, percentiles: &[f64]) -> Vec<(String, usize)> {
        let names = ["min_us", "max_us", "typical_us", "avg_us", "stdev_us"].map(str::to_owned);
        let names: Vec<String> =
            names.into_iter().chain(percentiles.iter().map(|p| format!("{p}%_us"))).collect();
        let by_worth = [2].into_iter().chain(5..names.len()).chain([0, 1, 3, 4]);
        let fit = |n: &usize| room.fits(narrow(&0, &0, names[..=*n].iter().cloned()).len());
        let mut shown: Vec<usize> =
            by_worth.enumerate().take_while(|(n, _)| fit(n)).map(|(_, place)| place).collect();
        shown.sort_unstable();
        shown.into_iter().map(|n| (names[n].clone(), n)).collect()
    }

    pub(super) fn header(format: Format, percentiles: &[f64]) -> String {
        let mut line = String::new();
        match format {
            Format::Table(room) if !room.fits(Self::wide_header(percentiles).len()) => {
                let names = Self::that_fit(room, percentiles);
                line += &narrow(&"#bytes", &"#iterations", names.iter().map(|(name, _)| name.clone()));
            }
            Format::Table(_) => line = Self::wide_header(percentiles),
            Format::Csv => {
                line += "size,iterations,min_us,max_us,typical_us,average_us,stdev_us";
                for p in percentiles {
                    let _ = write!(line, ",p{p}_us");
                }
            }
            Format::Json => return line,
        }
        line + "\n"
    }

    pub(super) fn row(&self, format: Format, percentiles: &[f64]) -> String {
        let (size, iterations, five) = (self.size, self.samples.len(), self.five());
        let [min, max, typical, average, stdev] = five;
        let of = percentiles.iter().map(|p| (*p, self.percentile(*p)));
        let mut line = String::new();
        match format {
            Format::Table(room) if !room.fits(Self::wide_header(percentiles).len()) => {
                let all: Vec<f64> = five.into_iter().chain(of.map(|(_, t)| t)).collect();
                let shown = Self::that_fit(room, percentiles);
                line += &narrow(&size, &iterations, shown.iter().map(|(_, n)| format!("{:.2}", all[*n])));
            }
            Format::Table(_) => {
                let _ = write!(
                    line,
                    " {size:<7} {iterations:<14} {min:<14.2} {max:<12.2} {typical:<18.2} {average:<14.2} {stdev:<13.2}"
                );
                for (_, t) in of {
                    let _ = write!(line, "   {t:<20.2}");
                }
                line.truncate(line.trim_end().len());
            }
            Format::Csv => {
                let _ = write!(line, "{size},{iterations}");
                for t in five.into_iter().chain(of.map(|(_, t)| t)) {
                    let _ = write!(line, ",{t:.3}");
                }
            }
            Format::Json => {
                let ns = |us: f64| (us * 1000.0).round() / 1000.0;
                let [min, max, typical, average, stdev] = five.map(ns);
                let of: serde_json::Map<_, _> = of.map(|(p, t)| (p.to_string(), json!(ns(t)))).collect();
                line = json!({"size": size, "iterations": iterations, "min_us": min, "max_us": max, "typical_us": typical,
                    "average_us": average, "stdev_us": stdev, "percentiles_us": of})
                .to_string();
            }
        }
        line + "\n"
    }
}

/// A line of a table for less room than perftest's takes.
fn narrow(size: &dyn Display, iterations: &dyn Display, times: impl Iterator<Item = String>) -> String {
    let begin = format!("{size:>8}{iterations:>12}");
    times.fold(begin, |line, time| format!("{line}{time:>11}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hundred() -> Latency {
        // 1 to 100 us, in no order.
        Latency::of(64, (1..=100).map(|n| Duration::from_micros(n * 37 % 101)).collect())
    }

    #[test]
    fn percentiles_are_samples() {
        let l = hundred();
        for (p, wanted) in [(0.0, 1.0), (1.0, 1.0), (50.0, 50.0), (99.0, 99.0), (99.9, 100.0), (100.0, 100.0)]
        {
            assert_eq!(l.percentile(p), wanted, "{p}");
        }
        let one = Latency::of(4, vec![Duration::from_nanos(1500)]);
        assert_eq!((one.percentile(50.0), one.five()[4]), (1.5, 0.0));
    }

    #[test]
    fn latency_in_every_form() {
        let l = hundred();
        assert_eq!(
            l.row(Format::Csv, &[99.0, 99.9]),
            "64,100,1.000,100.000,50.000,50.500,28.866,99.000,100.000\n"
        );
        let columns = |text: &str| text.trim_end().split(',').count();
        assert_eq!(
            columns(&Latency::header(Format::Csv, &[99.0, 99.9])),
            columns(&l.row(Format::Csv, &[99.0, 99.9]))
        );
        let json: serde_json::Value = serde_json::from_str(&l.row(Format::Json, &[99.0, 99.9])).unwrap();
        assert_eq!((&json["size"], &json["typical_us"]), (&json!(64), &json!(50.0)));
        assert_eq!(json["percentiles_us"], json!({"99": 99.0, "99.9": 100.0}));
        let row = l.row(Format::Table(Room::ANY), &[99.0]);
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["64", "100", "1.00", "100.00", "50.00", "50.50", "28.87", "99.00"]);
    }

    #[test]
    fn what_matters_fits() {
        let l = hundred();
        for (room, times) in [
            (Some(80), "min_us max_us typical_us 99%_us 99.9%_us"),
            (Some(60), "typical_us 99%_us 99.9%_us"),
            (Some(100), "min_us max_us typical_us avg_us stdev_us 99%_us 99.9%_us"),
            (
                None,
                "t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]",
            ),
        ] {
            let percentiles = [99.0, 99.9];
            let format = Format::Table(room.map_or(Room::ANY, Room::of));
            let (header, row) = (Latency::header(format, &percentiles), l.row(format, &percentiles));
            let words: Vec<&str> = header.split_whitespace().collect();
            assert_eq!(words.join(" "), format!("#bytes #iterations {times}"));
            let fits = |line: &str| room.is_none_or(|room| line.trim_end().len() <= room.into());
            assert!(fits(&header) && fits(&row), "{header}{row}");
            assert!(row.contains(" 50.00 ") && row.contains(" 99.00 "), "{row}");
        }
        let format = Format::Table(Room::of(80));
        assert!(Bandwidth::header(format).trim_end().len() <= 80);
        let most = Bandwidth { size: 1 << 20, iterations: 10_000_000, average: 1e11, best: 1e11 };
        assert!(most.row(format).trim_end().len() <= 80);
    }

    #[test]
    fn bandwidth_in_every_form() {
        let b = Bandwidth { size: 1024, iterations: 10, average: 1_048_576.0, best: 2_097_152.0 };
        assert_eq!(b.row(Format::Csv), "1024,10,2097152,1048576,1024\n");
        assert_eq!(
            b.row(Format::Table(Room::ANY)).split_whitespace().collect::<Vec<_>>(),
            ["1024", "10", "2.00", "1.00", "0.001024"]
        );
        let json: serde_json::Value = serde_json::from_str(&b.row(Format::Json)).unwrap();
        assert_eq!(json["average_bytes_per_second"], 1_048_576.0);
    }
}
