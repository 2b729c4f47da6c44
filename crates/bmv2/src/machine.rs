//! Whether a file is a program for this machine. The system would have a shell try one for another.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Bmv2Error;

/// Class and byte order, and the machine: bytes 4 to 6 and 18 to 20 of an ELF file.
type Kind = [u8; 4];

fn head(path: &Path) -> Option<([u8; 20], usize)> {
    let mut head = [0; 20];
    let mut length = 0;
    let mut file = File::open(path).ok()?;
    while length < head.len() {
        match file.read(&mut head[length..]).ok()? {
            0 => break,
            n => length += n,
        }
    }
    Some((head, length))
}

fn kind(head: &[u8; 20]) -> Option<Kind> {
    head.starts_with(b"\x7fELF").then(|| [head[4], head[5], head[18], head[19]])
}

/// Passes what the system can start, and what can't be read, which it says better.
pub(crate) fn check(binary: &Path) -> Result<(), Bmv2Error> {
    let Some((head, length)) = head(binary) else { return Ok(()) };
    let foreign = |what: &str| Err(Bmv2Error::Foreign { binary: binary.to_owned(), what: what.to_owned() });
    if head.starts_with(b"#!") {
        return Ok(());
    }
    let own = self::head(Path::new("/proc/self/exe")).and_then(|(head, _)| kind(&head));
    match (kind(&head).filter(|_| length == head.len()), own) {
        (None, _) => foreign("it is neither a script nor an ELF file"),
        (Some(found), Some(own)) if found != own => {
            let [_, order, low, high] = found;
            let machine = if order == 2 { [high, low] } else { [low, high] };
            foreign(&format!("it is for ELF machine {}", u16::from_le_bytes(machine)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn programs_of_this_machine_and_scripts_pass() {
        check(&std::env::current_exe().unwrap()).unwrap();
        check(file(b"#!/bin/sh\n").path()).unwrap();
        check(Path::new("/nonexistent")).unwrap();
    }

    #[test]
    fn others_are_named() {
        let mut elf = std::fs::read(std::env::current_exe().unwrap()).unwrap()[..64].to_vec();
        // EM_AVR is nobody's host.
        let avr: [u8; 2] = if elf[5] == 2 { [0, 83] } else { [83, 0] };
        elf[18..20].copy_from_slice(&avr);
        let said = |bytes: &[u8]| check(file(bytes).path()).unwrap_err().to_string();
        assert!(said(&elf).contains("ELF machine 83"), "{}", said(&elf));
        assert!(said(&elf[..10]).contains("neither"));
        assert!(said(b"").contains("neither"));
        assert!(said(b"hello").contains("built for it"));
    }
}
