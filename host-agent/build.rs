//! Declares the `loom` configuration flag, so that the compiler can tell it from a typing mistake.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(loom)");
}
