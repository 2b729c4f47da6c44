//! Turns a loaded program into code, tables and plans that run without allocation, strings or recursion.

pub(crate) mod action;
pub(crate) mod asm;
pub(crate) mod calc;
pub(crate) mod control;
pub(crate) mod expr;
pub(crate) mod operands;
pub(crate) mod optimize;
pub(crate) mod parser;
pub(crate) mod range;
pub(crate) mod tables;
