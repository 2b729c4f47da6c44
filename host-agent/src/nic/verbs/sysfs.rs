//! Which device, port and GID to use: read from sysfs, where the kernel shows all of them with their types.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use zsr_wire::Mac;

use super::error;
use crate::nic::NicError;

/// Where the kernel shows RDMA devices.
pub(super) const CLASS: &str = "/sys/class/infiniband";
/// Where it shows what programs open to use them.
const VERBS: &str = "infiniband_verbs";
/// Where it shows network interfaces.
pub(super) const NET: &str = "/sys/class/net";
const ROCE_V2: &str = "RoCE v2";

/// The user's wishes; all that is `None` is chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerbsConfig {
    /// Name of the RDMA device, as `rdma link` shows it.
    pub device: Option<String>,
    /// The device's port, from 1.
    pub port: Option<u8>,
    /// Index of the GID in the port's table.
    pub gid_index: Option<u8>,
    /// The IPv4 address that the GID must have.
    pub ip: Option<Ipv4Addr>,
}

/// The device that is used, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub device: String,
    pub port: u8,
    pub gid_index: u8,
    pub ip: Ipv4Addr,
    pub mac: Mac,
    /// The network interface behind the GID.
    pub interface: String,
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn numbers(path: &Path) -> Vec<u8> {
    let mut numbers: Vec<u8> = names(path).iter().filter_map(|n| n.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

fn mac(text: &str) -> Option<Mac> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(Mac(bytes))
}

/// Chooses device, port and GID. `class` and `net` are [`CLASS`] and [`NET`].
pub(super) fn choose(class: &Path, net: &Path, wanted: &VerbsConfig) -> Result<Choice, NicError> {
    choose_at(class, net, wanted, None)
}

/// The index at which the GID in use is now, which was at `index` before. It moves when its address is taken away and given again:
/// the old place stays taken for as long as queue pairs name it.
pub(super) fn locate(class: &Path, net: &Path, used: &Choice, index: u8) -> Result<u8, NicError> {
    let at = |gid_index| {
        let (device, port, ip) = (Some(used.device.clone()), Some(used.port), Some(used.ip));
        choose_at(class, net, &VerbsConfig { device, port, gid_index, ip }, Some(&used.interface))
    };
    // Where it was, first: a NIC's table may have hundreds of places.
    let found = at(Some(index)).or_else(|_| at(None))?;
    if found.mac != used.mac {
        return Err(error::other_mac(&used.device, &used.interface, used.mac, found.mac));
    }
    Ok(found.gid_index)
}

/// Whether programs can use a device. A device that is being taken away is hidden from them first, and may wait until
/// they let go of it.
pub(super) fn is_there(class: &Path, device: &str) -> bool {
    let verbs = class.with_file_name(VERBS);
    names(&verbs).iter().any(|name| text(&verbs.join(name).join("ibdev")).as_deref() == Some(device))
}

/// As [`choose`], at this network interface if one is named.
fn choose_at(
    class: &Path,
    net: &Path,
    wanted: &VerbsConfig,
    interface: Option<&str>,
) -> Result<Choice, NicError> {
    let found = names(class);
    let devices: Vec<&String> =
        found.iter().filter(|name| wanted.device.as_ref().is_none_or(|w| w == *name)).collect();
    // Of several devices the first that can be used; the error is that of the first that can't.
    let mut first = None;
    for device in devices {
        let ports = class.join(device).join("ports");
        let numbers: Vec<u8> =
            numbers(&ports).into_iter().filter(|n| wanted.port.is_none_or(|w| w == *n)).collect();
        if numbers.is_empty() {
            let which = wanted.port.map_or_else(|| "port".into(), |n| format!("port {n}"));
            first.get_or_insert(error::no_device(&format!("{which} at the RDMA device {device}"), &found));
        }
        for port in numbers {
            match choose_gid(&ports.join(port.to_string()), net, device, port, wanted, interface) {
                Ok(choice) => return Ok(choice),
                Err(e) => first.get_or_insert(e),
            };
        }
    }
    Err(first.unwrap_or_else(|| {
        let which =
            wanted.device.as_ref().map_or_else(|| "RDMA device".into(), |n| format!("RDMA device {n}"));
        error::no_device(&which, &found)
    }))
}

fn choose_gid(
    folder: &Path,
    net: &Path,
    device: &str,
    port: u8,
    wanted: &VerbsConfig,
    at_interface: Option<&str>,
) -> Result<Choice, NicError> {
    // "4: ACTIVE"
    let state = text(&folder.join("state")).unwrap_or_else(|| "unknown".into());
    if !state.ends_with("ACTIVE") {
        return Err(error::port_down(device, port, state.rsplit(' ').next().unwrap_or_default()));
    }
    let at = |what: &str, index: u8| text(&folder.join(what).join(index.to_string()));
    for gid_index in numbers(&folder.join("gids")) {
        if wanted.gid_index.is_some_and(|w| w != gid_index) {
            continue;
        }
        let gid = at("gids", gid_index).and_then(|t| t.parse::<Ipv6Addr>().ok());
        let Some(ip) = gid.and_then(|gid| gid.to_ipv4_mapped()) else { continue };
        // Unused entries have no type.
        if at("gid_attrs/types", gid_index).as_deref() != Some(ROCE_V2) || wanted.ip.is_some_and(|w| w != ip)
        {
            continue;
        }
        let Some(interface) = at("gid_attrs/ndevs", gid_index) else { continue };
        if at_interface.is_some_and(|wanted| wanted != interface) {
            continue;
        }
        let Some(mac) = text(&net.join(&interface).join("address")).and_then(|t| mac(&t)) else { continue };
        return Ok(Choice { device: device.to_owned(), port, gid_index, ip, mac, interface });
    }
    let which = match (wanted.gid_index, wanted.ip) {
        (Some(index), _) => format!("RoCEv2 GID with an IPv4 address at index {index}"),
        (None, Some(ip)) => format!("RoCEv2 GID with the address {ip}"),
        (None, None) => "RoCEv2 GID with an IPv4 address".into(),
    };
    Err(error::no_gid(device, port, &which))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    struct Sys(TempDir);

    impl Sys {
        fn new() -> Sys {
            let sys = Sys(TempDir::new().unwrap());
            fs::create_dir_all(sys.0.path().join("ib")).unwrap();
            sys.write("net/eth0/address", "52:54:00:00:00:01\n");
            sys
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn device(&self, name: &str, state: &str, gids: &[(&str, &str)]) {
            self.write(&format!("ib/{name}/ports/1/state"), state);
            fs::create_dir_all(self.0.path().join(format!("ib/{name}/ports/1/gids"))).unwrap();
            for (i, (gid, kind)) in gids.iter().enumerate() {
                self.write(&format!("ib/{name}/ports/1/gids/{i}"), gid);
                self.write(&format!("ib/{name}/ports/1/gid_attrs/types/{i}"), kind);
                self.write(&format!("ib/{name}/ports/1/gid_attrs/ndevs/{i}"), "eth0\n");
            }
        }

        fn choose(&self, wanted: &VerbsConfig) -> Result<Choice, NicError> {
            choose(&self.0.path().join("ib"), &self.0.path().join("net"), wanted)
        }
    }

    const LINK_LOCAL: &str = "fe80:0000:0000:0000:5054:00ff:fe00:0001\n";
    const IPV4: &str = "0000:0000:0000:0000:0000:ffff:0a4d:0001\n";

    #[test]
    fn the_roce_v2_gid_with_an_ipv4_address_is_taken() {
        let sys = Sys::new();
        sys.device(
            "mlx5_0",
            "4: ACTIVE\n",
            &[
                (LINK_LOCAL, "IB/RoCE v1\n"),
                (LINK_LOCAL, "RoCE v2\n"),
                (IPV4, "IB/RoCE v1\n"),
                (IPV4, "RoCE v2\n"),
            ],
        );
        let choice = sys.choose(&VerbsConfig::default()).unwrap();
        assert_eq!((choice.port, choice.gid_index, &*choice.interface), (1, 3, "eth0"));
        assert_eq!((choice.ip, choice.mac), ([10, 77, 0, 1].into(), Mac([0x52, 0x54, 0, 0, 0, 1])));
        let other = VerbsConfig { ip: Some([10, 77, 0, 9].into()), ..VerbsConfig::default() };
        assert!(sys.choose(&other).unwrap_err().message.contains("10.77.0.9"));
        let v1 = VerbsConfig { gid_index: Some(2), ..VerbsConfig::default() };
        assert!(sys.choose(&v1).unwrap_err().message.contains("index 2"));
    }

    #[test]
    fn a_gid_that_moves_is_found_again() {
        let sys = Sys::new();
        sys.device("rxe0", "4: ACTIVE\n", &[(LINK_LOCAL, "RoCE v2\n"), (IPV4, "RoCE v2\n")]);
        let used = sys.choose(&VerbsConfig::default()).unwrap();
        let locate = || locate(&sys.0.path().join("ib"), &sys.0.path().join("net"), &used, used.gid_index);
        assert_eq!(locate(), Ok(1));
        // As the kernel shows a place that is taken still, and one that is free.
        const NONE: &str = "0000:0000:0000:0000:0000:0000:0000:0000\n";
        sys.device("rxe0", "4: ACTIVE\n", &[(LINK_LOCAL, "RoCE v2\n"), (NONE, ""), (NONE, "")]);
        let gone = locate().unwrap_err().message;
        assert!(gone.contains("10.77.0.1") && gone.contains("ip addr add"), "{gone}");
        // The same address at another interface, a VLAN's say, is another GID.
        let moved = [(LINK_LOCAL, "RoCE v2\n"), (NONE, ""), (IPV4, "RoCE v2\n"), (IPV4, "RoCE v2\n")];
        sys.device("rxe0", "4: ACTIVE\n", &moved);
        sys.write("ib/rxe0/ports/1/gid_attrs/ndevs/2", "eth0.7\n");
        sys.write("net/eth0.7/address", "52:54:00:00:00:01\n");
        assert_eq!(locate(), Ok(3));
        sys.write("net/eth0/address", "52:54:00:00:00:09\n");
        let other = locate().unwrap_err().message;
        assert!(other.contains("52:54:00:00:00:09") && other.contains("eth0"), "{other}");
    }

    #[test]
    fn a_device_that_is_being_taken_away_is_not_there() {
        let sys = Sys::new();
        sys.device("rxe0", "4: ACTIVE\n", &[(IPV4, "RoCE v2\n")]);
        let is_there = || is_there(&sys.0.path().join("ib"), "rxe0");
        sys.write("infiniband_verbs/abi_version", "6\n");
        assert!(!is_there());
        sys.write("infiniband_verbs/uverbs1/ibdev", "rxe0\n");
        assert!(is_there());
    }

    #[test]
    fn what_can_not_be_used_is_said_with_what_to_do() {
        let sys = Sys::new();
        let none = sys.choose(&VerbsConfig::default()).unwrap_err().message;
        assert!(none.contains("rdma link add"), "{none}");

        sys.device("ib0", "4: ACTIVE\n", &[(LINK_LOCAL, "IB/RoCE v1\n")]);
        let no_ip = sys.choose(&VerbsConfig::default()).unwrap_err();
        assert!(no_ip.kind == crate::nic::NicErrorKind::Invalid && no_ip.message.contains("ip addr add"));

        sys.device("up0", "4: ACTIVE\n", &[(IPV4, "RoCE v2\n")]);
        let used = sys.choose(&VerbsConfig { device: Some("up0".into()), ..VerbsConfig::default() }).unwrap();
        let locate =
            || locate(&sys.0.path().join("ib"), &sys.0.path().join("net"), &used, 0).map_err(|e| e.message);
        assert_eq!(locate(), Ok(0));
        sys.device("up0", "1: DOWN\n", &[(IPV4, "RoCE v2\n")]);
        assert!(locate().unwrap_err().contains("DOWN"));
        fs::remove_dir_all(sys.0.path().join("ib/up0")).unwrap();
        assert!(locate().unwrap_err().contains("no RDMA device up0"));

        let missing = VerbsConfig { device: Some("mlx5_7".into()), ..VerbsConfig::default() };
        let missing = sys.choose(&missing).unwrap_err().message;
        assert!(missing.contains("mlx5_7") && missing.contains("there are: ib0"), "{missing}");

        let port = VerbsConfig { port: Some(2), ..VerbsConfig::default() };
        assert!(sys.choose(&port).unwrap_err().message.contains("port 2"));

        sys.device("down0", "1: DOWN\n", &[(IPV4, "RoCE v2\n")]);
        let down = VerbsConfig { device: Some("down0".into()), ..VerbsConfig::default() };
        let down = sys.choose(&down).unwrap_err().message;
        assert!(down.contains("DOWN") && down.contains("ip link set"), "{down}");

        // Of several, the one that can be used.
        sys.device("rxe0", "4: ACTIVE\n", &[(IPV4, "RoCE v2\n")]);
        assert_eq!(sys.choose(&VerbsConfig::default()).unwrap().device, "rxe0");
    }
}
