//! P4Info from and to files: text (`.txt`, `.txtpb`, `.pbtxt`, anything else) or binary (`.bin`, `.pb`).

use std::path::{Path, PathBuf};
use std::{fs, io};

use prost::Message;

use crate::p4::config::v1::P4Info;
use crate::text::{self, TextError};

/// A P4Info file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum P4InfoError {
    /// The file can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not P4Info in text format.
    #[error("{}, {source}; make it again with p4c --p4runtime-files {}", path.display(), path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: TextError,
    },
    /// The file is not P4Info in binary format.
    #[error("{}: {source}; make it again with p4c --p4runtime-files {}", path.display(), path.display())]
    Binary {
        /// The file.
        path: PathBuf,
        /// What is wrong with the bytes.
        source: prost::DecodeError,
    },
    /// The file has no object at all, which no compiled program is like.
    #[error("{}: no table, action or other object in it; is this the right file?", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

fn is_binary(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "bin" || extension == "pb")
}

/// Reads P4Info in text format.
///
/// # Errors
/// With line and column, see [`text::parse`].
pub fn parse(text: &str) -> Result<P4Info, TextError> {
    text::parse(text)
}

/// Reads a P4Info file as p4c writes it, binary if its name ends in `.bin` or `.pb`, text otherwise.
///
/// # Errors
/// If the file can't be read, is damaged, or has nothing in it.
pub fn load(path: &Path) -> Result<P4Info, P4InfoError> {
    let bytes = fs::read(path).map_err(|source| P4InfoError::Io { path: path.into(), source })?;
    let info = if is_binary(path) {
        P4Info::decode(&bytes[..]).map_err(|source| P4InfoError::Binary { path: path.into(), source })?
    } else {
        let text = String::from_utf8(bytes).map_err(|error| P4InfoError::Io {
            path: path.into(),
            source: io::Error::new(io::ErrorKind::InvalidData, error),
        })?;
        parse(&text).map_err(|source| P4InfoError::Text { path: path.into(), source })?
    };
    if info == P4Info::default() {
        return Err(P4InfoError::Empty { path: path.into() });
    }
    Ok(info)
}

/// Writes a P4Info file in the format that its name asks for, see [`load`].
///
/// # Errors
/// If the file can't be written.
pub fn save(info: &P4Info, path: &Path) -> Result<(), P4InfoError> {
    let bytes = if is_binary(path) {
        info.encode_to_vec()
    } else {
        text::format(info).map_err(|source| P4InfoError::Text { path: path.into(), source })?.into_bytes()
    };
    fs::write(path, bytes).map_err(|source| P4InfoError::Io { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::config::v1::{Preamble, Table};

    fn info() -> P4Info {
        let preamble = Preamble { id: 0x0200_0001, name: "ingress.t".into(), ..Preamble::default() };
        P4Info {
            tables: vec![Table { preamble: Some(preamble), size: 16, ..Table::default() }],
            ..P4Info::default()
        }
    }

    #[test]
    fn files_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x.p4info.txtpb", "x.p4info.bin"] {
            let path = folder.path().join(name);
            save(&info(), &path).unwrap();
            assert_eq!(load(&path).unwrap(), info(), "{name}");
        }
    }

    #[test]
    fn damage_is_reported_with_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.p4info.txtpb");
        fs::write(&path, "tables {\n  size: 16\n  heigth: 3\n}\n").unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("x.p4info.txtpb, line 3, column 3: ") && error.contains("heigth"), "{error}");

        fs::write(&path, [0xff, 0xfe, b'a']).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("x.p4info.txtpb"));
        fs::write(&path, "").unwrap();
        assert!(matches!(load(&path), Err(P4InfoError::Empty { .. })));
        let binary = folder.path().join("x.bin");
        fs::write(&binary, [0x12, 0x7f, 1]).unwrap();
        assert!(matches!(load(&binary), Err(P4InfoError::Binary { .. })));
        assert!(matches!(load(&folder.path().join("none")), Err(P4InfoError::Io { .. })));
    }
}
