//! Which device, port and GID to use: read from sysfs, where the kernel shows all of them with their types.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use zsr_wire::Mac;

use super::error;
use crate::nic::NicError;

/// Where the kernel shows RDMA devices.
pub(super) const CLASS: &str = "/sys/class/infiniband";
/// Where it shows network interfaces.
pub(super) const NET: &str = "/sys/class/net";
const ROCE_V2: &str = "RoCE v2";

/// What the user asks for; all that is `None` is chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerbsConfig {
    /// Name of the RDMA device, as `rdma link` shows it.
    pub device: Option<String>,
    /// Its port, from 1.
    pub port: Option<u8>,
    /// Index of the GID in the port's table.
    pub gid_index: Option<u8>,
    /// The IPv4 address that the GID must have.
    pub ip: Option<Ipv4Addr>,
}

/// What is used.
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
            match choose_gid(&ports.join(port.to_string()), net, device, port, wanted) {
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

/// Why what was chosen can't be used any more.
pub(super) fn trouble(class: &Path, net: &Path, used: &Choice) -> Option<NicError> {
    let same = VerbsConfig {
        device: Some(used.device.clone()),
        port: Some(used.port),
        gid_index: Some(used.gid_index),
        ip: None,
    };
    match choose(class, net, &same) {
        Ok(found) if found.ip == used.ip => None,
        Ok(_) => Some(error::no_gid(
            &used.device,
            used.port,
            &format!("RoCEv2 GID with the address {} any more", used.ip),
        )),
        Err(e) => Some(e),
    }
}

fn choose_gid(
    folder: &Path,
    net: &Path,
    device: &str,
    port: u8,
    wanted: &VerbsConfig,
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
    fn what_can_not_be_used_is_said_with_what_to_do() {
        let sys = Sys::new();
        let none = sys.choose(&VerbsConfig::default()).unwrap_err().message;
        assert!(none.contains("rdma link add"), "{none}");

        sys.device("ib0", "4: ACTIVE\n", &[(LINK_LOCAL, "IB/RoCE v1\n")]);
        let no_ip = sys.choose(&VerbsConfig::default()).unwrap_err();
        assert!(no_ip.kind == crate::nic::NicErrorKind::Invalid && no_ip.message.contains("ip addr add"));

        sys.device("up0", "4: ACTIVE\n", &[(IPV4, "RoCE v2\n")]);
        let used = sys.choose(&VerbsConfig { device: Some("up0".into()), ..VerbsConfig::default() }).unwrap();
        let trouble = || trouble(&sys.0.path().join("ib"), &sys.0.path().join("net"), &used);
        assert_eq!(trouble(), None);
        sys.device("up0", "1: DOWN\n", &[(IPV4, "RoCE v2\n")]);
        assert!(trouble().unwrap().message.contains("DOWN"));
        fs::remove_dir_all(sys.0.path().join("ib/up0")).unwrap();
        assert!(trouble().unwrap().message.contains("no RDMA device up0"));

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
