//! A program that was compiled for a Tofino and is loaded through P4Runtime.

use crate::bfrt::BfrtError;
use p4runtime_proto::p4::config::v1::P4Info;
use std::path::PathBuf;
use zsr_topology::Switch;

const P4INFO: &str = "p4info.txtpb";
const DEVICE: &str = "device.bin";

/// The files that the operator has compiled.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) folder: PathBuf,
    pub(super) p4info: P4Info,
    /// The program for the switch, in the form that its P4Runtime server takes.
    pub(super) device: Vec<u8>,
}

impl Compiled {
    /// The files in `artifacts` of `switch`.
    pub(super) fn load(switch: &Switch) -> Result<Self, BfrtError> {
        let folder = switch.artifacts.clone().ok_or_else(|| {
            let advice =
                "name the folder with p4info.txtpb and device.bin: artifacts: FOLDER in the topology";
            BfrtError::Unfit(advice.into())
        })?;
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|e| BfrtError::Unfit(format!("{}: {e}", path.display())))
        };
        let bad =
            |e: String| BfrtError::Unfit(format!("{}: not a P4Info: {e}", folder.join(P4INFO).display()));
        let text = String::from_utf8(read(P4INFO)?).map_err(|e| bad(e.to_string()))?;
        let p4info = p4runtime_proto::p4info::parse(&text).map_err(|e| bad(e.to_string()))?;
        let device = read(DEVICE)?;
        Ok(Compiled { folder, p4info, device })
    }
}
