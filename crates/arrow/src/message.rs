//! Records of a flow of record batches: a header of this crate, then messages of the Arrow IPC format, as they stand in a stream.

use arrow_ipc::{
    Buffer, DictionaryBatch, DictionaryBatchArgs, Message as IpcMessage, MessageArgs, MessageHeader,
    MetadataVersion, RecordBatch, RecordBatchArgs,
};
use flatbuffers::FlatBufferBuilder;

use crate::plan::{ALIGNMENT, Message, padded};

/// Bytes of a record's header.
pub(crate) const HEADER: usize = 12;
const MAGIC: [u8; 4] = *b"ZARW";
const VERSION: u8 = 1;
/// In front of each message of an Arrow stream.
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];
/// Of the first record of an item: the item's and the record's own headers, then the first message where memory is aligned.
pub(crate) const FIRST: usize = padded_first();

const fn padded_first() -> usize {
    let headers = zsr_ring::segment::HEADER_LEN + zsr_ring::segment::LENGTH_LEN + HEADER;
    headers.next_multiple_of(ALIGNMENT)
}

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The schema's message.
    Schema,
    /// Messages of dictionaries, and one of rows.
    Batch,
    /// Nothing. The batches of this schema end here, and those of another may follow.
    End,
    /// A piece of a row that no item can hold.
    Piece,
    /// A whole stream without a header, its schema at its begin, behind zeros: what `push_arrow` of the Python package writes.
    Stream,
}

/// Writes a record's header to the begin of `room` so that its messages begin where memory is aligned. Says where that is.
pub(crate) fn write_header(room: &mut [u8], kind: Kind, schema: u32) -> usize {
    let address = room.as_ptr() as usize + HEADER;
    let begin = HEADER + address.next_multiple_of(ALIGNMENT) - address;
    room[..4].copy_from_slice(&MAGIC);
    room[4] = VERSION;
    room[5] = kind as u8;
    room[6..8].copy_from_slice(&(begin as u16).to_le_bytes());
    room[8..12].copy_from_slice(&schema.to_le_bytes());
    room[HEADER..begin].fill(0);
    begin
}

/// What a record's header says: what it holds, of which schema (of a whole stream nothing), and where its messages begin.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read_header(record: &[u8]) -> Result<(Kind, u32, usize), String> {
    if let Some(begin) = record.iter().take(ALIGNMENT).position(|byte| *byte != 0)
        && record[begin..].starts_with(&CONTINUATION)
    {
        return Ok((Kind::Stream, 0, begin));
    }
    let Some((header, rest)) = record.split_first_chunk::<HEADER>() else {
        return Err(format!("a record of {} B is too short for a header of {HEADER} B", record.len()));
    };
    let [m0, m1, m2, m3, version, kind, b0, b1, s0, s1, s2, s3] = *header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(format!(
            "a record begins with {:02x?}, not with `ZARW`: it holds no record batch",
            &header[..4]
        ));
    }
    if version != VERSION {
        return Err(format!("version {version} of records is not known here: expected {VERSION}"));
    }
    let kind = match kind {
        0 => Kind::Schema,
        1 => Kind::Batch,
        2 => Kind::End,
        3 => Kind::Piece,
        other => return Err(format!("kind {other} of records is not known here")),
    };
    let begin = usize::from(u16::from_le_bytes([b0, b1]));
    if begin < HEADER || begin - HEADER > rest.len() {
        return Err(format!("messages are said to begin at byte {begin} of a record of {} B", record.len()));
    }
    Ok((kind, u32::from_le_bytes([s0, s1, s2, s3]), begin))
}

/// Messages that are ready to be written: all lengths are known.
pub(crate) struct Ready<'a> {
    messages: Vec<(Vec<u8>, Message<'a>)>,
    pub(crate) len: usize,
}

impl<'a> Ready<'a> {
    pub(crate) fn new(messages: Vec<Message<'a>>) -> Self {
        let messages: Vec<_> = messages.into_iter().map(|message| (metadata(&message), message)).collect();
        let len = messages.iter().map(|(head, message)| head.len() + message.body_len()).sum();
        Ready { messages, len }
    }

    /// Writes all of them to `out`, which has [`len`](Self::len) bytes.
    pub(crate) fn write(&self, mut out: &mut [u8]) {
        let mut take = |len: usize| {
            let (first, rest) = std::mem::take(&mut out).split_at_mut(len);
            out = rest;
            first
        };
        for (head, message) in &self.messages {
            take(head.len()).copy_from_slice(head);
            for (len, fill) in &message.buffers {
                fill.write(take(*len));
                take(padded(*len) - len).fill(0);
            }
        }
    }
}

/// A message in front of its body: marker, length, flatbuffer, and what fills up to the alignment.
fn metadata(message: &Message<'_>) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let mut offset = 0;
    let place = |(len, _): &(usize, _)| {
        let buffer = Buffer::new(offset, *len as i64);
        offset += padded(*len) as i64;
        buffer
    };
    let buffers: Vec<Buffer> = message.buffers.iter().map(place).collect();
    let args = RecordBatchArgs {
        length: message.rows as i64,
        nodes: Some(fbb.create_vector(&message.nodes)),
        buffers: Some(fbb.create_vector(&buffers)),
        compression: None,
        variadicBufferCounts: (!message.variadic.is_empty()).then(|| fbb.create_vector(&message.variadic)),
    };
    let batch = RecordBatch::create(&mut fbb, &args);
    let (header_type, header) = match message.dictionary {
        None => (MessageHeader::RecordBatch, batch.as_union_value()),
        Some(id) => {
            let args = DictionaryBatchArgs { id, data: Some(batch), isDelta: false };
            (MessageHeader::DictionaryBatch, DictionaryBatch::create(&mut fbb, &args).as_union_value())
        }
    };
    let args = MessageArgs {
        version: MetadataVersion::V5,
        header_type,
        header: Some(header),
        bodyLength: message.body_len() as i64,
        custom_metadata: None,
    };
    let root = IpcMessage::create(&mut fbb, &args);
    fbb.finish(root, None);
    encapsulated(fbb.finished_data())
}

/// Bytes of the first of `messages`, which has no body.
///
/// # Errors
/// It is no message.
pub(crate) fn first_len(messages: &[u8]) -> Result<usize, String> {
    let len = match messages.first_chunk::<8>() {
        Some([0xff, 0xff, 0xff, 0xff, len @ ..]) => 8usize.saturating_add(u32::from_le_bytes(*len) as usize),
        _ => usize::MAX,
    };
    let short = || format!("no message begins with {:02x?}", &messages[..messages.len().min(8)]);
    (len <= messages.len()).then_some(len).ok_or_else(short)
}

/// A flatbuffer as a message of a stream.
pub(crate) fn encapsulated(flatbuffer: &[u8]) -> Vec<u8> {
    let len = padded(CONTINUATION.len() + 4 + flatbuffer.len());
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(&CONTINUATION);
    message.extend_from_slice(&((len - 8) as u32).to_le_bytes());
    message.extend_from_slice(flatbuffer);
    message.resize(len, 0);
    message
}
