//! Entries as types of the P4 program: the compiler checks the names of a table's keys and of an action's parameters.

use super::schema::{Schema, SchemaError};
use p4runtime_proto::p4::v1::TableEntry;

/// A table that the controller fills. A value is the key of one entry.
pub trait Table {
    /// The table's name in P4Info.
    const NAME: &'static str;
    /// The key's values, in the order of the program.
    fn values(&self) -> impl AsRef<[u64]>;
}

/// An action. A value is the action with its parameters.
pub trait Action {
    /// The action's name in P4Info.
    const NAME: &'static str;
    /// The parameters, in the order of the program.
    fn values(&self) -> impl AsRef<[u64]>;
}

/// A table whose entries can have action `A`.
pub trait Runs<A: Action>: Table {}

impl Schema {
    /// The entry of table `T` at `key` with `action`.
    ///
    /// # Errors
    /// When the switch runs a program that does not fit this controller, or a value has more bits than its field.
    pub fn entry<T: Runs<A>, A: Action>(&self, key: T, action: A) -> Result<TableEntry, SchemaError> {
        self.untyped(T::NAME, key.values().as_ref(), A::NAME, action.values().as_ref())
    }
}

/// A type per table.
macro_rules! tables {
    ($($name:ident = $alias:literal { $($field:ident: $type:ty),* } runs $($action:ident),*;)*) => {
        /// Tables that the controller fills: a value is an entry's key.
        pub mod table {
            use super::super::typed::{Runs, Table};
            $(
                #[derive(Clone, Copy, Debug)]
                pub struct $name { $(pub $field: $type),* }
                impl Table for $name {
                    const NAME: &'static str = $alias;
                    fn values(&self) -> impl AsRef<[u64]> { [$(u64::from(self.$field)),*] }
                }
                $(impl Runs<super::action::$action> for $name {})*
            )*
            /// All of them, each with every action of its entries.
            pub const ALL: &[(&str, &str)] =
                &[$($(($alias, <super::action::$action as super::super::typed::Action>::NAME),)*)*];
        }
    };
}

/// A type per action.
macro_rules! actions {
    ($($name:ident = $alias:literal { $($field:ident: $type:ty),* };)*) => {
        /// Actions of entries: a value is the action with its parameters.
        pub mod action {
            use super::super::typed::Action;
            $(
                #[derive(Clone, Copy, Debug)]
                pub struct $name { $(pub $field: $type),* }
                impl Action for $name {
                    const NAME: &'static str = $alias;
                    fn values(&self) -> impl AsRef<[u64]> { [$(u64::from(self.$field)),*] }
                }
            )*
        }
    };
}

pub(super) use {actions, tables};
