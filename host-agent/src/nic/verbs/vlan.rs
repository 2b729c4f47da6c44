//! Which VLAN a network interface is on: the kernel tags what a GID of that interface sends.

use std::fs;
use std::path::Path;

/// Where the kernel shows VLAN interfaces, a file each, if there are any.
pub(super) const FOLDER: &str = "/proc/net/vlan";

/// The VLAN of an interface; `None`: it is no VLAN interface. `folder` is [`FOLDER`].
pub(super) fn of(folder: &Path, interface: &str) -> Option<u16> {
    // The first line is "eth1.100  VID: 100\t REORDER_HDR: 1  dev->priv_flags: 1021".
    let text = fs::read_to_string(folder.join(interface)).ok()?;
    text.split("VID:").nth(1)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vlan_stands_in_the_first_line() {
        let folder = tempfile::TempDir::new().unwrap();
        let text = "storage  VID: 100\t REORDER_HDR: 1  dev->priv_flags: 1021\n  total frames received  0\nDevice: eth1\n";
        fs::write(folder.path().join("storage"), text).unwrap();
        fs::write(folder.path().join("odd"), "no such line\n").unwrap();
        assert_eq!(of(folder.path(), "storage"), Some(100));
        assert_eq!(of(folder.path(), "odd"), None);
        assert_eq!(of(folder.path(), "eth1"), None);
        assert_eq!(of(&folder.path().join("none"), "storage"), None);
    }
}
