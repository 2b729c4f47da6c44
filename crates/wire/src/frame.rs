//! Frame buffers: one Ethernet frame each, with headroom so that headers can grow in front of an unmoved payload.

/// Free bytes in front of a fresh frame: room for headers that a switch adds.
pub const HEADROOM: usize = 128;
/// Longest Ethernet frame that a buffer holds, in bytes (no FCS): a 9000-byte MTU with room to spare.
pub const MAX_FRAME: usize = 9216;
const CAPACITY: usize = HEADROOM + MAX_FRAME;

/// One Ethernet frame (no preamble, no FCS) in a fixed buffer of its own.
pub struct Frame {
    buf: Box<[u8; CAPACITY]>,
    start: u32,
    end: u32,
}

impl Frame {
    /// An empty frame in a new buffer. Allocates: take frames from a [`FramePool`] on a packet path.
    pub fn new() -> Self {
        let buf = vec![0u8; CAPACITY].into_boxed_slice().try_into().expect("length is CAPACITY");
        Frame { buf, start: HEADROOM as u32, end: HEADROOM as u32 }
    }

    /// A frame holding a copy of `bytes`, or `None` if they are longer than [`MAX_FRAME`].
    pub fn copy_from(bytes: &[u8]) -> Option<Self> {
        let mut f = Frame::new();
        f.append(bytes).then_some(f)
    }

    /// Length of the frame in bytes.
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether the frame holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The frame's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buf[self.start as usize..self.end as usize]
    }

    /// The frame's bytes, mutable.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buf[self.start as usize..self.end as usize]
    }

    /// Empties the frame and gives it `headroom` free bytes in front (at most the buffer's size).
    pub fn reset(&mut self) {
        self.start = HEADROOM as u32;
        self.end = HEADROOM as u32;
    }

    /// Appends `bytes`; `false`, and nothing changed, if they do not fit.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        match self.grow_back(bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }

    /// Makes the frame `n` bytes longer at its end and returns the new part, whose content is undefined (old
    /// frame bytes). `None`, and nothing changed, if it does not fit.
    #[inline]
    pub fn grow_back(&mut self, n: usize) -> Option<&mut [u8]> {
        let end = self.end as usize;
        if n > CAPACITY - end {
            return None;
        }
        self.end = (end + n) as u32;
        Some(&mut self.buf[end..end + n])
    }

    /// Makes the frame `n` bytes longer at its front and returns the new part (content undefined). `None`, and
    /// nothing changed, if there is too little headroom.
    #[inline]
    pub fn grow_front(&mut self, n: usize) -> Option<&mut [u8]> {
        let start = self.start as usize;
        if n > start {
            return None;
        }
        self.start = (start - n) as u32;
        Some(&mut self.buf[start - n..start])
    }

    /// Drops `n` bytes from the front (at most all of them).
    #[inline]
    pub fn trim_front(&mut self, n: usize) {
        self.start = (self.start + n as u32).min(self.end);
    }

    /// Cuts the frame to at most `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len as u32);
    }
}

impl Default for Frame {
    fn default() -> Self {
        Frame::new()
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({} bytes)", self.len())
    }
}

/// A last-in-first-out store of frame buffers, so that the buffer used next is the one still in cache.
#[derive(Default)]
pub struct FramePool {
    free: Vec<Frame>,
}

impl FramePool {
    /// A pool that holds `n` frames from the start.
    pub fn with_frames(n: usize) -> Self {
        FramePool { free: (0..n).map(|_| Frame::new()).collect() }
    }

    /// An empty frame; allocates only if the pool has run dry.
    #[inline]
    pub fn take(&mut self) -> Frame {
        match self.free.pop() {
            Some(mut f) => {
                f.reset();
                f
            }
            None => Frame::new(),
        }
    }

    /// Gives a frame back.
    #[inline]
    pub fn put(&mut self, frame: Frame) {
        self.free.push(frame);
    }

    /// Frames that wait in the pool.
    pub fn available(&self) -> usize {
        self.free.len()
    }
}
