//! The code that prost made of proto/.
#![allow(missing_docs, reason = "generated; proto/ has the comments")]

include!("generated/p4.bm.rs");
