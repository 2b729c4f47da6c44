//! `cargo xtask packages [--out DIR] [--debug]`: a tarball, a Debian package, a Python wheel, and bills of materials.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::cargo;
use crate::dist::{self, at, copy, well};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Which bills of materials cargo-cyclonedx writes of what is in the packages.
const BILLS: [(&str, &str); 3] = [
    ("control-plane/cli/zsr_bin.cdx.json", "zsr.cdx.json"),
    ("crates/p4-switch/zsr-switch_bin.cdx.json", "zsr-switch.cdx.json"),
    ("crates/capi/zsr_c_cdylib-staticlib.cdx.json", "libzsr.cdx.json"),
];
const UNITS: [&str; 3] = ["zsr-switch.service", "zsr-agent@.service", "zsr-controller.service"];

/// Builds everything, and says what it could not.
pub fn run(root: &Path, args: &[&str]) -> Result<(), String> {
    let target = dist::target(root);
    let (mut out, mut profile) = (target.join("packages"), "release");
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--out" => out = args.next().map(PathBuf::from).ok_or("--out needs a folder")?,
            "--debug" => profile = "debug",
            other => return Err(format!("packages: `{other}` is not known: expected --out DIR, --debug")),
        }
    }
    fs::create_dir_all(&out).map_err(at(&out))?;
    let out = fs::canonicalize(&out).map_err(at(&out))?;
    let tree = out.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(at(&tree))?;
    }
    let usr = tree.join("usr");
    dist::tree(root, &usr, profile)?;
    for unit in UNITS {
        let to = usr.join("lib/systemd/system").join(unit);
        copy(&root.join("xtask/packages/systemd").join(unit), &to)?;
    }
    for file in ["bin/zsr", "bin/zsr-switch", "lib/libzsr.so.1"] {
        well(Command::new("strip").arg("--strip-unneeded").arg(usr.join(file)))?;
    }
    well(Command::new("strip").arg("--strip-debug").arg(usr.join("lib/libzsr.a")))?;
    let mut left = 0;
    let made = [
        tarball(&out, &usr).map(Some),
        debian(root, &out, &tree),
        wheel(root, &out, profile),
        bills(root, &out),
    ];
    for made in made {
        match made? {
            Some(file) => println!("{}", file.display()),
            None => left += 1,
        }
    }
    fs::remove_dir_all(&tree).map_err(at(&tree))?;
    match left {
        0 => Ok(()),
        n => Err(format!("{n} of these were not made, for the reasons above")),
    }
}

/// `zsr-VERSION-TARGET.tar.gz`: one folder, which can be anywhere.
fn tarball(out: &Path, usr: &Path) -> Result<PathBuf, String> {
    let file = out.join(format!("zsr-{VERSION}-{}-linux.tar.gz", std::env::consts::ARCH));
    let rename = format!("--transform=s,^\\.,zsr-{VERSION},S");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", &rename, "-czf"]);
    well(tar.arg(&file).arg("-C").arg(usr).arg("."))?;
    Ok(file)
}

/// `zsr_VERSION_ARCHITECTURE.deb`.
fn debian(root: &Path, out: &Path, tree: &Path) -> Result<Option<PathBuf>, String> {
    let Ok(asked) = Command::new("dpkg").arg("--print-architecture").output() else {
        eprintln!("no Debian package: dpkg and dpkg-deb are not installed");
        return Ok(None);
    };
    let architecture = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    let control = tree.join("DEBIAN");
    fs::create_dir_all(&control).map_err(at(&control))?;
    for (name, mode) in [("postinst", 0o755), ("prerm", 0o755), ("postrm", 0o755), ("triggers", 0o644)] {
        let to = control.join(name);
        copy(&root.join("xtask/packages/deb").join(name), &to)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(mode)).map_err(at(&to))?;
    }
    let doc = tree.join("usr/share/doc/zsr");
    fs::rename(doc.join("LICENSE"), doc.join("copyright")).map_err(at(&doc))?;
    well(Command::new("gzip").args(["-9nrf"]).arg(tree.join("usr/share/man")))?;
    let size = size_of(tree)?.div_ceil(1024);
    let text = format!(
        "Package: zsr\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: The zsr developers <zsr@localhost>\n\
         Installed-Size: {size}\nDepends: {}, libgcc-s1, passwd\n\
         Recommends: ibverbs-providers\nSection: net\nPriority: optional\n\
         Description: zero-sided RDMA, and a software switch for P4 programs\n \
         A switch moves data between rings in the memory of hosts, which only push and\n \
         pop. The package has the command zsr, the switch zsr-switch, the library and\n \
         its headers, manual pages, and units for systemd.\n",
        libc_needed(&[
            tree.join("usr/bin/zsr"),
            tree.join("usr/bin/zsr-switch"),
            tree.join("usr/lib/libzsr.so.1")
        ])
    );
    let file = control.join("control");
    fs::write(&file, text).map_err(at(&file))?;
    let deb = out.join(format!("zsr_{VERSION}_{architecture}.deb"));
    well(Command::new("dpkg-deb").args(["--build", "--root-owner-group"]).arg(tree).arg(&deb))?;
    Ok(Some(deb))
}

/// The C library that files need, by the newest version that their symbols name.
fn libc_needed(files: &[PathBuf]) -> String {
    let symbols = Command::new("objdump").arg("-T").args(files).output();
    let symbols = symbols.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let (major, minor) = number.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    versions.max().map_or("libc6".into(), |(major, minor)| format!("libc6 (>= {major}.{minor})"))
}

fn size_of(folder: &Path) -> Result<u64, String> {
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(at(folder))?.flatten() {
        let about = entry.metadata().map_err(at(&entry.path()))?;
        sum += if about.is_dir() { size_of(&entry.path())? } else { about.len() };
    }
    Ok(sum)
}

/// The Python package with the library inside.
fn wheel(root: &Path, out: &Path, profile: &str) -> Result<Option<PathBuf>, String> {
    let mut maturin = Command::new("maturin");
    maturin.current_dir(root.join("python")).args(["build", "--locked", "--out"]).arg(out);
    if profile == "release" {
        maturin.args(["--release", "--strip"]);
    }
    if Command::new("maturin").arg("--version").output().is_err() {
        eprintln!("no Python wheel: maturin is not installed (pip install maturin)");
        return Ok(None);
    }
    well(&mut maturin)?;
    let made = fs::read_dir(out).map_err(at(out))?.flatten().map(|entry| entry.path());
    let wheel = made
        .filter(|path| path.extension().is_some_and(|e| e == "whl"))
        .max_by_key(|path| fs::metadata(path).and_then(|about| about.modified()).ok());
    wheel.map(Some).ok_or_else(|| format!("maturin has put no wheel into {}", out.display()))
}

/// Bills of materials (CycloneDX) of the programs and the library. The tool writes one beside each Cargo.toml.
fn bills(root: &Path, out: &Path) -> Result<Option<PathBuf>, String> {
    let has_tool = cargo().args(["cyclonedx", "--version"]).output().is_ok_and(|said| said.status.success());
    if !has_tool {
        eprintln!("no bills of materials: cargo-cyclonedx is not installed (cargo install cargo-cyclonedx)");
        return Ok(None);
    }
    let mut tool = cargo();
    tool.current_dir(root).args(["cyclonedx", "--format", "json", "--describe", "binaries", "--quiet"]);
    let asked = well(&mut tool);
    for (from, to) in BILLS {
        if asked.is_ok() {
            copy(&root.join(from), &out.join(to))?;
        }
    }
    // Those of the other crates, too.
    let strays = ["ls-files", "--others", "--exclude-standard", "--", "*.cdx.json"];
    let listed =
        Command::new("git").current_dir(root).args(strays).output().map_err(|e| format!("git: {e}"))?;
    let inside = |path: &Path| fs::canonicalize(path).is_ok_and(|path| path.starts_with(out));
    let strays = String::from_utf8_lossy(&listed.stdout);
    for path in strays.lines().map(|stray| root.join(stray)).filter(|path| !inside(path)) {
        fs::remove_file(&path).map_err(at(&path))?;
    }
    asked.map(|()| Some(out.join(BILLS[0].1)))
}
