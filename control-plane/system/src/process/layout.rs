//! Arguments of `zsr up` beside the topology: written into the system's folder for all of its processes.

use std::io;
use std::path::Path;

use zsr::{Place, PlaceError};
use zsr_topology::Layout;

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> PlaceError + '_ {
    move |source| PlaceError::Io { path: path.to_owned(), source }
}

/// The layout in the file at `place`, if there is one.
///
/// # Errors
/// The file can't be read.
pub fn read_layout(place: &Place) -> Result<Option<Layout>, PlaceError> {
    let path = place.layout_file();
    match std::fs::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io_at(&path)(e)),
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|e| io_at(&path)(e.into())),
    }
}

/// Writes the layout's file.
///
/// # Errors
/// The system's error.
pub fn write_layout(place: &Place, layout: &Layout) -> Result<(), PlaceError> {
    let path = place.layout_file();
    let text = serde_json::to_vec(layout).map_err(|e| io_at(&path)(e.into()))?;
    write_whole(&path, &text).map_err(io_at(&path))
}

/// Writes a file completely or not at all: whoever reads it meanwhile has the old or the new one.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, bytes).and_then(|()| std::fs::rename(&fresh, path))
}
