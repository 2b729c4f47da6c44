//! The shape of a ring, checked once, so that nothing behind it has to check again.

use super::abi::{ByteOrder, Geometry, GeometryError};

/// Shape of a ring: item size, ring size, byte order of its control words. Always valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RingSpec {
    geometry: Geometry,
    order: ByteOrder,
}

impl RingSpec {
    /// A ring of `ring_size` bytes in items of `item_size` bytes, control words in native byte order.
    ///
    /// # Errors
    /// [`GeometryError`] when a size is out of range or no power of two, or an item exceeds the ring.
    pub fn new(item_size: u64, ring_size: u64) -> Result<Self, GeometryError> {
        Ok(Self { geometry: Geometry::new(ring_size, item_size)?, order: ByteOrder::NATIVE })
    }

    /// The same shape with control words in `order`.
    #[must_use]
    pub const fn with_byte_order(mut self, order: ByteOrder) -> Self {
        self.order = order;
        self
    }

    /// Sizes without the byte order.
    pub const fn geometry(self) -> Geometry {
        self.geometry
    }

    /// Bytes per item.
    pub const fn item_size(self) -> u32 {
        self.geometry.item()
    }

    /// Bytes of items in the ring.
    pub const fn ring_size(self) -> u32 {
        self.geometry.size()
    }

    /// Items in the ring.
    pub const fn capacity(self) -> u32 {
        self.geometry.capacity()
    }

    /// Byte order of the control words.
    pub const fn byte_order(self) -> ByteOrder {
        self.order
    }

    /// Bytes of memory that the ring needs: the control page and the items.
    pub const fn memory_len(self) -> usize {
        self.geometry.region_len() as usize
    }

    /// Largest counter not above `value` that is a multiple of the item size.
    pub(crate) const fn align_down(self, value: u32) -> u32 {
        value & !(self.item_size() - 1)
    }

    /// Bytes from the item that `counter` points at to the end of the ring.
    pub(crate) const fn to_wrap(self, counter: u32) -> u32 {
        self.geometry.to_wrap(counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_at_the_limits() {
        let shape = |item, ring| RingSpec::new(item, ring).expect("legal");
        assert_eq!(shape(4, 4).capacity(), 1);
        assert_eq!(shape(1 << 20, 1 << 30).capacity(), 1 << 10);
        assert_eq!(shape(64, 4096).memory_len(), 8192);
        assert_eq!(shape(64, 4096).align_down(u32::MAX), u32::MAX - 63);
        assert_eq!(RingSpec::new(24, 4096), Err(GeometryError::Item(24)));
        assert_eq!(RingSpec::new(64, 4095), Err(GeometryError::Size(4095)));
    }
}
