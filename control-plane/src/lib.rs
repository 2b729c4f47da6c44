//! Controller library, state store and the zsr command line.
