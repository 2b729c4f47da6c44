//! `cargo xtask dist [--prefix DIR] [--debug]`: a tree of commands, libraries, headers, manual pages and examples, which needs this
//! repository no more.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::cargo;

/// Files of the repository and their places below the prefix.
const FILES: [(&str, &str); 27] = [
    ("crates/capi/include/zsr.h", "include/zsr.h"),
    ("crates/capi/include/zsr.hpp", "include/zsr.hpp"),
    ("host-agent/cuda/zsr.cuh", "include/zsr.cuh"),
    ("host-agent/cuda/zsr_groups.cuh", "include/zsr_groups.cuh"),
    ("host-agent/cuda/zsr_segments.cuh", "include/zsr_segments.cuh"),
    ("crates/capi/examples/rows.c", "share/zsr/examples/rows.c"),
    ("crates/capi/examples/rows.cpp", "share/zsr/examples/rows.cpp"),
    ("host-agent/cuda/examples/device.hpp", "share/zsr/examples/cuda/device.hpp"),
    ("host-agent/cuda/examples/join.cu", "share/zsr/examples/cuda/join.cu"),
    ("host-agent/cuda/examples/moe.cu", "share/zsr/examples/cuda/moe.cu"),
    ("topologies/shuffle-2x2.yaml", "share/zsr/topologies/shuffle-2x2.yaml"),
    ("examples/prometheus/alerts.yml", "share/zsr/prometheus/alerts.yml"),
    ("examples/prometheus/grafana.json", "share/zsr/prometheus/grafana.json"),
    ("examples/prometheus/prometheus.yml", "share/zsr/prometheus/prometheus.yml"),
    ("docs/dash.md", "share/doc/zsr/dash.md"),
    ("docs/dash.png", "share/doc/zsr/dash.png"),
    ("docs/debugging.md", "share/doc/zsr/debugging.md"),
    ("docs/guide.md", "share/doc/zsr/guide.md"),
    ("docs/install.md", "share/doc/zsr/install.md"),
    ("docs/libraries.md", "share/doc/zsr/libraries.md"),
    ("docs/metrics.md", "share/doc/zsr/metrics.md"),
    ("docs/reference.md", "share/doc/zsr/reference.md"),
    ("docs/reliability.md", "share/doc/zsr/reliability.md"),
    ("docs/security.md", "share/doc/zsr/security.md"),
    ("docs/sql.md", "share/doc/zsr/sql.md"),
    ("docs/switch.md", "share/doc/zsr/switch.md"),
    ("LICENSE", "share/doc/zsr/LICENSE"),
];

/// The folder that cargo builds in.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

/// Builds library and commands, and installs them.
pub fn run(root: &Path, args: &[&str]) -> Result<(), String> {
    let (mut prefix, mut profile) = (target(root).join("dist"), "release");
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--prefix" => prefix = args.next().map(PathBuf::from).ok_or("--prefix needs a folder")?,
            "--debug" => profile = "debug",
            other => return Err(format!("dist: `{other}` is not known: expected --prefix DIR, --debug")),
        }
    }
    tree(root, &prefix, profile)?;
    println!(
        "{}: bin/zsr, bin/zsr-switch, lib/libzsr.so, lib/libzsr.a, include/zsr.h, include/zsr.hpp, share/",
        prefix.display()
    );
    Ok(())
}

/// The same, with a profile of cargo.
pub fn tree(root: &Path, prefix: &Path, profile: &str) -> Result<(), String> {
    // With the features that the workspace's tests have, when these have built nearly all of it.
    let library = if profile == "debug" { &["--workspace", "--lib"][..] } else { &["-p", "zsr-capi"] };
    for what in [library, &["--workspace", "--bin", "zsr", "--bin", "zsr-switch"]] {
        let mut build = cargo();
        build.current_dir(root).args(["build", "--locked"]).args(what);
        if profile == "release" {
            build.arg("--release");
        }
        let status = build.status().map_err(|e| format!("cargo: {e}"))?;
        if !status.success() {
            return Err(format!("cargo build {}: {status}", what.join(" ")));
        }
    }
    let built = target(root).join(profile);
    for (from, to) in [
        ("libzsr_c.so", "lib/libzsr.so.1"),
        ("libzsr_c.a", "lib/libzsr.a"),
        ("zsr", "bin/zsr"),
        ("zsr-switch", "bin/zsr-switch"),
    ] {
        copy(&built.join(from), &prefix.join(to))?;
    }
    for (from, to) in FILES {
        copy(&root.join(from), &prefix.join(to))?;
    }
    let link = prefix.join("lib/libzsr.so");
    if link.is_symlink() {
        std::fs::remove_file(&link).map_err(at(&link))?;
    }
    symlink("libzsr.so.1", &link).map_err(at(&link))?;
    let pc = prefix.join("lib/pkgconfig/zsr.pc");
    make_folder(&pc)?;
    std::fs::write(&pc, pkg_config()).map_err(at(&pc))?;
    pages(&built.join("zsr"), &built.join("zsr-switch"), prefix)
}

/// Manual pages and completions, written by the commands themselves.
fn pages(zsr: &Path, switch: &Path, prefix: &Path) -> Result<(), String> {
    let man = prefix.join("share/man/man1");
    std::fs::create_dir_all(&man).map_err(at(&man))?;
    well(Command::new(zsr).args(["reference", "--man"]).arg(&man))?;
    let page = prefix.join("share/man/man8/zsr-switch.8");
    make_folder(&page)?;
    well(Command::new(switch).arg("--man").stdout(File::create(&page).map_err(at(&page))?))?;
    for (shell, place) in [
        ("bash", "share/bash-completion/completions/zsr"),
        ("zsh", "share/zsh/site-functions/_zsr"),
        ("fish", "share/fish/vendor_completions.d/zsr.fish"),
    ] {
        let path = prefix.join(place);
        make_folder(&path)?;
        let script = File::create(&path).map_err(at(&path))?;
        well(Command::new(zsr).args(["completion", shell]).stdout(script))?;
    }
    Ok(())
}

/// The tree can be moved: paths are found from the file's own.
fn pkg_config() -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         archive=${{libdir}}/libzsr.a -lgcc_s -lpthread -lm -ldl\n\
         \n\
         Name: zsr\n\
         Description: Push and pop at the rings of a running system of zsr\n\
         Version: {}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -lzsr\n\
         Libs.private: -lgcc_s -lpthread -lm -ldl\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Runs a command, which has to succeed.
pub fn well(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|e| format!("{name}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}")) }
}

pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_folder(to)?;
    // A new file: programs that run keep the old one.
    if to.exists() {
        std::fs::remove_file(to).map_err(at(to))?;
    }
    std::fs::copy(from, to).map(|_| ()).map_err(at(from))
}

pub fn make_folder(file: &Path) -> Result<(), String> {
    let folder = file.parent().unwrap_or(file);
    std::fs::create_dir_all(folder).map_err(at(folder))
}

pub fn at(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |e| format!("{}: {e}", path.display())
}
