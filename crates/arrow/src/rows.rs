//! Which rows of an array go.

use std::rc::Rc;

/// Rows of an array, in the order in which they go. Their numbers count from the array's own offset.
#[derive(Clone, Debug)]
pub(crate) enum Rows<'a> {
    /// Side by side.
    Run { start: usize, len: usize },
    /// One by one.
    Picked(&'a [u32]),
    /// Several runs: where each begins, and its length.
    Runs(Rc<Runs>),
}

#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<(usize, usize)>,
    len: usize,
}

impl Runs {
    pub(crate) fn push(&mut self, start: usize, len: usize) {
        self.len += len;
        match self.runs.last_mut() {
            _ if len == 0 => {}
            Some((last, had)) if *last + *had == start => *had += len,
            _ => self.runs.push((start, len)),
        }
    }
}

impl From<Runs> for Rows<'_> {
    fn from(runs: Runs) -> Self {
        match *runs.runs {
            [] => Rows::Run { start: 0, len: 0 },
            [(start, len)] => Rows::Run { start, len },
            _ => Rows::Runs(Rc::new(runs)),
        }
    }
}

impl Rows<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::Run { len, .. } => *len,
            Rows::Picked(picked) => picked.len(),
            Rows::Runs(runs) => runs.len,
        }
    }

    /// Calls `run` with the begin and length of each run.
    #[inline]
    pub(crate) fn each(&self, mut run: impl FnMut(usize, usize)) {
        match self {
            Rows::Run { len: 0, .. } => {}
            Rows::Run { start, len } => run(*start, *len),
            Rows::Picked(picked) => picked.iter().for_each(|row| run(*row as usize, 1)),
            Rows::Runs(runs) => runs.runs.iter().for_each(|(start, len)| run(*start, *len)),
        }
    }

    /// Calls `row` with each row.
    #[inline]
    pub(crate) fn each_row(&self, mut row: impl FnMut(usize)) {
        self.each(|start, len| (start..start + len).for_each(&mut row));
    }

    /// The rows that `run` makes of each run.
    pub(crate) fn map(&self, mut run: impl FnMut(usize, usize) -> (usize, usize)) -> Self {
        let mut runs = Runs::default();
        self.each(|start, len| {
            let (start, len) = run(start, len);
            runs.push(start, len);
        });
        runs.into()
    }

    /// The same rows of an array that begins `by` rows earlier.
    pub(crate) fn shifted(&self, by: usize) -> Self {
        match self {
            Rows::Run { start, len } => Rows::Run { start: start + by, len: *len },
            rows if by == 0 => rows.clone(),
            rows => rows.map(|start, len| (start + by, len)),
        }
    }

    /// `len` of the rows, behind the first `skip`. Of runs, all are taken apart.
    pub(crate) fn part(&self, skip: usize, len: usize) -> Self {
        match self {
            Rows::Run { start, .. } => Rows::Run { start: start + skip, len },
            Rows::Picked(picked) => Rows::Picked(&picked[skip..skip + len]),
            Rows::Runs(_) => {
                let (mut runs, mut at) = (Runs::default(), 0);
                self.each_row(|row| {
                    if (skip..skip + len).contains(&at) {
                        runs.push(row, 1);
                    }
                    at += 1;
                });
                runs.into()
            }
        }
    }
}
