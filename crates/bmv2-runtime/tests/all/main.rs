//! bmv2's runtime interface, as clients use it.

mod thrift;
mod words;
