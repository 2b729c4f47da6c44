//! The compiled program: bmv2 JSON and P4Info, with the manifest that ties them to each other and to the sources.

use p4runtime_proto::p4::config::v1::P4Info;
use serde::Deserialize;
use std::path::{Path, PathBuf};

const JSON: &str = "zsr-v1model.json";
const P4INFO: &str = "zsr-v1model.p4info.txtpb";
const MANIFEST: &str = "zsr-v1model.manifest.json";

/// A switch's program.
#[derive(Clone, Debug)]
pub struct Artifacts {
    /// bmv2 JSON, the device configuration of a v1model switch.
    pub json: Vec<u8>,
    /// The program's tables, actions, counters and digests.
    pub p4info: P4Info,
    /// SHA-256 of the P4 sources that it was compiled from, lower-case hex.
    pub sources_sha256: String,
}

/// The reason why the compiled program can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// A file is missing or unreadable.
    #[error("{path}: {source}. The folder of --artifacts holds {JSON}, {P4INFO} and {MANIFEST}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The manifest does not parse.
    #[error("{path}: the manifest is damaged: {reason}; run `cargo xtask p4`")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        reason: String,
    },
    /// A file differs from the one that the manifest names.
    #[error("{path} is damaged: SHA-256 is {found}, the manifest says {expected}; run `cargo xtask p4`")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Hash of the file.
        found: String,
        /// Hash that the manifest names.
        expected: String,
    },
    /// The built-in program is older than the sources in the tree.
    #[error(
        "the built-in P4 program is stale: compiled from sources {compiled}, but p4/ is now {current}; run `cargo xtask p4`"
    )]
    Stale {
        /// Hash of the sources that were compiled.
        compiled: String,
        /// Hash of the sources when this binary was built.
        current: &'static str,
    },
    /// The P4Info does not parse.
    #[error("{path}: not a P4Info: {reason}")]
    P4Info {
        /// The file.
        path: PathBuf,
        /// The parser's error, with its line.
        reason: String,
    },
}

#[derive(Deserialize)]
struct Manifest {
    sources_sha256: String,
    json_sha256: String,
    p4info_sha256: String,
}

impl Artifacts {
    /// The program compiled into this binary.
    pub fn built_in() -> Result<Self, ArtifactError> {
        let artifacts =
            Self::checked(Path::new("(built-in)"), zsr_p4::JSON.to_vec(), zsr_p4::P4INFO, zsr_p4::MANIFEST)?;
        let current = zsr_p4::SOURCES_SHA256;
        if artifacts.sources_sha256 != current {
            return Err(ArtifactError::Stale { compiled: artifacts.sources_sha256, current });
        }
        Ok(artifacts)
    }

    /// The program in folder `dir`, under the names that `cargo xtask p4` gives.
    pub fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let read = |name: &str| {
            let path = dir.join(name);
            std::fs::read(&path).map_err(|source| ArtifactError::Io { path, source })
        };
        Self::checked(dir, read(JSON)?, &read(P4INFO)?, &read(MANIFEST)?)
    }

    fn checked(dir: &Path, json: Vec<u8>, p4info: &[u8], manifest: &[u8]) -> Result<Self, ArtifactError> {
        let manifest: Manifest = serde_json::from_slice(manifest)
            .map_err(|e| ArtifactError::Manifest { path: dir.join(MANIFEST), reason: e.to_string() })?;
        for (name, bytes, expected) in
            [(JSON, json.as_slice(), &manifest.json_sha256), (P4INFO, p4info, &manifest.p4info_sha256)]
        {
            let found = zsr_p4::sources::hash_of(bytes);
            if found != *expected {
                return Err(ArtifactError::Damaged {
                    path: dir.join(name),
                    found,
                    expected: expected.clone(),
                });
            }
        }
        let bad = |reason: String| ArtifactError::P4Info { path: dir.join(P4INFO), reason };
        let text = std::str::from_utf8(p4info).map_err(|e| bad(e.to_string()))?;
        let p4info = p4runtime_proto::p4info::parse(text).map_err(|e| bad(e.to_string()))?;
        Ok(Artifacts { json, p4info, sources_sha256: manifest.sources_sha256 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_to(dir: &Path) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/artifacts");
        for name in [JSON, P4INFO, MANIFEST] {
            std::fs::copy(source.join(name), dir.join(name)).unwrap();
        }
    }

    #[test]
    fn the_built_in_program_fits_its_sources() {
        let a = Artifacts::built_in().unwrap();
        assert!(a.p4info.tables.len() > 10);
    }

    #[test]
    fn a_damaged_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        copy_to(dir.path());
        assert!(Artifacts::load(dir.path()).is_ok());
        let json = dir.path().join(JSON);
        let mut bytes = std::fs::read(&json).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&json, bytes).unwrap();
        let e = Artifacts::load(dir.path()).unwrap_err().to_string();
        assert!(e.contains(JSON) && e.contains("damaged"), "{e}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let e = Artifacts::load(dir.path()).unwrap_err().to_string();
        assert!(e.contains(JSON), "{e}");
    }

    #[test]
    fn topologies_are_held_to_what_the_program_has_room_for() {
        use zsr_topology::limits::{MAX_MEMBERS, MAX_QPS, MAX_WORKERS};
        let info = Artifacts::built_in().unwrap().p4info;
        let size = |name: &str| {
            let tables = info.tables.iter().filter_map(|t| t.preamble.as_ref().map(|p| (&p.alias, t.size)));
            let mut named = tables.filter(|(alias, _)| *alias == name);
            usize::try_from(named.next().expect(name).1).unwrap()
        };
        // Number 0 is not used, and connection 1 is for doorbells.
        assert_eq!((MAX_WORKERS, MAX_QPS), (size("workers") - 1, size("peers") - 2));
        let actions = info.actions.iter().flat_map(|a| &a.params);
        let bits: Vec<i32> = actions.filter(|p| p.name == "member_bit").map(|p| p.bitwidth).collect();
        assert_eq!(bits, [MAX_MEMBERS as i32]);
    }
}
