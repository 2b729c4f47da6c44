//! Handles for items of one Rust type: the size is checked once, and push and pop are moves of a value.

use std::marker::PhantomData;
use std::time::Duration;

use bytemuck::Pod;

use super::consumer::Consumer;
use super::error::{PopError, PushError};
use super::producer::Producer;

/// A type's size differs from a ring's item size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("type {type_name} has {type_size} B, but this ring's items have {item} B")]
pub struct TypeSizeError {
    /// The type.
    pub type_name: &'static str,
    /// The type's size, bytes.
    pub type_size: usize,
    /// The ring's item size, bytes.
    pub item: u32,
}

/// A [`Producer`] of values of plain old data.
#[derive(Debug)]
pub struct TypedProducer<T>(Producer, PhantomData<fn(T)>);

/// A [`Consumer`] of values of plain old data.
#[derive(Debug)]
pub struct TypedConsumer<T>(Consumer, PhantomData<fn() -> T>);

fn check<T>(item: u32) -> Result<(), TypeSizeError> {
    if size_of::<T>() == item as usize {
        return Ok(());
    }
    Err(TypeSizeError { type_name: std::any::type_name::<T>(), type_size: size_of::<T>(), item })
}

impl Producer {
    /// The same handle for values of `T`.
    ///
    /// # Errors
    /// The sizes differ; the handle is dropped without ending the stream.
    pub fn typed<T: Pod>(self) -> Result<TypedProducer<T>, TypeSizeError> {
        match check::<T>(self.spec().item_size()) {
            Ok(()) => Ok(TypedProducer(self, PhantomData)),
            Err(error) => {
                self.detach();
                Err(error)
            }
        }
    }
}

impl Consumer {
    /// The same handle for values of `T`.
    ///
    /// # Errors
    /// The sizes differ; the handle is detached.
    pub fn typed<T: Pod>(self) -> Result<TypedConsumer<T>, TypeSizeError> {
        match check::<T>(self.spec().item_size()) {
            Ok(()) => Ok(TypedConsumer(self, PhantomData)),
            Err(error) => {
                self.detach();
                Err(error)
            }
        }
    }
}

impl<T: Pod> TypedProducer<T> {
    /// Pushes one value if there is room.
    ///
    /// # Errors
    /// As [`Producer::try_push`].
    #[inline(always)]
    pub fn try_push(&mut self, value: T) -> Result<(), PushError> {
        self.0.try_push_value(value)
    }

    /// Pushes one value, waiting for room as long as it takes.
    ///
    /// # Errors
    /// As [`Producer::push`].
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), PushError> {
        match self.try_push(value) {
            Err(PushError::Full) => self.0.push(bytemuck::bytes_of(&value)),
            done => done,
        }
    }

    /// Pushes one value, waiting for room for at most `time`.
    ///
    /// # Errors
    /// As [`Producer::push_timeout`].
    pub fn push_timeout(&mut self, value: T, time: Duration) -> Result<(), PushError> {
        self.0.push_timeout(bytemuck::bytes_of(&value), time)
    }

    /// Ends the stream, as [`Producer::close`].
    pub fn close(self) {
        self.0.close();
    }

    /// The handle for raw bytes.
    pub fn into_inner(self) -> Producer {
        self.0
    }
}

impl<T: Pod> TypedConsumer<T> {
    /// Pops one value if there is one.
    ///
    /// # Errors
    /// As [`Consumer::try_pop`].
    #[inline(always)]
    pub fn try_pop(&mut self) -> Result<T, PopError> {
        self.0.try_pop_value()
    }

    /// Pops one value, waiting for it as long as it takes.
    ///
    /// # Errors
    /// As [`Consumer::pop`].
    #[inline]
    pub fn pop(&mut self) -> Result<T, PopError> {
        match self.try_pop() {
            Err(PopError::Empty) => {
                let mut value = T::zeroed();
                self.0.pop(bytemuck::bytes_of_mut(&mut value))?;
                Ok(value)
            }
            done => done,
        }
    }

    /// Pops one value, waiting for it for at most `time`.
    ///
    /// # Errors
    /// As [`Consumer::pop_timeout`].
    pub fn pop_timeout(&mut self, time: Duration) -> Result<T, PopError> {
        let mut value = T::zeroed();
        self.0.pop_timeout(bytemuck::bytes_of_mut(&mut value), time)?;
        Ok(value)
    }

    /// The handle for raw bytes.
    pub fn into_inner(self) -> Consumer {
        self.0
    }
}
