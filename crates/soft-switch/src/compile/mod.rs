//! Turns a loaded program into code, tables and plans that run without allocation, strings or recursion.

pub(crate) mod action;
pub(crate) mod asm;
pub(crate) mod calc;
pub(crate) mod control;
pub(crate) mod ends;
pub(crate) mod expr;
mod expr_place;
mod expr_test;
mod expr_wide;
pub(crate) mod objects;
pub(crate) mod operands;
pub(crate) mod optimize;
pub(crate) mod parser;
pub(crate) mod range;
pub(crate) mod tables;
