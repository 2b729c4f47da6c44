//! The stock of producers, made before the clock starts: rows read or made, routed, packed into segments and hashed.
//!
//! Each producer has a thread that makes its segments and runs ahead as far as there is memory for. The rest is made
//! while the first ones move. So moving is copying bytes that are there, and memory does not grow with the input.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;
use zsr_ring::segment::{HEADER_LEN, Header, LENGTH_LEN, SegmentConfig, SegmentPacker, SegmentPushError};

use super::drive::Control;
use super::error::WorkloadError;
use super::source::{Prepared, Source};

/// Bytes of segments that all producers of a run together keep; inputs of more go on being made while they move.
pub const KEPT: usize = 256 << 20;
/// Segments are handed on in blocks of about so many bytes.
const BLOCK: usize = 1 << 20;
/// How often a wait looks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// The hash that both ends compare: of a segment's records as they lie, and its number.
#[inline]
pub(crate) fn hash(records: &[u8], sequence: u64) -> u64 {
    xxh3_64_with_seed(records, sequence)
}

/// The segments that a flow's producers push; none for synthetic items, which are numbers.
#[derive(Debug, Default)]
pub struct Stock {
    feeds: Vec<Feed>,
    /// The fault of the input, as far as it was looked at before anything moved.
    error: Option<WorkloadError>,
}

impl Stock {
    /// Begins to make what `producers` producers push. They keep `kept` bytes together, and at least a block each.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn begin(prepared: &Prepared, producers: usize, kept: usize) -> Result<Self, WorkloadError> {
        if prepared.is_synthetic() {
            return Ok(Stock::default());
        }
        let blocks = (kept / BLOCK / producers.max(1)).max(1);
        let feeds = (0..producers).map(|part| Feed::begin(prepared, part, producers, blocks));
        Ok(Stock { feeds: feeds.collect::<Result<_, _>>()?, error: None })
    }

    /// Returns when everything is made, or as much as is kept. Also returns when there is something wrong with it, or
    /// when somebody wants it to end.
    pub fn wait(&mut self, control: &Control) {
        for feed in &mut self.feeds {
            if let Err(error) = feed.wait(control) {
                self.error.get_or_insert(error);
            }
        }
    }

    /// The feed of each producer.
    pub(crate) fn into_feeds(self) -> Result<Vec<Feed>, WorkloadError> {
        self.error.map_or(Ok(self.feeds), Err)
    }
}

/// A segment that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub lane: usize,
    /// Bytes of the item that are used.
    pub length: usize,
    pub records: u64,
    /// Bytes of the records without framing.
    pub bytes: u64,
    pub hash: u64,
}

impl Made {
    fn new(lane: usize, header: &Header, item: &[u8]) -> Self {
        let lengths = if header.tuples { 0 } else { LENGTH_LEN as u64 * u64::from(header.count) };
        Made {
            lane,
            length: item.len(),
            records: header.count.into(),
            bytes: u64::from(header.used) - lengths,
            hash: hash(&item[HEADER_LEN..], header.sequence),
        }
    }
}

/// Segments in the order in which they are pushed.
#[derive(Debug, Default)]
pub(crate) struct Block {
    segments: Vec<Made>,
    bytes: Vec<u8>,
}

impl Block {
    fn add(&mut self, lane: usize, header: &Header, item: &[u8]) {
        self.segments.push(Made::new(lane, header, item));
        self.bytes.extend_from_slice(item);
    }

    /// The segments, each with its bytes.
    pub fn segments(&self) -> impl Iterator<Item = (&Made, &[u8])> {
        self.segments.iter().scan(&self.bytes[..], |rest, made| {
            let (item, behind) = rest.split_at(made.length);
            *rest = behind;
            Some((made, item))
        })
    }
}

enum Step {
    Block(Block),
    Failed(WorkloadError),
    End,
}

/// The segments that one producer pushes.
#[derive(Debug)]
pub(crate) struct Feed {
    steps: Receiver<Step>,
    ready: Receiver<Result<(), WorkloadError>>,
}

impl Feed {
    fn begin(prepared: &Prepared, part: usize, parts: usize, blocks: usize) -> Result<Self, WorkloadError> {
        let (push, steps) = mpsc::sync_channel(blocks);
        let (tell, ready) = mpsc::sync_channel(1);
        let maker = Maker { prepared: prepared.clone(), part, parts };
        let work = move || maker.run(Outlet { push, tell: Some(tell) });
        let thread = std::thread::Builder::new().name(format!("zsr-rows-{part}")).spawn(work);
        thread.map_err(|cause| WorkloadError::Thread { name: "the input".into(), cause })?;
        Ok(Feed { steps, ready })
    }

    fn wait(&mut self, control: &Control) -> Result<(), WorkloadError> {
        while !control.stopped() {
            match self.ready.recv_timeout(SIGNALS) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {}
                // Said before, or the maker is gone, which its steps tell.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        Ok(())
    }

    /// The next block; `None` at the end, or when somebody wants it to end.
    pub fn next(&mut self, control: &Control) -> Result<Option<Block>, WorkloadError> {
        loop {
            match self.steps.recv_timeout(SIGNALS) {
                Ok(Step::Block(block)) => return Ok(Some(block)),
                Ok(Step::Failed(error)) => return Err(error),
                Ok(Step::End) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if control.stopped() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(WorkloadError::Panicked("the input".into()));
                }
            }
        }
    }
}

/// Where a maker's blocks go.
struct Outlet {
    push: SyncSender<Step>,
    /// The caller that waits until as much is made as is kept.
    tell: Option<SyncSender<Result<(), WorkloadError>>>,
}

/// Nobody wants any more.
struct Unwanted;

impl Outlet {
    fn ready(&mut self, result: Result<(), WorkloadError>) {
        if let Some(tell) = self.tell.take() {
            // Nobody may wait any more.
            let _ = tell.send(result);
        }
    }

    fn step(&mut self, step: Step) -> Result<(), Unwanted> {
        let step = match self.push.try_send(step) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(step) | TrySendError::Disconnected(step)) => step,
        };
        self.ready(Ok(()));
        self.push.send(step).map_err(|_| Unwanted)
    }
}

/// Makes what one producer pushes.
struct Maker {
    prepared: Prepared,
    part: usize,
    parts: usize,
}

impl Maker {
    fn run(self, mut outlet: Outlet) {
        let last = match self.make(&mut outlet) {
            Ok(true) => Step::End,
            Ok(false) => return,
            Err(error) if outlet.tell.is_some() => return outlet.ready(Err(error)),
            Err(error) => Step::Failed(error),
        };
        // A caller that does not want the blocks any more needs no end.
        let _ = outlet.step(last);
        outlet.ready(Ok(()));
    }

    /// Makes blocks to the end of the input; false if nobody wants them any more.
    fn make(&self, outlet: &mut Outlet) -> Result<bool, WorkloadError> {
        let Some(mut source) = self.prepared.source(self.part, self.parts)? else { return Ok(true) };
        let mut lanes = Vec::new();
        for _ in 0..self.prepared.router.consumers() {
            lanes.push(self.packer()?);
        }
        let (mut block, mut number) = (Block::default(), 0);
        while let Some(record) = source.next()? {
            // The record borrows the source, which is asked for the place only when something is wrong with it.
            if let Err(problem) = self.pack(record, number, &mut lanes, &mut block) {
                return Err(problem.at(&source));
            }
            number += 1;
            if block.bytes.len() >= BLOCK && outlet.step(Step::Block(std::mem::take(&mut block))).is_err() {
                return Ok(false);
            }
        }
        for (n, lane) in lanes.iter_mut().enumerate() {
            lane.flush(|header, item| block.add(n, header, item));
        }
        Ok(block.segments.is_empty() || outlet.step(Step::Block(block)).is_ok())
    }

    fn packer(&self) -> Result<SegmentPacker, WorkloadError> {
        let config = SegmentConfig { producer: self.part as u32, ..SegmentConfig::default() };
        let item_size = self.prepared.item_size;
        let packer = match self.prepared.record_size() {
            Some(size) => SegmentPacker::tuples(item_size, config, size),
            None => SegmentPacker::records(item_size, config),
        };
        packer.map_err(|cause| WorkloadError::Segments { flow: self.prepared.name.clone(), cause })
    }

    #[inline]
    fn pack(
        &self,
        record: &[u8],
        number: u64,
        lanes: &mut [SegmentPacker],
        block: &mut Block,
    ) -> Result<(), Problem> {
        let Prepared { key, router, .. } = &self.prepared;
        let target = if lanes.len() == 1 {
            0
        } else {
            let bytes = key.key(record).map_err(Problem::Key)?;
            router.tuple(&bytes, key.form(), number).map_err(Problem::Route)?
        };
        let Some(lane) = lanes.get_mut(target) else { return Ok(()) };
        lane.push(record, |header, item| block.add(target, header, item)).map_err(Problem::Push)
    }
}

/// Why a record was not packed.
enum Problem {
    Key(zsr_records::KeyError),
    Route(zsr_records::RouteError),
    Push(SegmentPushError),
}

impl Problem {
    /// With the place of the record, which is looked up only now.
    fn at(self, source: &Source) -> WorkloadError {
        let place = source.place();
        match self {
            Problem::Key(cause) => WorkloadError::Key { place, cause },
            Problem::Route(cause) => WorkloadError::Route { place, cause },
            Problem::Push(SegmentPushError::RecordTooLong { record, max, item }) => {
                let (open, length) = (String::new(), record.to_string());
                WorkloadError::RecordTooLong { place, open, length, item_size: item, max }
            }
            Problem::Push(cause) => WorkloadError::Record { place, cause },
        }
    }
}
