//! `cargo xtask proto [--check]`: the Rust code of our .proto files, and the descriptors that the text format needs.
//! They are checked in, so that a build of zsr does not build a compiler of .proto files first.

#![forbid(unsafe_code)]

use prost::Message;
use prost_types::FileDescriptorSet;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use tonic_prost_build::{Builder, Config};

/// A crate with .proto files of its own.
struct Protos {
    /// The crate's folder, from the repository's root. Its .proto files are in `proto/`, their code in
    /// `src/generated/`.
    crate_dir: &'static str,
    /// The files, as they import one another.
    files: &'static [&'static str],
    /// A folder of .proto files that they import, if there is one, from the repository's root.
    imports: Option<&'static str>,
    /// How the code differs from what tonic makes otherwise.
    options: fn(Builder) -> Builder,
    /// Whether all packages are modules of one file, `packages.rs`, and the descriptors lie beside it.
    reflects: bool,
}

const PROTOS: [Protos; 4] = [
    Protos {
        crate_dir: "crates/api",
        files: &[
            "zsr/controller/v1/controller.proto",
            "zsr/agent/v1/agent.proto",
            "zsr/agent/v1/program.proto",
        ],
        imports: None,
        options: |builder| builder.server_mod_attribute(".", "#[cfg(feature = \"server\")]"),
        reflects: false,
    },
    Protos {
        crate_dir: "crates/p4runtime-proto",
        files: &[
            "google/rpc/status.proto",
            "p4/config/v1/p4types.proto",
            "p4/config/v1/p4info.proto",
            "p4/v1/p4data.proto",
            "p4/v1/entities.proto",
            "p4/v1/stream.proto",
            "p4/v1/p4runtime.proto",
        ],
        imports: None,
        options: |builder| builder.include_file("packages.rs"),
        reflects: true,
    },
    Protos {
        crate_dir: "crates/bmv2",
        files: &["p4/bm/dataplane.proto"],
        imports: None,
        options: |builder| builder,
        reflects: false,
    },
    Protos {
        crate_dir: "control-plane/switch",
        files: &["bfrt/bfruntime.proto"],
        imports: Some("crates/p4runtime-proto/proto"),
        options: |builder| builder.extern_path(".google.rpc", "::p4runtime_proto::google::rpc"),
        reflects: false,
    },
];

/// Contents of a folder's files by their names.
type Files = BTreeMap<String, Vec<u8>>;

fn main() -> ExitCode {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("xtask/proto lies in the repository");
    let check = std::env::args().nth(1).is_some_and(|arg| arg == "--check");
    for protos in &PROTOS {
        if let Err(e) = protos.run(root, check) {
            eprintln!("xtask proto: {}: {e}", protos.crate_dir);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

impl Protos {
    /// Writes the crate's generated files; with `check`, only says whether they are what would be written.
    fn run(&self, root: &Path, check: bool) -> Result<(), Box<dyn Error>> {
        let folder = root.join(self.crate_dir).join("src/generated");
        let made = self.generate(root)?;
        if check {
            if read(&folder)? != made {
                return Err("src/generated is not what `cargo xtask proto` writes. Run it.".into());
            }
            println!("{}/src/generated: fits proto/", self.crate_dir);
            return Ok(());
        }
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir(&folder)?;
        for (name, content) in made {
            std::fs::write(folder.join(&name), content)?;
            println!("{}/src/generated/{name}", self.crate_dir);
        }
        Ok(())
    }

    fn generate(&self, root: &Path) -> Result<Files, Box<dyn Error>> {
        let includes =
            [Some(root.join(self.crate_dir).join("proto")), self.imports.map(|dir| root.join(dir))];
        let descriptors = protox::compile(self.files, includes.into_iter().flatten())?;
        let out = tempfile::tempdir()?;
        if self.reflects {
            std::fs::write(
                out.path().join("descriptors.bin"),
                without_comments(&descriptors).encode_to_vec(),
            )?;
        }
        let mut config = Config::new();
        if self.reflects {
            config.enable_type_names();
        }
        let builder = tonic_prost_build::configure().out_dir(out.path()).emit_rerun_if_changed(false);
        (self.options)(builder).compile_fds_with_config(descriptors, config)?;
        read(out.path())
    }
}

/// Descriptors without source text, which nobody asks them for.
fn without_comments(descriptors: &FileDescriptorSet) -> FileDescriptorSet {
    let mut bare = descriptors.clone();
    for file in &mut bare.file {
        file.source_code_info = None;
    }
    bare
}

fn read(folder: &Path) -> Result<Files, Box<dyn Error>> {
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?);
    }
    Ok(files)
}
