//! Where a program finds the controller.

use crate::place::{Place, PlaceError};

/// A controller: that of a system on this machine, or one at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// At the socket in the system's folder.
    Place(Place),
    /// At `HOST:PORT`, where it was told to listen.
    Address(String),
}

impl From<&Place> for Contact {
    fn from(place: &Place) -> Self {
        Contact::Place(place.clone())
    }
}

impl From<&Contact> for Contact {
    fn from(contact: &Contact) -> Self {
        contact.clone()
    }
}

impl Contact {
    /// The controller at the address `controller`, else that of the system on this machine that is named, or the only one.
    ///
    /// # Errors
    /// [`PlaceError`]: no such system.
    pub fn find(controller: Option<&str>, system: Option<&str>) -> Result<Self, PlaceError> {
        match controller {
            Some(address) => Ok(Contact::Address(address.to_owned())),
            None => Place::find(system).map(Contact::Place),
        }
    }

    /// The endpoint's URI.
    pub(crate) fn uri(&self) -> String {
        match self {
            Contact::Place(place) => format!("unix://{}", place.controller().display()),
            Contact::Address(address) => format!("http://{address}"),
        }
    }
}
