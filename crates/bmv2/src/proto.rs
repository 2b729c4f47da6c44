//! What prost made of proto/.
#![allow(missing_docs, reason = "generated; proto/ has the comments")]

tonic::include_proto!("p4.bm");
