//! TPC-H rows, each producer generating its own part.

mod pool;

use std::io::Write;
use std::sync::{Arc, LazyLock};

use tpchgen::dates::{MIN_GENERATE_DATE, TOTAL_DATE_RANGE, TPCHDate};
use tpchgen::decimal::TPCHDecimal;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{LineItem, LineItemGenerator, LineItemGeneratorIterator};
use tpchgen::random::RowRandomInt;
use tpchgen::text::TextPool;

use pool::Pool;

/// Rows of `lineitem` per unit of scale, for progress only.
const ROWS_PER_SCALE: f64 = 6_001_215.0;

/// About how many rows a scale factor makes.
pub(crate) fn estimate(scale: f64) -> u64 {
    (ROWS_PER_SCALE * scale) as u64
}

/// The part that is the same for all rows.
#[derive(Clone, Debug)]
pub(crate) struct Texts(Arc<Pool>);

impl Texts {
    /// Makes the 300 MiB of text that comments are cut from. They are kept as long as somebody makes rows.
    pub fn new() -> Self {
        Texts(pool::pool())
    }
}

/// A part of `lineitem`, row by row as text in `tbl` form.
pub(crate) struct Rows {
    rows: LineItemGeneratorIterator<'static>,
    comments: Comments,
    line: Vec<u8>,
    part: usize,
    count: u64,
}

impl Rows {
    /// Part `part` (from 0) of `parts`. Parts are contiguous ranges of orders, so the parts one after the
    /// other are the whole table.
    pub fn new(scale: f64, part: usize, parts: usize, texts: &Texts) -> Self {
        // Comments are cut from our own text, so the generator needs none.
        static NO_TEXT: LazyLock<TextPool> =
            LazyLock::new(|| TextPool::new(1024, Distributions::static_default()));
        let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let generator = LineItemGenerator::new_with_distributions_and_text_pool(
            scale,
            number(part + 1),
            number(parts.max(1)),
            Distributions::static_default(),
            &NO_TEXT,
        );
        Rows {
            rows: generator.iter(),
            comments: Comments::new(scale, part, parts, texts),
            line: Vec::with_capacity(256),
            part,
            count: 0,
        }
    }

    /// The next row without line end.
    #[inline]
    pub fn next(&mut self) -> Option<&[u8]> {
        let row = self.rows.next()?;
        self.line.clear();
        write_row(&row, self.comments.next(row.l_linenumber == 1), &mut self.line);
        self.count += 1;
        Some(&self.line)
    }

    /// Where the row returned last is.
    pub fn place(&self) -> String {
        format!("lineitem, part {}, row {}", self.part + 1, self.count)
    }
}

/// The last column, whose random numbers are independent of those of the others.
struct Comments {
    random: RowRandomInt,
    texts: Texts,
    begun: bool,
}

impl Comments {
    /// As TPC-H has them: lengths from 0.4 to 1.6 times 27, two random numbers each, at most 7 for an order.
    const LENGTHS: (i32, i32) = (10, 43);
    const SEED: i64 = 1_095_462_486;
    const NUMBERS: i32 = 2 * 7;
    const ORDERS: f64 = 1_500_000.0;

    fn new(scale: f64, part: usize, parts: usize, texts: &Texts) -> Self {
        let mut random = RowRandomInt::new(Self::SEED, Self::NUMBERS);
        let orders = (Self::ORDERS * scale) as i64;
        random.advance_rows(orders / (parts.max(1) as i64) * part as i64);
        Comments { random, texts: texts.clone(), begun: false }
    }

    /// The comment of the next row, which may be the first one of an order.
    #[inline]
    fn next(&mut self, first: bool) -> &[u8] {
        if first && self.begun {
            self.random.row_finished();
        }
        self.begun = true;
        let (least, most) = Self::LENGTHS;
        let offset = self.random.next_int(0, pool::SIZE as i32 - most);
        let length = self.random.next_int(least, most);
        self.texts.0.text(offset as usize, length as usize)
    }
}

/// The row as text. `Display` takes most of the time, so fields that have it are written in other ways.
#[inline]
fn write_row(row: &LineItem<'_>, comment: &[u8], line: &mut Vec<u8>) {
    let LineItem { l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity, .. } = *row;
    for number in [l_orderkey, l_partkey, l_suppkey, i64::from(l_linenumber), l_quantity] {
        line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        line.push(b'|');
    }
    for number in [row.l_extendedprice, row.l_discount, row.l_tax] {
        write_decimal(number, line);
        line.push(b'|');
    }
    for text in [row.l_returnflag, row.l_linestatus] {
        line.extend_from_slice(text.as_bytes());
        line.push(b'|');
    }
    for date in [row.l_shipdate, row.l_commitdate, row.l_receiptdate] {
        write_date(date, line);
        line.push(b'|');
    }
    for text in [row.l_shipinstruct.as_bytes(), row.l_shipmode.as_bytes(), comment] {
        line.extend_from_slice(text);
        line.push(b'|');
    }
}

#[inline]
fn write_decimal(number: TPCHDecimal, line: &mut Vec<u8>) {
    if number.is_negative() {
        line.push(b'-');
    }
    line.extend_from_slice(itoa::Buffer::new().format(number.int_digits()).as_bytes());
    let rest = number.decimal_digits() as u8;
    line.extend_from_slice(&[b'.', b'0' + rest / 10, b'0' + rest % 10]);
}

#[inline]
fn write_date(date: TPCHDate, line: &mut Vec<u8>) {
    static DATES: LazyLock<Vec<[u8; 10]>> = LazyLock::new(|| {
        let text = |n| {
            let mut text = [0; 10];
            // Ten bytes, as all of these years have four digits.
            let _ = write!(&mut text[..], "{}", TPCHDate::new(MIN_GENERATE_DATE + n));
            text
        };
        (0..TOTAL_DATE_RANGE).map(text).collect()
    });
    match DATES.get(date.into_inner() as usize) {
        Some(text) => line.extend_from_slice(text),
        None => line.extend_from_slice(date.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_tpchgen() {
        let texts = Texts::new();
        for (scale, parts) in [(0.001, 1), (0.002, 3)] {
            let mut wanted = LineItemGenerator::new(scale, 1, 1).iter();
            for part in 0..parts {
                let mut rows = Rows::new(scale, part, parts, &texts);
                while let Some(row) = rows.next() {
                    let wanted = wanted.next().expect("a row").to_string();
                    assert_eq!(String::from_utf8_lossy(row), wanted);
                }
            }
            assert_eq!(wanted.next(), None);
        }
    }
}
