//! P4Runtime messages and service, from our own .proto text.
