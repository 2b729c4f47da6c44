//! The hash that ties compiled P4 artifacts to their sources.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// SHA-256 (lower-case hex) over the `.p4` files below `p4_dir` that the artifacts are compiled from, without those of
/// other architectures. Hashed for each file: path relative to `p4_dir`, a zero byte, length, content, in order of
/// path.
///
/// # Errors
/// The system's, of a file or folder that can't be read.
pub fn hash_of_sources(p4_dir: &Path) -> std::io::Result<String> {
    let mut files = Vec::new();
    collect(p4_dir, &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    for path in files {
        let text = std::fs::read(&path)?;
        let relative = path.strip_prefix(p4_dir).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        hash.update(relative.as_bytes());
        hash.update([0]);
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(&text);
    }
    Ok(hex(&hash.finalize()))
}

/// SHA-256 of `bytes`, lower-case hex.
#[allow(dead_code, reason = "the build script hashes sources only")]
pub fn hash_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            let of_arch = path.parent().is_some_and(|parent| parent.ends_with("arch"));
            if !of_arch || path.ends_with("v1model") {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|e| e == "p4") {
            files.push(path);
        }
    }
    Ok(())
}
