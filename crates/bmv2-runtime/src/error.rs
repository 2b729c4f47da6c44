//! Refusals, with the numbers that bmv2's interface has for them.

use zsr_soft_switch::ControlError;

/// The reason of a call that is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A refusal that the interface declares for the call.
    #[error("{why}")]
    Refused {
        /// The number of the reason in the call's own list of reasons.
        code: i32,
        /// The reason in words.
        why: String,
    },
    /// The call does not exist, or asks for something that this switch does not have.
    #[error("{0}")]
    Unsupported(String),
    /// Arguments are missing, or of another type than the interface declares.
    #[error("{0}")]
    Arguments(String),
    /// The switch ends.
    #[error("the switch has stopped")]
    Stopped,
}

/// The outcome of a call.
pub(crate) type Result<T> = std::result::Result<T, Error>;

pub(crate) fn refused(code: i32, why: impl Into<String>) -> Error {
    Error::Refused { code, why: why.into() }
}

pub(crate) fn unsupported(why: impl Into<String>) -> Error {
    Error::Unsupported(why.into())
}

/// Reasons of calls about tables and action profiles.
pub(crate) mod table {
    pub(crate) const FULL: i32 = 1;
    pub(crate) const INVALID_HANDLE: i32 = 2;
    pub(crate) const COUNTERS_DISABLED: i32 = 4;
    pub(crate) const METERS_DISABLED: i32 = 5;
    pub(crate) const AGEING_DISABLED: i32 = 6;
    pub(crate) const INVALID_TABLE_NAME: i32 = 7;
    pub(crate) const INVALID_ACTION_NAME: i32 = 8;
    pub(crate) const WRONG_TABLE_TYPE: i32 = 9;
    pub(crate) const INVALID_MEMBER: i32 = 10;
    pub(crate) const MEMBER_STILL_USED: i32 = 11;
    pub(crate) const MEMBER_ALREADY_IN_GROUP: i32 = 12;
    pub(crate) const MEMBER_NOT_IN_GROUP: i32 = 13;
    pub(crate) const INVALID_GROUP: i32 = 14;
    pub(crate) const GROUP_STILL_USED: i32 = 15;
    pub(crate) const EMPTY_GROUP: i32 = 16;
    pub(crate) const DUPLICATE_ENTRY: i32 = 17;
    pub(crate) const BAD_MATCH_KEY: i32 = 18;
    pub(crate) const INVALID_METER_OPERATION: i32 = 19;
    pub(crate) const DEFAULT_ENTRY_IS_CONST: i32 = 21;
    pub(crate) const INVALID_PROFILE_NAME: i32 = 23;
    pub(crate) const NO_SELECTION: i32 = 24;
    pub(crate) const IMMUTABLE_ENTRIES: i32 = 25;
    pub(crate) const BAD_ACTION_DATA: i32 = 26;
    pub(crate) const NO_TABLE_KEY: i32 = 27;
    pub(crate) const ERROR: i32 = 100;
}

/// Reasons of calls about counters, registers, and most of those about meters.
pub(crate) mod cell {
    pub(crate) const INVALID_NAME: i32 = 1;
    pub(crate) const INVALID_INDEX: i32 = 2;
    pub(crate) const ERROR: i32 = 3;
    /// Of meters only.
    pub(crate) const BAD_RATES: i32 = 3;
    /// Of meters only.
    pub(crate) const INVALID_RATE: i32 = 4;
    /// Of meters only.
    pub(crate) const INVALID_BURST: i32 = 5;
}

/// Reasons of calls about parser value sets, calculations, mirroring sessions, and ports.
pub(crate) mod other {
    pub(crate) const INVALID_VALUE_SET: i32 = 1;
    pub(crate) const VALUE_SET_ERROR: i32 = 2;
    pub(crate) const INVALID_CALCULATION: i32 = 1;
    pub(crate) const WRONG_CALCULATION: i32 = 2;
    pub(crate) const SESSION_NOT_FOUND: i32 = 1;
    pub(crate) const PORT_ERROR: i32 = 1;
    pub(crate) const SWAP_DISABLED: i32 = 1;
}

/// Reasons of calls about multicast.
pub(crate) mod multicast {
    pub(crate) const INVALID_GROUP: i32 = 2;
    pub(crate) const INVALID_GROUP_HANDLE: i32 = 3;
    pub(crate) const INVALID_NODE: i32 = 4;
    pub(crate) const ERROR: i32 = 5;
}

/// A refusal of the switch, as calls about tables and action profiles report it.
impl From<ControlError> for Error {
    fn from(error: ControlError) -> Error {
        let code = match &error {
            ControlError::Full { .. } => table::FULL,
            ControlError::NoEntry { .. } => table::INVALID_HANDLE,
            ControlError::NotFound { kind: "member", .. } => table::INVALID_MEMBER,
            ControlError::NotFound { kind: "group", .. } => table::INVALID_GROUP,
            ControlError::Duplicate { kind: "member in the group" } => table::MEMBER_ALREADY_IN_GROUP,
            ControlError::Duplicate { .. } => table::DUPLICATE_ENTRY,
            ControlError::InUse { kind: "member" } => table::MEMBER_STILL_USED,
            ControlError::InUse { .. } => table::GROUP_STILL_USED,
            ControlError::Const { what } if what.contains("default") => table::DEFAULT_ENTRY_IS_CONST,
            ControlError::Const { .. } => table::IMMUTABLE_ENTRIES,
            ControlError::TooWide { what: "parameter", .. } | ControlError::ParamCount { .. } => {
                table::BAD_ACTION_DATA
            }
            ControlError::TooWide { .. }
            | ControlError::KeyCount { .. }
            | ControlError::KeyKind { .. }
            | ControlError::BadKey { .. } => table::BAD_MATCH_KEY,
            ControlError::WrongAction { .. } => table::INVALID_ACTION_NAME,
            ControlError::WrongEntryAction(_) => table::WRONG_TABLE_TYPE,
            _ => table::ERROR,
        };
        refused(code, error.to_string())
    }
}
